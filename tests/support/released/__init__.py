"""What the latest release says to the database, kept for as long as its workers may run beside ours.

Lives here: the statements of that release, as its store has them (`statements.json`), and where its migrations ended.
What must not: anything that reads the store of today. At each release both are made anew: see `record`.
"""

from __future__ import annotations

import json
from pathlib import Path

#: The last migrations of that release.
LAST = {"holdpoint": "0023_reading_units", "holdpoint_approvals": "0007_stranded"}

STATEMENTS: dict[str, str] = json.loads(Path(__file__).with_name("statements.json").read_text())
