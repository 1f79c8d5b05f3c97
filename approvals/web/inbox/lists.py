"""Which reviews a list has: its view, narrowed by filters, a page at a time.

Lives here: between `Filters` and keys of reviews. Must not live here: what a row looks like (`rows`), whose reviews are
whose (`ReviewQuerySet`). Invariants owned: a page costs the same wherever it lies and however many wait: what no index
has is looked for in a window of the list, and the page says so where the window ends; nothing is left out for good,
because the next page begins where the window ended.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import date, datetime, time, timedelta
from functools import cached_property
from typing import Any
from uuid import UUID

from django.db.models import BooleanField, ExpressionWrapper, OuterRef, Q
from django.utils import timezone

from approvals.models import Candidate, Review, Vote
from approvals.people.eligibility_sql import ExistsHere, is_aside
from approvals.people.inbox_source import InboxSource, read_streams
from approvals.people.principals import GROUP, USER, name_user
from approvals.people.viewer import Viewer
from approvals.web.base.filters import Filters, InboxPlace
from approvals.web.inbox.search import is_requester, list_words, mention
from workflows.api.completions import owned_answers

#: Rows of a page.
ROWS = 50
#: So many reviews are looked through for one page; and counted, at most.
WINDOW = 2_000
#: Views that show what the person may decide now.
DECIDABLE = ("mine", "overdue", "today", "risk", "claimed", "unassigned", "snoozed")
#: Views that are in the order in which things happened, the latest first: no index finds there what is due when.
BY_TIME = ("requested", "decided")


@dataclass(frozen=True, slots=True)
class Found:
    """One page of a list."""

    ids: tuple[UUID, ...]
    #: Where the next page begins; None: there is none.
    next: InboxPlace | None = None
    #: How many there are, where they were counted: at least, if `is_cut`.
    count: int | None = None
    #: Whether the list goes on behind what was looked through.
    is_cut: bool = False
    #: The rows themselves, where they were read on the way.
    read: tuple[Any, ...] = ()
    #: Whether it is in another order than was asked for, because it is too long.
    is_unsorted: bool = False


class Lists:
    """The lists of one person at one moment, in their time zone."""

    def __init__(self, viewer: Viewer, now: datetime) -> None:
        self.viewer, self.now = viewer, now
        self.user = viewer.user

    @cached_property
    def morning(self) -> datetime:
        """The beginning of the person's day."""
        return _begin_day(timezone.localtime(self.now).date())

    @cached_property
    def midnight(self) -> datetime:
        """The end of the person's day."""
        return _begin_day(timezone.localtime(self.now).date() + timedelta(days=1))

    @property
    def week(self) -> datetime:
        """The end of the seventh day from now."""
        return self.midnight + timedelta(days=6)

    def keep_theirs(self, filters: Filters) -> Filters:
        """The list that is asked for; of a group that they are not in (a colleague sent the address), their own."""
        is_theirs = not filters.group or f"{GROUP}:{filters.group}" in self.viewer.list_groups()
        return filters if is_theirs else replace(filters, view="mine")

    def find(self, filters: Filters, complete: Callable[[Any], Any] = lambda rows: rows) -> Found:
        """The page that an address asks for; `complete` adds what is shown of each row, to read it on the way."""
        if filters.view == "decided":
            return self._find_decided(replace(filters, sort=""))
        rows = self.read(filters)
        narrowing = self.narrow(filters)
        if narrowing is None:
            rows = _begin_after(rows, filters)
            if filters.view in BY_TIME:  # which are they, first: else PostgreSQL may join all there are, to show a page
                ids = rows.values("pk")[: ROWS + 1]
                rows = Review.objects.filter(pk__in=ids).order_by("-pk")
            read = list(complete(rows)[: ROWS + 1])
            last = read[ROWS - 1] if len(read) > ROWS else None
            place = None if last is None else InboxPlace(last.pk, last.due_at)
            return Found(tuple(one.pk for one in read[:ROWS]), place, read=tuple(read[:ROWS]))
        return self._scan(rows, filters, narrowing)

    def find_all(self, filters: Filters, most: int = WINDOW) -> tuple[UUID, ...]:
        """All that an address stands for, `most` at most, from its beginning: for deciding them together."""
        if filters.view in BY_TIME:
            return ()
        rows, narrowing = self.read(filters), self.narrow(filters)
        if narrowing is None:
            return tuple(rows.values_list("pk", flat=True)[:most])
        fits = ExpressionWrapper(narrowing, output_field=BooleanField())
        seen = rows.annotate(fits=fits).values_list("pk", "fits")[:WINDOW]
        return tuple(id for id, is_one in seen if is_one)[:most]

    def read(self, filters: Filters) -> Any:
        """The rows of a view, in its order, as far as an index has them: the view and the due date."""
        match filters.view:
            case "requested":
                asked = Review.objects.filter(requester_id=self.user.pk, workspace_id__in=self.viewer.scopes)
                rows = asked.order_by("-pk")
            case _ if filters.group:
                rows = self._read_group(f"{GROUP}:{filters.group}")
            case _:
                snoozed = False if self.narrow(filters) is None else None
                rows = Review.objects.for_user(self.viewer, snoozed=snoozed)
        for bound in (filters.view, filters.due):
            if filters.view not in BY_TIME and (due := self._bound(bound)) is not None:
                rows = rows.filter(due)
        return rows

    def narrow(self, filters: Filters) -> Q | None:
        """The rest of what is asked, as a condition; None for nothing."""
        found = self._narrow(filters)
        if not found and not filters.sort:
            return None
        # Asked of what is looked through: else PostgreSQL may read, first, all that anybody has put aside.
        is_mine = filters.view in DECIDABLE and filters.view != "snoozed"
        return found & Q(~is_aside(self.user.pk)) if is_mine else found or Q(pk__isnull=False)

    def _narrow(self, filters: Filters) -> Any:
        found: Any = Q()
        match filters.view:
            case "risk":
                found &= Q(risk="high")
            case "claimed":
                found &= Q(claimed_by_id=self.user.pk)
            case "unassigned":
                named = Candidate.objects.filter(review_id=OuterRef("pk"), principal__startswith=f"{USER}:")
                found &= Q(claimed_by__isnull=True) & ~ExistsHere(named)
            case "snoozed":
                found &= Q(is_aside(self.user.pk))
            case view if view in BY_TIME:
                found &= self._bound(filters.due) or Q()
        for name in ("workflow", "risk"):
            if value := getattr(filters, name):
                found &= Q(**{name: value})
        if filters.age:
            found &= Q(created_at__lt=self.now - timedelta(days=int(filters.age)))
        if filters.type:
            found &= Q(subject_model=filters.type)
        if filters.asked:
            name = name_user(self.user) if filters.asked == "me" else filters.asked.replace("-", ":", 1)
            found &= ExistsHere(Candidate.objects.filter(review_id=OuterRef("pk"), principal=name))
        if filters.person:
            found &= is_requester(filters.person)
        for word in list_words(filters):
            found &= mention(word)
        return found

    def count_as(self, filters: Filters) -> Q | None:
        """The same list as a condition on what the person may decide, whether or not they have put it aside; None where
        it is no such list."""
        if filters.view not in DECIDABLE:
            return None
        found = self._narrow(filters)
        for bound in (filters.view, filters.due):
            found &= self._bound(bound) or Q()
        return found or Q(pk__isnull=False)

    def _bound(self, name: str) -> Q | None:
        bounds = {
            "overdue": Q(due_at__lt=self.now),
            "today": Q(due_at__gte=self.now, due_at__lt=self.midnight),
            "week": Q(due_at__gte=self.now, due_at__lt=self.week),
            "none": Q(due_at__isnull=True),
        }
        return bounds.get(name)

    def _read_group(self, principal: str) -> Any:
        """What waits for a group that the person is in, whether or not they may decide it themselves."""
        waiting = self.viewer.list_waiting(owned_answers.reach().alias, principal)
        if not waiting:
            return Review.objects.none()
        streams = [InboxSource(principal, scope) for scope in waiting]
        return read_streams(Review.objects.all(), streams).filter(open=True).by_due()

    def _scan(self, rows: Any, filters: Filters, narrowing: Q) -> Found:
        fits = ExpressionWrapper(narrowing, output_field=BooleanField())
        # Another order is that of the whole list: it begins at the top.
        rows = rows if filters.sort else _begin_after(rows, filters)
        seen = list(rows.annotate(fits=fits).values_list("pk", "due_at", "fits")[: WINDOW + 1])
        is_cut = len(seen) > WINDOW
        found = [InboxPlace(id, due_at) for id, due_at, is_one in seen[:WINDOW] if is_one]
        if filters.sort and not is_cut:
            found = _sort(found, filters)
        next = found[ROWS - 1] if len(found) > ROWS else InboxPlace(*seen[WINDOW - 1][:2]) if is_cut else None
        return Found(
            tuple(one.id for one in found[:ROWS]),
            next,
            count=len(found) if filters.after is None else None,
            is_cut=is_cut,
            is_unsorted=bool(filters.sort) and is_cut,
        )

    def _find_decided(self, filters: Filters) -> Found:
        """What the person has voted on, the latest first."""
        theirs = Review.objects.filter(pk=OuterRef("review_id"), workspace_id__in=self.viewer.scopes)
        votes = Vote.objects.filter(ExistsHere(theirs), user_id=self.user.pk, standing=True).order_by("-pk")
        if filters.after is not None:
            votes = votes.filter(pk__lt=filters.after.id)
        narrowing = self.narrow(filters)
        most = ROWS if narrowing is None else WINDOW
        fits = ExistsHere(theirs if narrowing is None else theirs.filter(narrowing))
        seen = list(votes.annotate(fits=fits).values_list("pk", "review_id", "fits")[: most + 1])
        is_cut = len(seen) > most
        found = [(vote, review) for vote, review, is_one in seen[:most] if is_one]
        next = found[ROWS - 1][0] if len(found) > ROWS else seen[most - 1][0] if is_cut else None
        return Found(
            tuple(review for _, review in found[:ROWS]),
            None if next is None else InboxPlace(next),
            count=len(found) if narrowing is not None and filters.after is None else None,
            is_cut=narrowing is not None and is_cut,
        )


def _begin_day(day: date) -> datetime:
    return timezone.make_aware(datetime.combine(day, time.min))


def _begin_after(rows: Any, filters: Filters) -> Any:
    place = filters.after
    if place is None:
        return rows
    if filters.view == "requested":
        return rows.filter(pk__lt=place.id)
    if place.due_at is None:
        return rows.filter(due_at__isnull=True, pk__gt=place.id)
    later = Q(due_at__gt=place.due_at) | Q(due_at=place.due_at, pk__gt=place.id) | Q(due_at__isnull=True)
    return rows.filter(later)


def _sort(found: list[InboxPlace], filters: Filters) -> list[InboxPlace]:
    """By age, which the ids tell; from where the page before ended."""
    newest = filters.sort == "newest"
    ordered = sorted(found, key=lambda one: one.id, reverse=newest)
    if filters.after is None:
        return ordered
    last = filters.after.id
    return [one for one in ordered if (one.id < last if newest else one.id > last)]
