"""Schedules and their ticks, and of each instance the tick that started it."""

import django.core.serializers.json
import django.db.models.deletion
from django.db import migrations, models

from workflows.migrations._online import ChangeBriefly


class Migration(migrations.Migration):
    dependencies = [
        ("holdpoint", "0024_flow_control"),
    ]

    operations = [
        migrations.CreateModel(
            name="Schedule",
            fields=[
                ("id", models.BigAutoField(primary_key=True, serialize=False)),
                ("name", models.TextField(verbose_name="name")),
                ("workflow", models.TextField(verbose_name="workflow")),
                (
                    "input",
                    models.JSONField(encoder=django.core.serializers.json.DjangoJSONEncoder, verbose_name="input"),
                ),
                ("cron", models.TextField(null=True, verbose_name="cron")),
                ("every", models.DurationField(null=True, verbose_name="every")),
                ("tz", models.TextField(verbose_name="time zone")),
                ("overlap", models.TextField(verbose_name="overlap")),
                ("catch_up", models.IntegerField(verbose_name="catch up")),
                ("enabled", models.BooleanField(verbose_name="enabled")),
                ("created_at", models.DateTimeField(verbose_name="created at")),
                ("anchor_at", models.DateTimeField()),
                ("next_at", models.DateTimeField(null=True, verbose_name="next tick")),
                ("last_at", models.DateTimeField(null=True, verbose_name="last tick")),
                ("last_instance", models.UUIDField(null=True)),
                ("error", models.TextField(null=True, verbose_name="error")),
                ("declared", models.TextField(null=True)),
                ("edited", models.BooleanField(db_default=False)),
                ("removed_at", models.DateTimeField(null=True)),
                (
                    "workspace",
                    models.ForeignKey(
                        db_index=False,
                        on_delete=django.db.models.deletion.PROTECT,
                        to="holdpoint.workspace",
                        verbose_name="workspace",
                    ),
                ),
            ],
            options={
                "verbose_name": "schedule",
                "verbose_name_plural": "schedules",
                "db_table": "holdpoint_schedule",
                "ordering": ["name", "id"],
                "permissions": [
                    ("manage_schedule", "Can make, change and remove schedules"),
                    ("run_schedule", "Can run schedules now"),
                ],
                "abstract": False,
                "default_permissions": ("view",),
                "base_manager_name": "objects",
            },
        ),
        migrations.CreateModel(
            name="ScheduleTick",
            fields=[
                (
                    "pk",
                    models.CompositePrimaryKey(
                        "schedule_id", "at", blank=True, editable=False, primary_key=True, serialize=False
                    ),
                ),
                ("at", models.DateTimeField(verbose_name="at")),
                ("fired_at", models.DateTimeField(verbose_name="fired at")),
                ("outcome", models.TextField(verbose_name="outcome")),
                ("instance", models.UUIDField(null=True)),
                (
                    "schedule",
                    models.ForeignKey(
                        db_constraint=False,
                        db_index=False,
                        on_delete=django.db.models.deletion.DO_NOTHING,
                        related_name="ticks",
                        to="holdpoint.schedule",
                    ),
                ),
            ],
            options={
                "verbose_name": "tick of a schedule",
                "verbose_name_plural": "ticks of schedules",
                "db_table": "holdpoint_schedule_tick",
                "ordering": ["schedule_id", "-at"],
                "abstract": False,
                "default_permissions": ("view",),
                "base_manager_name": "objects",
            },
        ),
        migrations.AddIndex(
            model_name="schedule",
            index=models.Index(
                condition=models.Q(("next_at__isnull", False)), fields=["next_at"], name="holdpoint_schedule_due"
            ),
        ),
        migrations.AddConstraint(
            model_name="schedule",
            constraint=models.UniqueConstraint(fields=("workspace", "name"), name="holdpoint_schedule_name"),
        ),
        migrations.AddConstraint(
            model_name="schedule",
            constraint=models.CheckConstraint(
                condition=models.Q(
                    models.Q(("cron__isnull", True), ("every__isnull", False)),
                    models.Q(("cron__isnull", False), ("every__isnull", True)),
                    _connector="OR",
                ),
                name="holdpoint_schedule_times",
            ),
        ),
        migrations.AddConstraint(
            model_name="schedule",
            constraint=models.CheckConstraint(
                condition=models.Q(
                    models.Q(("enabled", True), ("next_at__isnull", False), ("removed_at__isnull", True)),
                    models.Q(
                        models.Q(("enabled", False), ("removed_at__isnull", False), _connector="OR"),
                        ("next_at__isnull", True),
                    ),
                    _connector="OR",
                ),
                name="holdpoint_schedule_next",
            ),
        ),
        migrations.AddConstraint(
            model_name="schedule",
            constraint=models.CheckConstraint(
                condition=models.Q(("catch_up__gte", 0), ("overlap__in", ["allow", "skip", "cancel"])),
                name="holdpoint_schedule_options",
            ),
        ),
        migrations.AddIndex(
            model_name="scheduletick",
            index=models.Index(fields=["fired_at"], name="holdpoint_schedule_tick_age"),
        ),
        migrations.AddConstraint(
            model_name="scheduletick",
            constraint=models.CheckConstraint(
                condition=models.Q(
                    models.Q(("instance__isnull", False), ("outcome", "started")),
                    models.Q(("instance__isnull", True), ("outcome__in", ["skipped", "refused"])),
                    _connector="OR",
                ),
                name="holdpoint_schedule_tick_outcome",
            ),
        ),
        # New tables that refer to a workspace are tied to it at the end of the transaction.
        ChangeBriefly(
            ["holdpoint_workspace", "holdpoint_instance"],
            [
                migrations.AddField(
                    model_name="instance",
                    name="tick",
                    field=models.DateTimeField(editable=False, null=True, verbose_name="tick"),
                ),
            ],
        ),
    ]
