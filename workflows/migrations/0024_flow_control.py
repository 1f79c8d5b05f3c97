"""Queues, priorities, limits and rates: where each instance stands, and what is set at run time.

The indexes of it are built by 0029.
"""

import django.db.models.deletion
from django.contrib.postgres.fields import ArrayField
from django.contrib.postgres.operations import AddConstraintNotValid
from django.db import migrations, models

from workflows.migrations._online import ChangeBriefly

#: A claim from a lane raises the fence by two. One that raises it by one is of a release that knows no lanes: it would
#: take a row without a slot, so it does not get it, nor does it notice. The trigger is the one of 0002, because another
#: would be asked at each change of a status.
LANES_EDGES = """
CREATE OR REPLACE FUNCTION holdpoint_refuse_edge() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  IF OLD.status = 1 AND NEW.status = 2 THEN
    RETURN NULL;
  END IF;
  RAISE EXCEPTION 'instance % cannot go from status % to %', OLD.id, OLD.status, NEW.status
    USING ERRCODE = 'check_violation';
END $$;
CREATE OR REPLACE TRIGGER holdpoint_instance_edge BEFORE UPDATE OF status ON holdpoint_instance FOR EACH ROW
  WHEN (NEW.status <> OLD.status AND NOT CASE OLD.status
    WHEN 1 THEN NEW.status = 12 OR (NEW.status = 2 AND (NEW.lane IS NULL OR NEW.fence > OLD.fence + 1))
    WHEN 2 THEN NEW.status IN (1, 3, 4, 5, 10, 11, 12)
    WHEN 3 THEN NEW.status IN (1, 12)
    WHEN 4 THEN NEW.status IN (1, 12)
    WHEN 5 THEN NEW.status IN (1, 12)
    WHEN 11 THEN NEW.status = 1
    ELSE false END)
  EXECUTE FUNCTION holdpoint_refuse_edge();
"""

#: As 0002 has them.
EDGES = """
CREATE OR REPLACE TRIGGER holdpoint_instance_edge BEFORE UPDATE OF status ON holdpoint_instance FOR EACH ROW
  WHEN (NEW.status <> OLD.status AND NOT CASE OLD.status
    WHEN 1 THEN NEW.status IN (2, 12)
    WHEN 2 THEN NEW.status IN (1, 3, 4, 5, 10, 11, 12)
    WHEN 3 THEN NEW.status IN (1, 12)
    WHEN 4 THEN NEW.status IN (1, 12)
    WHEN 5 THEN NEW.status IN (1, 12)
    WHEN 11 THEN NEW.status = 1
    ELSE false END)
  EXECUTE FUNCTION holdpoint_refuse_edge();
CREATE OR REPLACE FUNCTION holdpoint_refuse_edge() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  RAISE EXCEPTION 'instance % cannot go from status % to %', OLD.id, OLD.status, NEW.status
    USING ERRCODE = 'check_violation';
END $$;
"""


