"""Text for a terminal: tables, values and moments that fit into its width. Nothing here queries.

Invariant owned: what came from outside (names, keys, payloads) is printed without control characters, so it can
neither move the cursor nor pretend to be a line of ours.
"""

from __future__ import annotations

import json
import shutil
import textwrap
from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import Any

from django.core.serializers.json import DjangoJSONEncoder
from django.utils import timezone

NARROWEST, WIDEST = 80, 120
#: A column is not cut below this.
SHORTEST = 8
GAP = "  "
#: Columns that are of no use when cut.
WHOLE = frozenset({"id", "n", "at", "received", "saved", "finished", "instances", "oldest", "due", "closed"})


def find_width() -> int:
    """The terminal's columns, within reason; 120 where there is no terminal."""
    return max(NARROWEST, min(WIDEST, shutil.get_terminal_size((WIDEST, 24)).columns))


def clean(value: object) -> str:
    """One line of printable text; what cannot be printed is escaped."""
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in str(value))


def clip(value: object, width: int) -> str:
    """The beginning of a text, marked where it goes on."""
    text = clean(value)
    return text if len(text) <= width else text[: width - 1] + "…"


def show_moment(value: datetime | None) -> str:
    """To the second, in the zone of the settings, which is named: a server's is often not the reader's."""
    if value is None:
        return ""
    local = timezone.localtime(value) if timezone.is_aware(value) else value
    return local.strftime("%Y-%m-%d %H:%M:%S %Z").rstrip()


def show_count(n: int, one: str) -> str:
    """A number of things.

    >>> show_count(1, "instance"), show_count(2, "instance")
    ('1 instance', '2 instances')
    """
    return f"{n} {one}{'' if n == 1 else 's'}"


def show_json(value: Any) -> str:
    """A value in one line."""
    return json.dumps(value, cls=DjangoJSONEncoder, ensure_ascii=False)


def lay_table(head: Sequence[str], rows: Iterable[Sequence[object]], width: int) -> list[str]:
    """Lines of a table; columns without a value are left out, and the widest are cut.

    >>> lay_table(["name", "n"], [["paid", 2]], 80)
    ['name  n', 'paid  2']
    """
    cells = [[clean("" if cell is None else cell) for cell in row] for row in rows]
    used = [at for at in range(len(head)) if any(row[at] for row in cells)]
    lines = [[head[at] for at in used], *([row[at] for at in used] for row in cells)]
    widths = [max(len(line[at]) for line in lines) for at in range(len(used))]
    while sum(widths) + len(GAP) * (len(widths) - 1) > width:
        widest = max(
            (at for at in range(len(used)) if lines[0][at] not in WHOLE), key=lambda at: widths[at], default=None
        )
        if widest is None or widths[widest] <= SHORTEST:
            break
        widths[widest] -= 1
    return [
        GAP.join(clip(cell, size).ljust(size) for cell, size in zip(line, widths, strict=True)).rstrip()
        for line in lines
    ]


def lay_facts(facts: Iterable[tuple[str, object]], width: int) -> list[str]:
    """Lines of `label  value`; long values go on below, facts without a value are left out."""
    known = [(label, clean(value)) for label, value in facts if value not in (None, "")]
    if not known:
        return []
    indent = max(len(label) for label, _ in known) + len(GAP)
    return [
        f"{label if first else '':{indent}}{line}"
        for label, value in known
        for first, line in _number(textwrap.wrap(value, width - indent, break_on_hyphens=False))
    ]


def _number(lines: list[str]) -> Iterable[tuple[bool, str]]:
    return ((at == 0, line) for at, line in enumerate(lines))
