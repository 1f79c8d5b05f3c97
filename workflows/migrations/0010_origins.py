"""Who asked is carried on the instance from its start. Rows from before are given it as far as rows tell."""

from django.db import migrations, models

# What somebody else's run started, with the row above it: linked once, read from the top down, so each row is read
# once however long a line of launches is. What nobody above explains (pruned, or in a circle) is marked as unknown.
# An instance that launched its own workflow began a new round: it is the first of a family of its own.
CARRY = """
CREATE TEMPORARY TABLE holdpoint_links ON COMMIT DROP AS
  SELECT i.id, i.workspace_id, i.workflow, i.parent_id IS NOT NULL AS is_child,
    CASE WHEN i.started_by ~ '^instance:[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$'
      THEN substr(i.started_by, 10)::uuid ELSE i.parent_id END AS above
  FROM holdpoint_instance i
  WHERE i.parent_id IS NOT NULL OR i.started_by ~ '^instance:[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$';
CREATE INDEX ON holdpoint_links (above);
CREATE UNIQUE INDEX ON holdpoint_links (id);
ANALYZE holdpoint_links;
CREATE TEMPORARY TABLE holdpoint_origins ON COMMIT DROP AS
  WITH RECURSIVE down(id, workspace_id, workflow, origin, family) AS (
    SELECT i.id, i.workspace_id, i.workflow, i.started_by, i.id FROM holdpoint_instance i
    WHERE i.id IN (SELECT above FROM holdpoint_links) AND NOT EXISTS (SELECT FROM holdpoint_links l WHERE l.id = i.id)
    UNION ALL
    SELECT l.id, l.workspace_id, l.workflow, '?', l.id FROM holdpoint_links l
    WHERE NOT EXISTS (SELECT FROM holdpoint_instance i WHERE i.id = l.above AND i.workspace_id = l.workspace_id)
    UNION ALL
    SELECT l.id, l.workspace_id, l.workflow, down.origin,
      CASE WHEN NOT l.is_child AND l.workflow = down.workflow THEN l.id ELSE down.family END
    FROM down JOIN holdpoint_links l ON l.above = down.id AND l.workspace_id = down.workspace_id
  )
  SELECT id, origin, family FROM down;
CREATE UNIQUE INDEX ON holdpoint_origins (id);
ANALYZE holdpoint_origins;
UPDATE holdpoint_instance i SET origin = coalesce(o.origin, '?'), family = nullif(coalesce(o.family, i.id), i.id)
FROM holdpoint_links l LEFT JOIN holdpoint_origins o ON o.id = l.id WHERE i.id = l.id;
"""


class Migration(migrations.Migration):
    dependencies = [
        ("holdpoint", "0009_renewal"),
    ]

    operations = [
        migrations.AddField("instance", "origin", models.TextField(editable=False, null=True)),
        migrations.AddField("instance", "family", models.UUIDField(editable=False, null=True)),
        migrations.RunSQL(CARRY, migrations.RunSQL.noop),
    ]
