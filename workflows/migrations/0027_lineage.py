"""Forks: from which instance one goes on, and the states that instances had.

The index of it is built by 0029.
"""

import django.core.serializers.json
import django.db.models.deletion
from django.db import migrations, models

import workflows.fields
from workflows.migrations._online import ChangeBriefly


class Migration(migrations.Migration):
    dependencies = [
        ("holdpoint", "0026_open_questions"),
    ]

    operations = [
        migrations.CreateModel(
            name="KeptState",
            fields=[
                (
                    "pk",
                    models.CompositePrimaryKey(
                        "instance_id", "fence", blank=True, editable=False, primary_key=True, serialize=False
                    ),
                ),
                (
                    "instance",
                    models.ForeignKey(
                        db_constraint=False,
                        db_index=False,
                        on_delete=django.db.models.deletion.DO_NOTHING,
                        related_name="kept_states",
                        to="holdpoint.instance",
                    ),
                ),
                ("kept_at", models.DateTimeField()),
                ("fence", models.IntegerField()),
                ("seq", models.IntegerField()),
                ("spawns", models.IntegerField()),
                ("attempt", models.SmallIntegerField()),
                ("timed_out", models.BooleanField()),
                ("step", models.TextField()),
                ("names", workflows.fields.TextListField(null=True)),
                ("state", models.JSONField(encoder=django.core.serializers.json.DjangoJSONEncoder, null=True)),
            ],
            options={
                "db_table": "holdpoint_kept_state",
                "ordering": ["instance_id", "fence"],
                "abstract": False,
                "default_permissions": ("view",),
                "base_manager_name": "objects",
            },
        ),
        migrations.AlterModelOptions(
            name="instance",
            options={
                "base_manager_name": "objects",
                "default_permissions": ("view",),
                "ordering": ["-id"],
                "permissions": [
                    ("start_instance", "Can start instances"),
                    ("signal_instance", "Can send signals and events"),
                    ("cancel_instance", "Can cancel instances"),
                    ("retry_instance", "Can retry failed instances"),
                    ("fork_instance", "Can fork instances"),
                ],
                "verbose_name": "instance",
                "verbose_name_plural": "instances",
            },
        ),
        ChangeBriefly(
            ["holdpoint_instance"],
            [
                migrations.AddField(
                    model_name="instance",
                    name="forked_from",
                    field=models.ForeignKey(
                        db_constraint=False,
                        db_index=False,
                        null=True,
                        on_delete=django.db.models.deletion.DO_NOTHING,
                        related_name="forks",
                        to="holdpoint.instance",
                        verbose_name="forked from",
                    ),
                ),
            ],
        ),
    ]
