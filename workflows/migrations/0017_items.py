"""Units of items: a wait for many answers, each with a question of its own."""

import django.db.models.expressions
from django.db import migrations, models

import workflows.fields


class Migration(migrations.Migration):
    dependencies = [
        ("holdpoint", "0016_progress"),
    ]

    operations = [
        migrations.RemoveIndex(
            model_name="interaction",
            name="holdpoint_interaction_inbox",
        ),
        migrations.RemoveIndex(
            model_name="interaction",
            name="holdpoint_interaction_assignee",
        ),
        migrations.RemoveIndex(
            model_name="interaction",
            name="holdpoint_interaction_group",
        ),
        migrations.AddField(
            model_name="awaitunit",
            name="answered",
            field=models.IntegerField(db_default=0, default=0),
        ),
        migrations.AddField(
            model_name="awaitunit",
            name="concurrency",
            field=models.IntegerField(db_default=1, default=1),
        ),
        migrations.AddField(
            model_name="awaitunit",
            name="dispatched_at",
            field=models.DateTimeField(null=True),
        ),
        migrations.AddField(
            model_name="awaitunit",
            name="expired",
            field=models.IntegerField(db_default=0, default=0),
        ),
        migrations.AddField(
            model_name="awaitunit",
            name="hooked",
            field=models.BooleanField(db_default=False, default=False),
        ),
        migrations.AddField(
            model_name="awaitunit",
            name="items",
            field=models.BooleanField(db_default=False, default=False),
        ),
        migrations.AddField(
            model_name="awaitunit",
            name="lines",
            field=models.BooleanField(db_default=False, default=False),
        ),
        migrations.AddField(
            model_name="awaitunit",
            name="phase",
            field=workflows.fields.UnitPhaseField(null=True),
        ),
        migrations.AddField(
            model_name="awaitunit",
            name="policy",
            field=models.TextField(null=True),
        ),
        migrations.AddField(
            model_name="awaitunit",
            name="queued",
            field=models.IntegerField(db_default=0, default=0),
        ),
        migrations.AddField(
            model_name="awaitunit",
            name="seq",
            field=models.IntegerField(db_default=0, default=0),
        ),
        migrations.AddField(
            model_name="awaitunit",
            name="timeout",
            field=models.FloatField(null=True),
        ),
        migrations.AddField(
            model_name="interaction",
            name="error",
            field=models.TextField(null=True, verbose_name="error"),
        ),
        migrations.AddField(
            model_name="interaction",
            name="item",
            field=models.BooleanField(db_default=False, default=False),
        ),
        migrations.AddField(
            model_name="interaction",
            name="queued",
            field=models.BooleanField(db_default=False, default=False),
        ),
        migrations.AddIndex(
            model_name="awaitunit",
            index=models.Index(condition=models.Q(("phase", "filling")), fields=["id"], name="holdpoint_unit_filling"),
        ),
        migrations.AddIndex(
            model_name="awaitunit",
            index=models.Index(
                condition=models.Q(("phase", "closed")), fields=["id"], name="holdpoint_unit_unreleased"
            ),
        ),
        migrations.AddIndex(
            model_name="interaction",
            index=models.Index(
                condition=models.Q(("queued", False), ("status", "pending")),
                fields=["workspace", "deadline", "id"],
                name="holdpoint_interaction_inbox",
            ),
        ),
        migrations.AddIndex(
            model_name="interaction",
            index=models.Index(
                condition=models.Q(("assignee__isnull", False), ("queued", False), ("status", "pending")),
                fields=["workspace", "assignee", "deadline", "id"],
                name="holdpoint_interaction_assignee",
            ),
        ),
        migrations.AddIndex(
            model_name="interaction",
            index=models.Index(
                condition=models.Q(("group__isnull", False), ("queued", False), ("status", "pending")),
                fields=["workspace", "group", "deadline", "id"],
                name="holdpoint_interaction_group",
            ),
        ),
        migrations.AddIndex(
            model_name="interaction",
            index=models.Index(
                condition=models.Q(("deadline__isnull", False), ("item", True), ("status", "pending")),
                fields=["deadline", "id"],
                name="holdpoint_interaction_due",
            ),
        ),
        migrations.AddIndex(
            model_name="interaction",
            index=models.Index(
                condition=models.Q(("queued", True), ("status", "pending")),
                fields=["unit", "index"],
                name="holdpoint_interaction_queue",
            ),
        ),
        migrations.AddConstraint(
            model_name="awaitunit",
            constraint=models.CheckConstraint(
                condition=models.Q(
                    ("answered__gte", 0),
                    ("expired__gte", 0),
                    ("queued__gte", 0),
                    (
                        "total__gte",
                        django.db.models.expressions.CombinedExpression(
                            django.db.models.expressions.CombinedExpression(
                                django.db.models.expressions.CombinedExpression(
                                    models.F("queued"), "+", models.F("answered")
                                ),
                                "+",
                                models.F("failed"),
                            ),
                            "+",
                            models.F("expired"),
                        ),
                    ),
                ),
                name="holdpoint_unit_items",
            ),
        ),
    ]
