"""How a list reads: rows, sections by when they are due, and requests that are alike as one.

Must not live here: which reviews a list has (`lists`). Invariants owned: all that a page of rows shows is read in one
statement, whatever stands in them; a name or title from outside is plain text with its hidden characters made visible.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from hashlib import sha256
from typing import Any
from urllib.parse import urlencode
from uuid import UUID

from django.contrib.auth import get_user_model
from django.contrib.postgres.expressions import ArraySubquery
from django.db.models import OuterRef
from django.urls import reverse
from django.utils.translation import gettext, ngettext

from approvals.cards.card import RISK_LABELS
from approvals.cards.case_query import gather, make_rows
from approvals.display.times import show_at, show_soon
from approvals.display.values import MAX_BLOCK, MAX_NAME, name_kind, show_text
from approvals.models import Comment, Review, Vote
from approvals.models.review import RISKS
from approvals.people.principals import name_person
from approvals.reviews.answer import find_answerer
from approvals.rules import count_fixed, load_outcomes, load_quorum
from approvals.rules.outcomes import WITHDRAWN
from approvals.web.base.filters import Filters
from approvals.web.inbox.lists import DECIDABLE, Lists
from approvals.web.inbox.presence import looking_at
from workflows.wording.relative_times import SOON

#: So many are shown as one.
ALIKE = 3
#: Whom a review names.
_PEOPLE = ("requester", "claimed_by", "decided_by")
_RANK = {name: number for number, name in enumerate(RISKS)}
_FIELDS = (
    "interaction",
    "workspace_id",
    "created_at",
    "due_at",
    "effective_at",
    "decided_at",
    "stranded_at",
    "requester",
    "claimed_by",
    "decided_by",
    "version",
    "open",
    "risk",
    "title",
    "why",
    "workflow",
    "step",
    "subject_model",
    "subject_label",
    "outcome",
    "outcomes",
    "quorum",
)


@dataclass(frozen=True, slots=True)
class RequestRow:
    """One review in a list."""

    id: UUID
    url: str
    title: str
    #: Who asked, how far it is, what it is about.
    meta: str
    requester: str
    #: The requester's username.
    username: str
    risk: str
    risk_label: str
    due_at: datetime | None
    due: str
    due_tone: str
    progress: str
    #: Whether somebody asks the requester, who is looking at their own list, something.
    has_question: bool
    looking: tuple[str, ...]
    status: str
    told: str
    tone: str
    may_pick: bool
    version: int
    created_at: datetime
    claimed_by: str
    workflow: str
    step: str
    why: str
    #: The model that it is about.
    type: str
    is_group: bool = False


@dataclass(frozen=True, slots=True)
class RowGroup:
    """Requests that are alike: the same step of the same workflow, for the same reason."""

    key: str
    title: str
    meta: str
    count: int
    due: str
    due_tone: str
    risk: str
    risk_label: str
    rows: tuple[RequestRow, ...]
    bulk_url: str
    is_group: bool = True


@dataclass(frozen=True, slots=True)
class Section:
    """A part of a list under one heading."""

    heading: str
    items: tuple[RequestRow | RowGroup, ...]

    @property
    def count(self) -> int:
        """How many requests stand in it."""
        return sum(one.count if isinstance(one, RowGroup) else 1 for one in self.items)


def complete(lists: Lists, rows: Any) -> Any:
    """A queryset with all that a row shows."""
    votes = Vote.objects.filter(review_id=OuterRef("pk"), standing=True).order_by("pk")
    others = looking_at(OuterRef("pk")).exclude(user_id=lists.user.pk).values("user_id")[:5]
    rows = rows.defer(*_list_unread())
    return rows.annotate(given=gather(votes, ("user_id", "outcome")), lookers=ArraySubquery(others))


def read_rows(lists: Lists, ids: Sequence[UUID], filters: Filters, read: Iterable[Any] = ()) -> tuple[RequestRow, ...]:
    """The rows of these reviews, in this order; `read` are those that have been read already, `complete`."""
    found = {one.pk: one for one in read}
    if missing := [id for id in ids if id not in found]:
        rows = complete(lists, Review.objects.filter(pk__in=missing)).select_related(*_PEOPLE)
        found |= {one.pk: one for one in rows}
    names = _read_people(found.values())
    asked = _find_asked(found) if filters.view == "requested" else frozenset()
    return tuple(_show(found[id], lists, filters, names, asked) for id in ids if id in found)


def make_sections(rows: Iterable[RequestRow], lists: Lists, filters: Filters) -> tuple[Section, ...]:
    """Rows under their headings."""
    if filters.view in ("requested", "decided") or filters.sort:
        items = tuple(rows)
        return (Section("", items),) if items else ()
    parts: dict[str, list[RequestRow]] = {}
    for row in rows:
        parts.setdefault(_head(row.due_at, lists), []).append(row)
    return tuple(Section(heading, _group(found, filters, heading)) for heading, found in parts.items())


def _list_unread() -> list[str]:
    return [one.name for one in Review._meta.concrete_fields if one.name not in _FIELDS and one.attname not in _FIELDS]


def _read_people(rows: Collection[Any]) -> dict[Any, str]:
    """All whom these rows name and were not read with them, in one statement; the names by key.

    Joined to a whole list they would be looked for in its plan, and a plan that is told too little of how many accounts
    there are reads all of them for every row.
    """
    unread = [(one, name) for one in rows for name in _PEOPLE if name not in one._state.fields_cache]
    wanted = {getattr(one, f"{name}_id") for one, name in unread} | {key for one in rows for key in one.lookers}
    wanted -= {None}
    users = get_user_model()._default_manager.filter(pk__in=wanted) if wanted else ()
    people = {one.pk: one for one in users}
    for one, name in unread:
        one._state.fields_cache[name] = people.get(getattr(one, f"{name}_id"))
    return {key: show_text(name_person(one), MAX_NAME) for key, one in people.items()}


def _find_asked(ids: Iterable[UUID]) -> frozenset[UUID]:
    """Those about which the requester has been asked something that has no answer yet."""
    said = Comment.objects.filter(review_id__in=list(ids))
    questions = said.filter(kind="question").exclude(pk__in=said.filter(kind="answer").values("answers_id"))
    return frozenset(questions.values_list("review_id", flat=True))


def _show(review: Any, lists: Lists, filters: Filters, names: dict[Any, str], asked: frozenset[UUID]) -> RequestRow:
    votes = make_rows(Vote, review.given, review._state.db)
    status, told, tone = _tell(review, votes, lists.now)
    requester = show_text(name_person(review.requester), MAX_NAME)
    progress = _measure(review, votes)
    subject = show_text(review.subject_label, MAX_NAME) if review.subject_label else ""
    stranded = gettext("Nobody can decide this any more") if status == "open" and review.stranded_at else ""
    due, due_tone = _tell_due(review.due_at, lists) if status == "open" else ("", "plain")
    is_anothers = review.claimed_by_id not in (None, lists.user.pk)
    query = filters.write(after=filters.after)  # the way back leads to the page of the list that it was on
    url = reverse("approvals:review", args=[review.pk])
    return RequestRow(
        id=review.pk,
        url=f"{url}?{query}" if query else url,
        title=show_text(review.title, MAX_BLOCK),
        meta=" · ".join(one for one in (stranded, requester, progress, subject) if one),
        requester=requester,
        username=review.requester.get_username() if review.requester else "",
        risk=review.risk,
        risk_label=str(RISK_LABELS[review.risk]),
        due_at=review.due_at,
        due=due,
        due_tone=due_tone,
        progress=progress,
        has_question=review.pk in asked and status == "open",
        looking=tuple(names[key] for key in review.lookers if key in names),
        status=status,
        told=told,
        tone=tone,
        may_pick=status == "open" and review.risk != "high" and filters.view in DECIDABLE and not is_anothers,
        version=review.version,
        created_at=review.created_at,
        claimed_by=show_text(name_person(review.claimed_by), MAX_NAME),
        workflow=review.workflow,
        step=review.step,
        why=review.why,
        type=review.subject_model,
    )


def _tell(review: Any, votes: Sequence[Vote], now: datetime) -> tuple[str, str, str]:
    """How a row stands: in a word, as a sentence unless it just waits, and the tone of its outcome."""
    if review.open and review.effective_at is None:
        return "open", "", ""
    if not review.outcome or review.outcome in WITHDRAWN:
        return "closed", gettext("Withdrawn") if review.outcome else gettext("Closed without a decision"), "neutral"
    outcome = next((one for one in load_outcomes(review.outcomes) if one.name == review.outcome), None)
    label = show_text(outcome.label if outcome else review.outcome, MAX_NAME)
    told = gettext("“%(outcome)s”") % {"outcome": label}
    if review.decided_by is not None and find_answerer(review, votes) is not None:
        named = {"outcome": told, "who": show_text(name_person(review.decided_by), MAX_NAME)}
        told = gettext("%(outcome)s by %(who)s") % named
    if review.decided_at is not None:
        told = gettext("%(told)s, %(when)s") % {"told": told, "when": show_at(review.decided_at, now)}
    return "grace" if review.open else "decided", told, outcome.tone if outcome else "neutral"


def _measure(review: Any, votes: Sequence[Vote]) -> str:
    """How far the votes are, where it takes more than one."""
    tally = count_fixed(load_quorum(review.quorum["rule"]), [vote.outcome for vote in votes])
    if tally is None:
        return ngettext("%(n)s vote", "%(n)s votes", len(votes)) % {"n": len(votes)} if votes else ""
    if tally.needed == 1:
        return ""
    return gettext("%(votes)s of %(needed)s") % {"votes": tally.most, "needed": tally.needed}


def _tell_due(due_at: datetime | None, lists: Lists) -> tuple[str, str]:
    if due_at is None:
        return "", "plain"
    tone = "late" if due_at < lists.now else "soon" if due_at - lists.now < SOON else "plain"
    return show_soon(due_at, lists.now), tone


def _head(due_at: datetime | None, lists: Lists) -> str:
    if due_at is None:
        return gettext("No due date")
    if due_at < lists.now:
        return gettext("Overdue")
    if due_at < lists.midnight:
        return gettext("Today")
    if due_at < lists.midnight + timedelta(days=1):
        return gettext("Tomorrow")
    return gettext("This week") if due_at < lists.week else gettext("Later")


def _group(rows: Sequence[RequestRow], filters: Filters, heading: str) -> tuple[RequestRow | RowGroup, ...]:
    """Those that are alike as one, where the first of them stands."""
    alike: dict[tuple[str, str, str], list[RequestRow]] = {}
    for row in rows:
        if row.may_pick:
            alike.setdefault((row.workflow, row.step, row.why), []).append(row)
    items: list[RequestRow | RowGroup] = []
    for row in rows:
        same = alike.get((row.workflow, row.step, row.why), []) if row.may_pick else []
        if len(same) < ALIKE:
            items.append(row)
        elif same[0] is row:
            items.append(_join(same, filters, heading))
    return tuple(items)


def _join(rows: Sequence[RequestRow], filters: Filters, heading: str) -> RowGroup:
    first = rows[0]
    kind = (heading, first.workflow, first.step, first.why)
    riskiest = max(rows, key=lambda row: _RANK[row.risk])
    # Those on the screen and no others: what else is alike elsewhere was not seen.
    query = urlencode([*(("pick", str(row.id)) for row in rows), ("list", filters.write())])
    named = {"n": len(rows), "what": name_kind(first.workflow)}
    return RowGroup(
        # The same whichever of them are left, so that it stays open on the screen.
        key=sha256(repr(kind).encode()).hexdigest()[:16],
        title=gettext("%(n)s × %(what)s") % named,
        meta=show_text(first.why, MAX_BLOCK) if first.why else gettext("Alike"),
        count=len(rows),
        due=first.due,
        due_tone=first.due_tone,
        risk=riskiest.risk,
        risk_label=riskiest.risk_label,
        rows=tuple(rows),
        bulk_url=f"{reverse('approvals:bulk')}?{query}",
    )
