"""What differs between requests that are alike, and what is the same in all of them.

Pure. Invariant owned: nothing is said to be the same that could not be seen in full.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from uuid import UUID

from approvals.display.values import HIDDEN, NOTHING
from workflows.wording.punctuation import join_list

#: What differs between them has so many columns; more is named.
MAX_COLUMNS = 6
#: What is the same in all of them, in so many lines.
MAX_SAME = 12

_NUMBER = re.compile(r"[^\w\s]?(?:[A-Z]{3})?\s*[-\u2212]?[\d.,'\u2019\s]*\d\s*[^\w\s]?(?:[A-Z]{3})?")


@dataclass(frozen=True, slots=True)
class Column:
    """Something that is not the same in all of them."""

    label: str
    is_number: bool


@dataclass(frozen=True, slots=True)
class Cell:
    """What one of them has there; a narrow window has no columns, so it knows what it is."""

    label: str
    text: str
    is_number: bool

    @property
    def is_nothing(self) -> bool:
        """Whether there is nothing there."""
        return self.text == NOTHING


@dataclass(frozen=True, slots=True)
class Compared:
    """All of them side by side."""

    columns: tuple[Column, ...]
    cells: Mapping[UUID, tuple[Cell, ...]]
    #: What is the same in all of them, as (label, value).
    same: tuple[tuple[str, str], ...]
    #: The names of what differs besides, and has no column.
    unshown: str


def compare_facts(given: Mapping[UUID, Mapping[str, str]]) -> Compared:
    """Put them side by side; what each of them says is text by its label.

    >>> made = compare_facts({1: {"Amount": "€40.00", "Rule": "late"}, 2: {"Amount": "€9.00", "Rule": "late"}})
    >>> [column.label for column in made.columns], made.same
    (['Amount'], (('Rule', 'late'),))
    """
    labels = dict.fromkeys(label for facts in given.values() for label in facts)
    values = {label: [facts.get(label) or NOTHING for facts in given.values()] for label in labels}
    differing = [label for label, texts in values.items() if not _are_same(texts)]
    shown = differing[:MAX_COLUMNS]
    columns = tuple(Column(label, all(_NUMBER.fullmatch(text) for text in values[label])) for label in shown)
    cells = {
        id: tuple(Cell(one.label, values[one.label][place], one.is_number) for one in columns)
        for place, id in enumerate(given)
    }
    same = [(label, texts[0]) for label, texts in values.items() if label not in differing and texts[0] != NOTHING]
    return Compared(columns, cells, tuple(same[:MAX_SAME]), join_list(differing[MAX_COLUMNS:]))


def _are_same(texts: Sequence[str]) -> bool:
    """Whether they are, as far as could be seen: what was cut off or is a secret may differ all the same."""
    return len(set(texts)) == 1 and HIDDEN not in texts[0] and not texts[0].endswith("…")
