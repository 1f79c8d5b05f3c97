"""Four eyes span the family of an instance: reviews and votes carry which one it is, and where in it they stand."""

from django.db import migrations, models

# Rows of reviews and votes from before; of instances that were pruned nothing is here. What one Spawn started of one
# workflow is one place, as `opening` computes it.
CARRY = """
UPDATE holdpoint_review r SET family = i.family, place = CASE WHEN i.parent_id IS NOT NULL
  THEN md5(i.parent_id::text || ':' || i.spawn_no::text || ':' || i.workflow)::uuid END
FROM holdpoint_instance i WHERE i.id = r.instance_id AND (i.family IS NOT NULL OR i.parent_id IS NOT NULL);
UPDATE holdpoint_vote v SET family = coalesce(r.family, r.instance_id), place = coalesce(r.place, r.instance_id)
FROM holdpoint_review r WHERE r.id = v.review_id;
"""

# Whoever writes a vote, also a process with older code.
PLACE = """
CREATE FUNCTION holdpoint_vote_place() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  SELECT coalesce(r.family, r.instance_id), coalesce(r.place, r.instance_id) INTO NEW.family, NEW.place
  FROM holdpoint_review r WHERE r.id = NEW.review_id;
  RETURN NEW;
END $$;
CREATE TRIGGER holdpoint_vote_place BEFORE INSERT ON holdpoint_vote FOR EACH ROW
  EXECUTE FUNCTION holdpoint_vote_place();
"""


class Migration(migrations.Migration):
    dependencies = [
        ("holdpoint", "0010_origins"),
        ("holdpoint_approvals", "0003_inbox"),
    ]

    operations = [
        migrations.AddField("review", "family", models.UUIDField(editable=False, null=True)),
        migrations.AddField("review", "place", models.UUIDField(editable=False, null=True)),
        migrations.AddField("vote", "family", models.UUIDField(editable=False, null=True)),
        migrations.AddField("vote", "place", models.UUIDField(editable=False, null=True)),
        migrations.RunSQL(CARRY, migrations.RunSQL.noop),
        migrations.RunSQL(
            PLACE, "DROP TRIGGER holdpoint_vote_place ON holdpoint_vote; DROP FUNCTION holdpoint_vote_place();"
        ),
        migrations.RemoveIndex("vote", "holdpoint_vote_instance"),
        migrations.AddIndex("vote", models.Index(fields=["family", "user"], name="holdpoint_vote_family")),
    ]
