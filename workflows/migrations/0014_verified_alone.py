"""Verifying one workspace reads its own rows, not the whole ledger."""

from django.db import migrations

# A filter for each 32 pages that tells whether a workspace may be in there: a few bytes for a thousand rows, made when
# the pages are full, so that writing a row pays nothing. An ordinary index would cost every row. Eras are few and are
# found one after another.
INDEXES = """
CREATE INDEX holdpoint_ledger_workspace ON holdpoint_ledger
  USING brin (workspace_id int4_bloom_ops(n_distinct_per_range = 2000, false_positive_rate = 0.01))
  WITH (pages_per_range = 32, autosummarize = on);
CREATE INDEX holdpoint_seal_era ON holdpoint_seal (era, since);
"""


class Migration(migrations.Migration):
    dependencies = [("holdpoint", "0013_callback_bodies")]

    operations = [
        migrations.RunSQL(INDEXES, "DROP INDEX holdpoint_seal_era; DROP INDEX holdpoint_ledger_workspace;"),
    ]
