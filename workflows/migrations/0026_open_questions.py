"""Several open questions of one run: waits for the ends of instances, and several waits for events at once."""

from django.db import migrations, models

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
        migrations.RemoveConstraint(
            model_name="eventwait",
            name="holdpoint_event_wait_one",
        ),
        migrations.AddConstraint(
            model_name="eventwait",
            constraint=models.UniqueConstraint(
                condition=models.Q(("closed_at__isnull", True)),
                fields=("instance", "slot"),
                name="holdpoint_event_wait_slot",
            ),
        ),
        migrations.AddIndex(
            model_name="checkpoint",
            index=models.Index(condition=models.Q(("watch", 1)), fields=["child"], name="holdpoint_checkpoint_watch"),
        ),
        migrations.AddIndex(
            model_name="checkpoint",
            index=models.Index(
                condition=models.Q(("watch", 2)), fields=["instance"], name="holdpoint_checkpoint_ended"
            ),
        ),
        migrations.RunSQL(
            TRIGGER,
            "DROP TRIGGER holdpoint_instance_ended ON holdpoint_instance; DROP FUNCTION holdpoint_mark_ended();",
        ),
    ]
