"""Sealing, verifying, exporting and redacting the history.

Invariant owned: whatever was sealed is found when it is changed. `redact` is a function of this package and never a
module: users call `workflows.ledger.redact`, and a hint of the database names it.
"""

from workflows.ledger.export import export_lines as export_lines
from workflows.ledger.redaction import redact as redact
from workflows.ledger.sealing import Anchor as Anchor
from workflows.ledger.sealing import make_anchors as make_anchors
from workflows.ledger.sealing import seal_ledger as seal_ledger
from workflows.ledger.verification import Damage as Damage
from workflows.ledger.verification import Finding as Finding
from workflows.ledger.verification import verify_workspace as verify_workspace
