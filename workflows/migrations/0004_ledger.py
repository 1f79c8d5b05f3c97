"""The ledger is append-only by trigger, and what seals and verification look up has an index."""

from django.db import migrations

# Two doors, both narrow: redaction may clear payload and salt together, and retention may delete within a
# transaction that says so. TRUNCATE is left alone, because emptying a test database is done with it; on a
# site it takes the owner of the table, who could drop the trigger as well: that is what seals are for.
APPEND_ONLY = """
CREATE FUNCTION holdpoint_refuse_rewrite() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  IF TG_TABLE_NAME = 'holdpoint_ledger' THEN
    IF TG_OP = 'DELETE' AND current_setting('holdpoint.pruning', true) = 'on' THEN
      RETURN OLD;
    ELSIF TG_OP = 'UPDATE' AND to_jsonb(NEW) = to_jsonb(OLD) || '{"data": null, "salt": null}' THEN
      RETURN NEW;
    END IF;
  END IF;
  RAISE EXCEPTION '% is append-only: % refused', TG_TABLE_NAME, TG_OP
    USING ERRCODE = 'restrict_violation', HINT = 'Erase a payload with workflows.ledger.redact.';
END $$;
CREATE TRIGGER holdpoint_ledger_append_only BEFORE UPDATE OR DELETE ON holdpoint_ledger
  FOR EACH ROW EXECUTE FUNCTION holdpoint_refuse_rewrite();
CREATE TRIGGER holdpoint_seal_append_only BEFORE UPDATE OR DELETE ON holdpoint_seal
  FOR EACH ROW EXECUTE FUNCTION holdpoint_refuse_rewrite();
"""

# Rows come in almost the order of their transactions, so a tenth of a byte per row finds those of a seal.
# Redactions are few. The last one finds the seal that a row lies in.
INDEXES = """
CREATE INDEX holdpoint_ledger_xid ON holdpoint_ledger USING brin (xid) WITH (pages_per_range = 32, autosummarize = on);
CREATE INDEX holdpoint_ledger_redacted ON holdpoint_ledger (workspace_id) WHERE kind = 34;
CREATE INDEX holdpoint_seal_range ON holdpoint_seal (workspace_id, era, from_xid);
"""


class Migration(migrations.Migration):
    dependencies = [("holdpoint", "0003_waits")]

    operations = [
        migrations.RunSQL(
            APPEND_ONLY,
            "DROP TRIGGER holdpoint_seal_append_only ON holdpoint_seal; "
            "DROP TRIGGER holdpoint_ledger_append_only ON holdpoint_ledger; DROP FUNCTION holdpoint_refuse_rewrite();",
        ),
        migrations.RunSQL(
            INDEXES,
            "DROP INDEX holdpoint_seal_range; DROP INDEX holdpoint_ledger_redacted; DROP INDEX holdpoint_ledger_xid;",
        ),
    ]