class Migration(migrations.Migration):
    dependencies = [
        ("holdpoint", "0023_reading_units"),
    ]

    operations = [
        migrations.CreateModel(
            name="Limit",
            fields=[
                ("id", models.BigAutoField(primary_key=True, serialize=False)),
                (
                    "kind",
                    models.TextField(choices=[("concurrency", "concurrency"), ("rate", "rate")], verbose_name="kind"),
                ),
                ("name", models.TextField(verbose_name="name")),
                ("limit", models.SmallIntegerField(null=True, verbose_name="limit")),
                ("rate_count", models.IntegerField(null=True, verbose_name="runs")),
                ("rate_per", models.FloatField(null=True, verbose_name="in seconds")),
                ("rate_burst", models.IntegerField(null=True, verbose_name="at once")),
                ("changed_at", models.DateTimeField(verbose_name="changed at")),
                ("changed_by", models.TextField(blank=True, default="", verbose_name="changed by")),
            ],
            options={
                "verbose_name": "limit",
                "verbose_name_plural": "limits",
                "db_table": "holdpoint_limit",
                "ordering": ["workspace_id", "kind", "name"],
                "abstract": False,
                "default_permissions": ("view",),
                "base_manager_name": "objects",
            },
        ),
        migrations.CreateModel(
            name="PausedWorkflow",
            fields=[
                ("id", models.BigAutoField(primary_key=True, serialize=False)),
                ("workflow", models.TextField(verbose_name="workflow")),
                ("changed_at", models.DateTimeField(verbose_name="changed at")),
                ("changed_by", models.TextField(blank=True, default="", verbose_name="changed by")),
            ],
            options={
                "verbose_name": "paused workflow",
                "verbose_name_plural": "paused workflows",
                "db_table": "holdpoint_paused_workflow",
                "ordering": ["workspace_id", "workflow"],
                "abstract": False,
                "default_permissions": ("view",),
                "base_manager_name": "objects",
            },
        ),
        migrations.CreateModel(
            name="Queue",
            fields=[
                ("id", models.BigAutoField(primary_key=True, serialize=False)),
                ("name", models.TextField(verbose_name="name")),
                ("limit", models.SmallIntegerField(null=True, verbose_name="limit")),
                ("paused", models.BooleanField(default=False, verbose_name="paused")),
                ("rate_count", models.IntegerField(null=True, verbose_name="runs")),
                ("rate_per", models.FloatField(null=True, verbose_name="in seconds")),
                ("rate_burst", models.IntegerField(null=True, verbose_name="at once")),
                ("changed_at", models.DateTimeField(verbose_name="changed at")),
                ("changed_by", models.TextField(blank=True, default="", verbose_name="changed by")),
            ],
            options={
                "verbose_name": "queue",
                "verbose_name_plural": "queues",
                "db_table": "holdpoint_queue",
                "ordering": ["workspace_id", "name"],
                "permissions": [("control_queue", "Can pause workflows and change queues and limits")],
                "abstract": False,
                "default_permissions": ("view",),
                "base_manager_name": "objects",
            },
        ),
        migrations.CreateModel(
            name="TokenBucket",
            fields=[
                ("id", models.BigAutoField(primary_key=True, serialize=False)),
                ("name", models.TextField()),
                ("key", models.TextField(default="")),
                ("shard", models.SmallIntegerField()),
                ("tokens", models.FloatField()),
                ("filled_at", models.DateTimeField()),
                ("full_at", models.DateTimeField()),
            ],
            options={
                "verbose_name": "token bucket",
                "verbose_name_plural": "token buckets",
                "db_table": "holdpoint_bucket",
                "ordering": ["workspace_id", "name", "key", "shard"],
                "abstract": False,
                "default_permissions": ("view",),
                "base_manager_name": "objects",
            },
        ),
        migrations.AddField(
            model_name="limit",
            name="workspace",
            field=models.ForeignKey(
                db_constraint=False,
                db_index=False,
                on_delete=django.db.models.deletion.DO_NOTHING,
                to="holdpoint.workspace",
                verbose_name="workspace",
            ),
        ),
        migrations.AddField(
            model_name="pausedworkflow",
            name="workspace",
            field=models.ForeignKey(
                db_constraint=False,
                db_index=False,
                on_delete=django.db.models.deletion.DO_NOTHING,
                to="holdpoint.workspace",
                verbose_name="workspace",
            ),
        ),
        migrations.AddField(
            model_name="queue",
            name="workspace",
            field=models.ForeignKey(
                db_constraint=False,
                db_index=False,
                on_delete=django.db.models.deletion.DO_NOTHING,
                to="holdpoint.workspace",
                verbose_name="workspace",
            ),
        ),
        migrations.AddField(
            model_name="tokenbucket",
            name="workspace",
            field=models.ForeignKey(
                db_constraint=False,
                db_index=False,
                on_delete=django.db.models.deletion.DO_NOTHING,
                to="holdpoint.workspace",
            ),
        ),
        migrations.AddConstraint(
            model_name="limit",
            constraint=models.UniqueConstraint(fields=("workspace", "kind", "name"), name="holdpoint_limit_name"),
        ),
        migrations.AddConstraint(
            model_name="limit",
            constraint=models.CheckConstraint(
                condition=models.Q(
                    models.Q(("kind", "concurrency"), ("limit__gte", 1), ("rate_count__isnull", True)),
                    models.Q(
                        ("kind", "rate"),
                        ("limit__isnull", True),
                        ("rate_burst__gte", 1),
                        ("rate_count__gte", 1),
                        ("rate_per__gt", 0),
                    ),
                    _connector="OR",
                ),
                name="holdpoint_limit_values",
            ),
        ),
        migrations.AddConstraint(
            model_name="pausedworkflow",
            constraint=models.UniqueConstraint(fields=("workspace", "workflow"), name="holdpoint_paused_workflow_once"),
        ),
        migrations.AddConstraint(
            model_name="queue",
            constraint=models.UniqueConstraint(fields=("workspace", "name"), name="holdpoint_queue_name"),
        ),
        migrations.AddConstraint(
            model_name="queue",
            constraint=models.CheckConstraint(
                condition=models.Q(("limit__isnull", True), ("limit__gte", 1), _connector="OR"),
                name="holdpoint_queue_limit",
            ),
        ),
        migrations.AddConstraint(
            model_name="queue",
            constraint=models.CheckConstraint(
                condition=models.Q(
                    models.Q(("rate_burst__isnull", True), ("rate_count__isnull", True), ("rate_per__isnull", True)),
                    models.Q(("rate_burst__gte", 1), ("rate_count__gte", 1), ("rate_per__gt", 0)),
                    _connector="OR",
                ),
                name="holdpoint_queue_rate",
            ),
        ),
        migrations.AddConstraint(
            model_name="tokenbucket",
            constraint=models.UniqueConstraint(
                fields=("workspace", "name", "key", "shard"), name="holdpoint_bucket_shard"
            ),
        ),
        migrations.AddConstraint(
            model_name="tokenbucket",
            constraint=models.CheckConstraint(condition=models.Q(("tokens__gte", 0)), name="holdpoint_bucket_tokens"),
        ),
        ChangeBriefly(
            ["holdpoint_instance", "holdpoint_worker"],
            [
                # Which queues it serves.
                migrations.AddField(
                    model_name="worker",
                    name="queues",
                    field=ArrayField(base_field=models.TextField(), null=True, size=None, verbose_name="queues"),
                ),
                migrations.AddField(
                    model_name="instance",
                    name="fair_key",
                    field=models.TextField(editable=False, null=True),
                ),
                migrations.AddField(
                    model_name="instance",
                    name="flow_key",
                    field=models.TextField(null=True, verbose_name="concurrency key"),
                ),
                migrations.AddField(
                    model_name="instance",
                    name="gate",
                    field=models.BigIntegerField(editable=False, null=True),
                ),
                migrations.AddField(
                    model_name="instance",
                    name="holds",
                    field=models.BooleanField(editable=False, null=True),
                ),
                migrations.AddField(
                    model_name="instance",
                    name="lane",
                    field=models.BigIntegerField(editable=False, null=True),
                ),
                migrations.AddField(
                    model_name="instance",
                    name="priority",
                    field=models.SmallIntegerField(null=True, verbose_name="priority"),
                ),
                migrations.AddField(
                    model_name="instance",
                    name="queue",
                    field=models.TextField(null=True, verbose_name="queue"),
                ),
                migrations.AddField(
                    model_name="instance",
                    name="queue_slot",
                    field=models.SmallIntegerField(editable=False, null=True),
                ),
                migrations.AddField(
                    model_name="instance",
                    name="queue_slots",
                    field=models.SmallIntegerField(editable=False, null=True),
                ),
                migrations.AddField(
                    model_name="instance",
                    name="rate_key",
                    field=models.TextField(editable=False, null=True),
                ),
                migrations.AddField(
                    model_name="instance",
                    name="slot",
                    field=models.SmallIntegerField(editable=False, null=True),
                ),
                migrations.AddField(
                    model_name="instance",
                    name="slots",
                    field=models.SmallIntegerField(editable=False, null=True),
                ),
                AddConstraintNotValid(
                    model_name="instance",
                    constraint=models.CheckConstraint(
                        condition=models.Q(
                            ("slot__isnull", True),
                            models.Q(("slot__gte", 1), ("slot__lte", models.F("slots")), ("slots__isnull", False)),
                            _connector="OR",
                        ),
                        name="holdpoint_instance_slot",
                    ),
                ),
                AddConstraintNotValid(
                    model_name="instance",
                    constraint=models.CheckConstraint(
                        condition=models.Q(
                            ("queue_slot__isnull", True),
                            models.Q(
                                ("queue_slot__gte", 1),
                                ("queue_slot__lte", models.F("queue_slots")),
                                ("queue_slots__isnull", False),
                            ),
                            _connector="OR",
                        ),
                        name="holdpoint_instance_queue_slot",
                    ),
                ),
                AddConstraintNotValid(
                    model_name="instance",
                    constraint=models.CheckConstraint(
                        condition=models.Q(
                            models.Q(
                                ("gate__isnull", True),
                                ("lane__isnull", True),
                                ("priority__isnull", True),
                                ("queue__isnull", True),
                            ),
                            models.Q(
                                ("lane__isnull", False),
                                ("priority__gte", -100),
                                ("priority__lte", 100),
                                ("queue__isnull", False),
                            ),
                            _connector="OR",
                        ),
                        name="holdpoint_instance_place",
                    ),
                ),
                migrations.RunSQL(LANES_EDGES, EDGES),
            ],
        ),
    ]
