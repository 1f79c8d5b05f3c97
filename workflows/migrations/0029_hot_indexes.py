"""The indexes of 0024 to 0027 on tables with many rows, built while everybody works on them.

Interrupted, it is run again: see `_online`. The index that releases without lanes claim by stays until 0030.
"""

from django.db import migrations, models

from workflows.migrations._online import AddIndexOnline, AddUniqueOnline, RemoveUniqueOnline, ValidateOnline

#: On the way back: a release without several open questions knows one open wait of an instance.
CLOSE_ALL_BUT_ONE = """
UPDATE holdpoint_event_wait SET closed_at = holdpoint_clock() WHERE slot > 0 AND closed_at IS NULL
"""


class Migration(migrations.Migration):
    atomic = False

    dependencies = [
        ("holdpoint", "0028_tracebacks"),
    ]

    operations = [
        AddIndexOnline(
            model_name="instance",
            index=models.Index(
                condition=models.Q(("lane__isnull", True), ("status", "runnable")),
                fields=["due_at"],
                name="holdpoint_plain",
            ),
        ),
        AddIndexOnline(
            model_name="instance",
            index=models.Index(
                condition=models.Q(("lane__isnull", False), ("status", "runnable")),
                fields=["priority", "workspace", "lane", "due_at"],
                name="holdpoint_lanes",
            ),
        ),
        AddUniqueOnline(
            model_name="instance",
            constraint=models.UniqueConstraint(
                condition=models.Q(
                    ("slot__isnull", False),
                    models.Q(("status", "running"), models.Q(("holds", True), ("status__lt", "done")), _connector="OR"),
                ),
                fields=("workspace", "gate", "slot"),
                name="holdpoint_slot",
            ),
        ),
        AddUniqueOnline(
            model_name="instance",
            constraint=models.UniqueConstraint(
                condition=models.Q(("queue_slot__isnull", False), ("status", "running")),
                fields=("workspace", "queue", "queue_slot"),
                name="holdpoint_queue_slot",
            ),
        ),
        AddIndexOnline(
            model_name="instance",
            index=models.Index(
                condition=models.Q(("forked_from__isnull", False)), fields=["forked_from"], name="holdpoint_forks"
            ),
        ),
        AddIndexOnline(
            model_name="checkpoint",
            index=models.Index(condition=models.Q(("watch", 1)), fields=["child"], name="holdpoint_checkpoint_watch"),
        ),
        AddIndexOnline(
            model_name="checkpoint",
            index=models.Index(
                condition=models.Q(("watch", 2)), fields=["instance"], name="holdpoint_checkpoint_ended"
            ),
        ),
        AddUniqueOnline(
            model_name="eventwait",
            constraint=models.UniqueConstraint(
                condition=models.Q(("closed_at__isnull", True)),
                fields=("instance", "slot"),
                name="holdpoint_event_wait_slot",
            ),
        ),
        RemoveUniqueOnline(
            model_name="eventwait",
            name="holdpoint_event_wait_one",
        ),
        migrations.RunSQL(migrations.RunSQL.noop, CLOSE_ALL_BUT_ONE),
        ValidateOnline(model_name="instance", name="holdpoint_instance_slot"),
        ValidateOnline(model_name="instance", name="holdpoint_instance_queue_slot"),
        ValidateOnline(model_name="instance", name="holdpoint_instance_place"),
    ]
