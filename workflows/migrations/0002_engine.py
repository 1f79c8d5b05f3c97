"""What the ORM cannot say: the clock, the edges of the state machine, and storage parameters."""

from django.db import migrations

# PostgreSQL inlines both, so they cost nothing; tests replace the bodies to move time.
CLOCK = """
CREATE FUNCTION holdpoint_now() RETURNS timestamptz LANGUAGE sql STABLE PARALLEL SAFE
  AS 'SELECT statement_timestamp()';
CREATE FUNCTION holdpoint_clock() RETURNS timestamptz LANGUAGE sql VOLATILE PARALLEL SAFE
  AS 'SELECT clock_timestamp()';
"""

# Whatever writes, a status moves only along the edges of workflows.lifecycle (a test compares them).
EDGES = """
CREATE FUNCTION holdpoint_refuse_edge() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  RAISE EXCEPTION 'instance % cannot go from status % to %', OLD.id, OLD.status, NEW.status
    USING ERRCODE = 'check_violation';
END $$;
CREATE TRIGGER holdpoint_instance_edge BEFORE UPDATE OF status ON holdpoint_instance FOR EACH ROW
  WHEN (NEW.status <> OLD.status AND NOT CASE OLD.status
    WHEN 1 THEN NEW.status IN (2, 12)
    WHEN 2 THEN NEW.status IN (1, 3, 4, 5, 10, 11, 12)
    WHEN 3 THEN NEW.status IN (1, 12)
    WHEN 4 THEN NEW.status IN (1, 12)
    WHEN 5 THEN NEW.status IN (1, 12)
    WHEN 11 THEN NEW.status = 1
    ELSE false END)
  EXECUTE FUNCTION holdpoint_refuse_edge();
"""

# Every step leaves dead row versions behind: without an eager vacuum a parked row costs twice its size.
# Heartbeats may be lost with a crash, and are updated in place every second.
STORAGE = """
ALTER TABLE holdpoint_instance SET (autovacuum_vacuum_scale_factor = 0.02, autovacuum_analyze_scale_factor = 0.05);
ALTER TABLE holdpoint_signal SET (autovacuum_vacuum_scale_factor = 0.05, autovacuum_vacuum_insert_scale_factor = 0.1);
ALTER TABLE holdpoint_worker SET UNLOGGED;
ALTER TABLE holdpoint_worker SET (fillfactor = 10);
"""

# The ledger is the largest part of a parked row. Its key is declared for the ORM only: the numbers come
# from a counter under the instance's lock, and a plain index, which keeps an instance's rows in one
# entry, is half the size of a unique one. The index on time costs a tenth of a byte per row.
LEDGER = """
ALTER TABLE holdpoint_ledger DROP CONSTRAINT holdpoint_ledger_pkey;
CREATE INDEX holdpoint_ledger_instance ON holdpoint_ledger (instance_id);
CREATE INDEX holdpoint_ledger_at ON holdpoint_ledger USING brin (at) WITH (pages_per_range = 32, autosummarize = on);
"""


class Migration(migrations.Migration):
    dependencies = [("holdpoint", "0001_initial")]

    operations = [
        migrations.RunSQL(CLOCK, "DROP FUNCTION holdpoint_clock(); DROP FUNCTION holdpoint_now();"),
        migrations.RunSQL(
            EDGES,
            "DROP TRIGGER holdpoint_instance_edge ON holdpoint_instance; DROP FUNCTION holdpoint_refuse_edge();",
        ),
        migrations.RunSQL(STORAGE, migrations.RunSQL.noop),
        migrations.RunSQL(
            LEDGER,
            "DROP INDEX holdpoint_ledger_at; DROP INDEX holdpoint_ledger_instance; "
            "ALTER TABLE holdpoint_ledger ADD CONSTRAINT holdpoint_ledger_pkey PRIMARY KEY (instance_id, seq);",
        ),
    ]
