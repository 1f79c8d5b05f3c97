"""Many requests that are alike, as one page: what they share, what differs, and which of them can be decided together.

Lives here: reading and comparing. Must not live here: deciding (`bulk_run`). Invariants owned: however many rows, a
page of them costs the same statements; nothing is said to be the same in all of them that could not be seen in full;
what is of high risk, or has to be filled in, stands apart and never among what can be ticked.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from uuid import UUID

from django.utils.translation import gettext, ngettext

from approvals.display.values import MAX_BLOCK, MAX_NAME, name_kind, show_text
from approvals.models import Review
from approvals.models.review import RISKS
from approvals.rules import Outcome
from approvals.web.base.filters import Filters
from approvals.web.bulk.bulk_data import Material
from approvals.web.bulk.bulk_run import Came, count_undone
from approvals.web.bulk.comparison import Cell, Column, compare_facts
from approvals.web.inbox.lists import Lists
from approvals.web.inbox.rows import RequestRow, read_rows

#: Requests of one page, and of one decision.
MOST = 200

_RANK = {name: number for number, name in enumerate(RISKS)}


@dataclass(frozen=True, slots=True)
class SharedAnswer:
    """An answer that all of them take."""

    name: str
    label: str
    tone: str
    #: Whether any of them wants a reason for it.
    requires_reason: bool
    presets: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class BulkEntry:
    """One of them."""

    row: RequestRow
    cells: tuple[Cell, ...]
    #: The digest of what is shown.
    seen: str
    #: Why it is not decided here; empty: it can be.
    obstacle: str
    is_ticked: bool
    #: How often the reader has taken back a decision about it.
    undone: int
    #: What became of it a moment ago.
    came: Came | None = None


@dataclass(frozen=True, slots=True)
class Together:
    """All of them."""

    title: str
    #: Why they are asked for, where that is the same.
    why: str
    kind: str
    risk: str
    risk_label: str
    lines: tuple[BulkEntry, ...]
    #: Those that take a look of their own: each says why.
    apart: tuple[BulkEntry, ...]
    columns: tuple[Column, ...]
    #: What is the same in all of them, as (label, value).
    same: tuple[tuple[str, str], ...]
    #: What differs besides, and has no column.
    unshown: str
    choices: tuple[SharedAnswer, ...]
    #: More answers than these exist, for some of them.
    has_others: bool

    @property
    def count(self) -> int:
        """How many can be decided."""
        return sum(not line.obstacle for line in self.lines)

    @property
    def has_results(self) -> bool:
        """Whether there is more to say of any of them."""
        return any(line.obstacle or line.came is not None for line in self.lines)

    @property
    def ticked(self) -> int:
        """How many of them are chosen."""
        return sum(line.is_ticked for line in self.lines)


def read_together(
    lists: Lists,
    materials: Mapping[UUID, Material],
    filters: Filters,
    *,
    ticked: Collection[UUID] | None = None,
    came: Mapping[UUID, Came] | None = None,
) -> Together:
    """These requests as a page; `ticked` are those that are chosen, None for all that can be."""
    came = came or {}
    rows = read_rows(lists, list(materials), filters)
    asked = Review.objects.for_user(lists.viewer, snoozed=None).filter(pk__in=list(materials))
    mine = set(asked.values_list("pk", flat=True))
    undone = count_undone(list(materials), lists.user)
    lines = []
    for row in rows:
        obstacle = _find_obstacle(row, materials[row.id], is_mine=row.id in mine)
        is_ticked = not obstacle and (ticked is None or row.id in ticked)
        digest, before = materials[row.id].digest, undone.get(row.id, 0)
        lines.append(BulkEntry(row, (), digest, obstacle, is_ticked, before, came.get(row.id)))
    apart = tuple(one for one in lines if _is_apart(one.row, materials[one.row.id]) and one.came is None)
    kept = [one for one in lines if one not in apart]
    compared = compare_facts({one.row.id: _list_facts(one.row, materials[one.row.id]) for one in kept})
    first = kept[0].row if kept else lines[0].row if lines else None
    risk = max((one.row.risk for one in kept), key=_RANK.__getitem__, default="")
    whys = {one.row.why for one in kept}
    choices, has_others = list_choices([materials[one.row.id].outcomes for one in kept if not one.obstacle])
    return Together(
        title=_tell_title([one.row for one in kept if not one.obstacle] or [one.row for one in kept or apart]),
        why=show_text(first.why, MAX_BLOCK) if first and len(whys) == 1 and first.why else "",
        kind=name_kind(first.workflow) if first and len({one.row.workflow for one in kept}) == 1 else "",
        risk=risk,
        risk_label=next((one.row.risk_label for one in kept if one.row.risk == risk), ""),
        lines=tuple(replace(one, cells=compared.cells[one.row.id]) for one in kept),
        apart=apart,
        columns=compared.columns,
        same=compared.same,
        unshown=compared.unshown,
        choices=choices,
        has_others=has_others,
    )


def list_choices(offered: Sequence[tuple[Outcome, ...]]) -> tuple[tuple[SharedAnswer, ...], bool]:
    """The answers that all of them take, and whether some of them take others besides.

    >>> from approvals.rules import read_outcomes
    >>> made = list_choices([read_outcomes(["approve", "reject"]), read_outcomes(["approve", "hold", "reject"])])
    >>> [one.name for one in made[0]], made[1]
    (['approve', 'reject'], True)
    """
    if not offered:
        return (), False
    by_name = [{one.name: one for one in outcomes} for outcomes in offered]
    names = [one.name for one in offered[0] if all(one.name in known for known in by_name)]
    choices = tuple(_join([known[name] for known in by_name]) for name in names)
    return choices, any(len(known) > len(names) for known in by_name)


def _join(same: Sequence[Outcome]) -> SharedAnswer:
    """Outcomes of one name: where their labels differ, the button has them all."""
    labels = list(dict.fromkeys(show_text(one.label, MAX_NAME) for one in same))
    tones = {one.tone for one in same}
    return SharedAnswer(
        name=same[0].name,
        label=" / ".join(labels[:3]) + (" …" if len(labels) > 3 else ""),
        tone=same[0].tone if len(tones) == 1 else "neutral",
        requires_reason=any(one.requires_reason for one in same),
        presets=tuple(
            show_text(one, MAX_BLOCK) for one in same[0].presets if all(one in other.presets for other in same)
        ),
    )


def _is_apart(row: RequestRow, material: Material) -> bool:
    return row.status == "open" and (row.risk == "high" or not material.is_blank)


def _find_obstacle(row: RequestRow, material: Material, *, is_mine: bool) -> str:
    if row.status != "open":
        return row.told
    if row.risk == "high":
        return gettext("The risk is high: open this request to decide it on its own.")
    if not is_mine:
        return gettext("Not yours to decide now.")
    if not material.is_blank:
        return gettext("It has a form to fill in: open this request to decide it on its own.")
    return ""


def _tell_title(rows: Sequence[RequestRow]) -> str:
    n = len(rows)
    if n == 1:
        return rows[0].title
    if n and len({row.title for row in rows}) == 1:
        return gettext("%(n)s × %(what)s") % {"n": n, "what": rows[0].title}
    if n and len({row.workflow for row in rows}) == 1:
        return gettext("%(n)s × %(what)s") % {"n": n, "what": name_kind(rows[0].workflow)}
    return ngettext("%(n)s request", "%(n)s requests", n) % {"n": n}


def _list_facts(row: RequestRow, material: Material) -> dict[str, str]:
    return {gettext("Asked by"): row.requester, gettext("Due"): row.due} | dict(material.facts)
