"""How far an instance is, in its author's words: read where `ctx.progress` is called, kept by its worker.

Lives here: checking what an author says. Must not live here: when it is written, which is the keeper's business while
a step runs (twice a second at most) and the outcome's at its end. Saying it costs no statement.
"""

from __future__ import annotations

import math

from workflows.exceptions import InvalidCall, show
from workflows.values.json_text import dump_value

#: Characters of a note that are kept.
LONGEST_NOTE = 200


def write_progress(done: object, total: object, note: object) -> str:
    """As JSON.

    >>> write_progress(3, 10, "")
    '{"done":3,"total":10,"note":""}'
    """
    _check_number(done, "done")
    if total is not None:
        _check_number(total, "total")
    if not isinstance(note, str):
        raise InvalidCall(f"ctx.progress(): note is a text, not {show(note)}")
    clipped = note if len(note) <= LONGEST_NOTE else f"{note[: LONGEST_NOTE - 1]}…"
    return dump_value({"done": done, "total": total, "note": clipped}, "ctx.progress()")


def _check_number(value: object, name: str) -> None:
    # A boolean is an int to Python, and hardly what was meant.
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise InvalidCall(f"ctx.progress(): {name} is a number, not {show(value)}")
    if not (0 <= value < 1e15) or not math.isfinite(value):
        raise InvalidCall(f"ctx.progress(): {name} is a number from 0 to 999999999999999, not {show(value)}")
