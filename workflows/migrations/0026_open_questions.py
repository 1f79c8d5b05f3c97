"""Several open questions of one run: waits for the ends of instances, and several waits for events at once.

The indexes of it are built by 0029.
"""

from django.db import migrations, models

from workflows.migrations._online import ChangeBriefly

#: Whoever ends an instance marks who waits for that, under the lock of its row: a wait that begins takes the same lock
#: first. Only an instance that was asked to tell pays for it.
TRIGGER = """
CREATE FUNCTION holdpoint_mark_ended() RETURNS trigger LANGUAGE plpgsql SET enable_seqscan = off AS $$
BEGIN
  UPDATE holdpoint_checkpoint SET watch = 2 WHERE child_id = NEW.id AND watch = 1;
  RETURN NULL;
END
$$;
CREATE TRIGGER holdpoint_instance_ended AFTER UPDATE OF status ON holdpoint_instance FOR EACH ROW
  WHEN (NEW.watched AND NEW.status >= 10 AND OLD.status < 10) EXECUTE FUNCTION holdpoint_mark_ended();
"""


class Migration(migrations.Migration):
    dependencies = [
        ("holdpoint", "0025_schedules"),
    ]

    operations = [
        ChangeBriefly(
            ["holdpoint_instance", "holdpoint_checkpoint", "holdpoint_event_wait"],
            [
                migrations.AddField(
                    model_name="instance",
                    name="watched",
                    field=models.BooleanField(db_default=False, default=False, editable=False),
                ),
                migrations.AddField(
                    model_name="checkpoint",
                    name="watch",
                    field=models.SmallIntegerField(db_default=0, default=0),
                ),
                migrations.AddField(
                    model_name="eventwait",
                    name="deadline",
                    field=models.DateTimeField(null=True),
                ),
                migrations.AddField(
                    model_name="eventwait",
                    name="slot",
                    field=models.IntegerField(db_default=0, default=0),
                ),
                migrations.RunSQL(
                    TRIGGER,
                    "DROP TRIGGER holdpoint_instance_ended ON holdpoint_instance; DROP FUNCTION holdpoint_mark_ended();",
                ),
            ],
        ),
    ]
