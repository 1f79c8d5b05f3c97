"""`/approvals/`: the rail, the list and the place for a request beside it; and what changes while they are open.

Invariants owned: badge, list and detail are of one queryset; looking changes nothing but who is seen to be looking;
what left the list while somebody had it on the screen is told them, and never just gone.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from functools import partial
from hashlib import sha256
from typing import Any
from uuid import UUID

from django.db.models import Count, Q
from django.http import HttpResponse, HttpResponseNotAllowed, QueryDict
from django.urls import reverse
from django.utils.translation import gettext, ngettext

from approvals.models import Preference, Review
from approvals.web.base.filters import Filters, read_filters
from approvals.web.base.page import Opened, for_people, go_back, set_theme
from approvals.web.inbox.filter_menus import list_menus
from approvals.web.inbox.lists import DECIDABLE, ROWS, WINDOW, Found, Lists
from approvals.web.inbox.presence import look, write_said
from approvals.web.inbox.rail import Rail, read_rail, tell_count, title_list
from approvals.web.inbox.rows import RequestRow, Section, complete, make_sections, read_rows
from approvals.web.inbox.today import tell_today
from workflows.pages.posted_form import read_ids, read_posted
from workflows.wording.punctuation import end_sentence, join_label

#: What is younger may be new to a page that asks every few seconds.
RECENT = timedelta(minutes=1)
#: Of what has changed, so many are told by their names.
MOST_TOLD = 3
#: Of the rows that a browser says it shows.
MAX_SHOWN = 3 * ROWS


@dataclass(frozen=True, slots=True)
class InboxList:
    """A list as its templates show it."""

    title: str
    #: How many there are, as it is told.
    count: str
    sections: tuple[Section, ...]
    rows: tuple[RequestRow, ...]
    next_url: str
    note: str
    is_narrowed: bool
    #: Changes when anything of it does.
    stamp: str
    announcement: str = ""
    #: What was done today: asked only where it is shown, which is where nothing waits.
    tell_today: Callable[[], str] = str

    @property
    def is_empty(self) -> bool:
        """Whether there is nothing to show, here or further on."""
        return not self.rows and not self.next_url


@for_people
def inbox(page: Opened) -> HttpResponse:
    """The whole of it."""
    if page.request.method not in ("GET", "HEAD"):
        return HttpResponseNotAllowed(["GET", "HEAD"])
    lists = Lists(page.viewer, page.desk.now)
    filters = lists.keep_theirs(read_filters(page.request.GET))
    rail = read_rail(lists, filters, page.desk.saved)
    shown = make_page(lists, filters, rail)
    context = {"filters": filters, "rail": rail, "rows": shown, "menus": list_menus(filters, shown.rows, rail.groups)}
    # The list's address, and with the place in it that is shown: what asks for news asks about this page of the list.
    place = filters.write(after=filters.after)
    return page.answer("approvals/inbox.html", {**context, "query": filters.write(), "place": place})


@for_people
def live(page: Opened) -> HttpResponse:
    """What has changed since: asked every few seconds by the page that is open."""
    if page.request.method not in ("GET", "HEAD"):
        return HttpResponseNotAllowed(["GET", "HEAD"])
    given = page.request.GET
    lists = Lists(page.viewer, page.desk.now)
    filters = lists.keep_theirs(read_filters(given))
    rail = read_rail(lists, filters, page.desk.saved)
    shown = make_page(lists, filters, rail, keep=read_ids(given.get("shown", "").split(",")[:MAX_SHOWN]))
    opened = next(iter(read_ids(given.get("open", "").split(",")[:MAX_SHOWN])), None)
    beside = _look_beside(page, opened)
    stamp = f"{shown.stamp}-{_hash(beside)}"
    if stamp == given.get("stamp"):
        return HttpResponse(status=204)
    context = {"filters": filters, "rail": rail, "rows": replace(shown, stamp=stamp), "opened": beside}
    return page.answer("approvals/parts/live.html", {**context, "query": filters.write()})


@for_people
def theme(page: Opened) -> HttpResponse:
    """Light, dark, or as the system has it."""
    form = _read_form(page)
    return form if isinstance(form, HttpResponse) else set_theme(page, form.get("theme", ""))


@for_people
def keys(page: Opened) -> HttpResponse:
    """Whether single keys do something."""
    form = _read_form(page)
    if isinstance(form, HttpResponse):
        return form
    is_on = form.get("shortcuts") == "on"
    Preference._default_manager.update_or_create(user=page.user, defaults={"shortcuts": is_on})
    return go_back(page)


def make_page(lists: Lists, filters: Filters, rail: Rail, *, keep: Sequence[UUID] | None = None) -> InboxList:
    """One page of a list; with `keep`, also those that were on the screen and have left it."""
    found = lists.find(filters, partial(complete, lists))
    gone = _find_gone(lists, found, keep or ())
    rows = read_rows(lists, [*found.ids, *gone], filters, found.read)
    if gone:
        rows = _put_in_place(rows, keep or (), gone)
    # What they did themselves they have been told by the page.
    others = [id for id, is_own in gone.items() if not is_own]
    here = reverse("approvals:inbox")
    current = rail.current
    if filters.is_narrowed or current is None:
        count = "" if found.count is None else tell_count(found.count, is_cut=found.is_cut)
    else:
        count = current.count
    return InboxList(
        title=title_list(filters, rail),
        count=count,
        sections=make_sections(rows, lists, filters),
        rows=rows,
        next_url=f"{here}?{_write_next(filters, found)}" if found.next else "",
        note=_note(found),
        is_narrowed=filters.is_narrowed,
        stamp=_hash([rail, rows, found.next]),
        tell_today=partial(tell_today, lists),
        announcement=""
        if keep is None
        else _announce(rows, others, _find_new(lists, rows, keep), count if filters.view in DECIDABLE else ""),
    )


def _write_next(filters: Filters, found: Found) -> str:
    # What is in no other order than by due date goes on by due date.
    return filters.write(after=found.next, sort="" if found.is_unsorted else filters.sort)


def _note(found: Found) -> str:
    if found.is_unsorted:
        told = gettext("More than %(n)s wait here: too many to be put into another order. Narrow the list first.")
        return told % {"n": WINDOW}
    if found.is_cut:
        told = gettext("The %(n)s that are due first were looked through. Go on to look through the next ones.")
        return told % {"n": WINDOW}
    return ""


def _find_gone(lists: Lists, found: Found, keep: Sequence[UUID]) -> dict[UUID, bool]:
    """Of what was on the screen, what is no longer in the list, as far as this person may still know of it; and whether
    they decided it themselves."""
    left = [id for id in keep if id not in found.ids]
    if not left:
        return {}
    rows = Review.objects.visible_to(lists.viewer).filter(pk__in=left)
    is_over = ~Q(open=True, effective_at__isnull=True)
    is_anothers = Q(claimed_by__isnull=False) & ~Q(claimed_by=lists.user.pk)
    seen = dict(rows.filter(is_over | is_anothers).values_list("pk", "decided_by"))
    return {id: seen[id] == lists.user.pk for id in left if id in seen}


def _put_in_place(rows: Iterable[RequestRow], keep: Sequence[UUID], gone: Collection[UUID]) -> tuple[RequestRow, ...]:
    """What has left the list stays where it was on the screen: behind the row that it stood behind."""
    before = {id: number for number, id in enumerate(keep)}
    placed: list[RequestRow] = [row for row in rows if row.id not in gone]
    for row in sorted((one for one in rows if one.id in gone), key=lambda one: before[one.id]):
        earlier = [n for n, one in enumerate(placed) if before.get(one.id, len(before)) < before[row.id]]
        placed.insert(earlier[-1] + 1 if earlier else 0, row)
    return tuple(placed)


def _find_new(lists: Lists, rows: Iterable[RequestRow], keep: Sequence[UUID]) -> list[RequestRow]:
    """What has come since the page last asked; a row that only moved up is no news."""
    fresh = lists.now - RECENT
    return [row for row in rows if row.status == "open" and row.id not in keep and row.created_at > fresh]


def _announce(rows: Iterable[RequestRow], gone: Sequence[UUID], new: Sequence[RequestRow], left: str) -> str:
    """`left` is how many wait for the person; empty in lists of what waits for others."""
    told = [end_sentence(join_label(row.title, _tell_gone(row))) for row in rows if row.id in gone][:MOST_TOLD]
    if len(new) > MOST_TOLD:
        told.append(ngettext("%(n)s new request.", "%(n)s new requests.", len(new)) % {"n": len(new)})
    else:
        told += [end_sentence(join_label(gettext("New"), row.title)) for row in new]
    if told and left.isdigit():
        n = int(left)
        told.append(ngettext("%(n)s waits for you.", "%(n)s wait for you.", n) % {"n": n})
    return " ".join(told)


def _tell_gone(row: RequestRow) -> str:
    return row.told or gettext("%(who)s has claimed it") % {"who": row.claimed_by}


@dataclass(frozen=True, slots=True)
class Beside:
    """What is open beside the list."""

    id: str = ""
    version: int = 0
    #: Changes with claims and comments, which leave the version as it is.
    said: str = ""
    status: str = ""
    looking: tuple[str, ...] = ()


def _look_beside(page: Opened, id: UUID | None) -> Beside:
    if id is None:
        return Beside()
    rows = Review.objects.visible_to(page.viewer).filter(pk=id).annotate(comments_made=Count("comments"))
    if (found := rows.first()) is None:
        return Beside(str(id), status="gone")
    status = "open" if found.open and found.effective_at is None else "grace" if found.open else "over"
    said = write_said(found.claimed_by_id, found.comments_made)
    return Beside(str(id), found.version, said, status, look(id, page.user).others if found.open else ())


def _read_form(page: Opened) -> QueryDict | HttpResponse:
    """A small form; the answer to one that is none, or not ours."""
    if page.request.method != "POST":
        return HttpResponseNotAllowed(["POST"])
    posted = read_posted(page.request)
    if posted.trusted:
        return posted.data
    return page.tell(403, gettext("Nothing was changed"), gettext("Load the page anew, then try again."))


def _hash(value: Any) -> str:
    return sha256(repr(value).encode()).hexdigest()[:16]
