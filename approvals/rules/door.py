"""Where a decision comes from.

Lives here: what every door says about itself. Invariant owned: a door that says nothing is trusted code; whatever a
person or a program outside comes in by says how carefully it was done there.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Door:
    """A door's name, and how carefully a decision was made there.

    >>> Door("page", saw_diff=False).has_reauthenticated
    True
    """

    name: str = "python"
    is_automated: bool = False
    via_bulk: bool = False
    single_key: bool = False
    saw_diff: bool = True
    has_reauthenticated: bool = True
    #: The digest of what was on screen, where that is known.
    seen: str | None = None


PYTHON = Door()
