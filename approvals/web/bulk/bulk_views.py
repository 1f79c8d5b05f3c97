"""`/approvals/bulk/`: many requests that are alike, decided together, with a result for each.

Lives here: between a page and `bulk_page` and `bulk_run`. Must not live here: a rule about who may what.
Invariants owned: looking decides nothing; a request is decided as it was shown or not at all; what became of one is
said of that one, whoever was quicker; what was ticked and typed is on the page again where it was not taken.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from uuid import UUID

from django.http import HttpResponse, HttpResponseNotAllowed
from django.urls import reverse
from django.utils.translation import gettext, ngettext, pgettext

from approvals.actions.visibility import note_unseen
from approvals.exceptions import UnknownReview
from approvals.people.viewer import Viewer
from approvals.web.base.desk import read_query
from approvals.web.base.filters import Filters, read_filters
from approvals.web.base.page import Opened, for_people
from approvals.web.base.request_visit import TopMessage
from approvals.web.bulk.bulk_data import Material, read_materials
from approvals.web.bulk.bulk_form import BulkPost, find_reason_error, read_sent
from approvals.web.bulk.bulk_page import MOST, read_together
from approvals.web.bulk.bulk_run import DOOR, Came, decide_each, undo_each
from approvals.web.bulk.totals import sum_up
from approvals.web.inbox.lists import WINDOW, Lists
from approvals.web.inbox.rail import read_rail, tell_count
from workflows.clock import read_now
from workflows.pages.posted_form import read_ids, read_posted

METHODS = ("GET", "HEAD", "POST")


@dataclass(frozen=True, slots=True)
class BulkNotes:
    """What is said on the page beside the requests."""

    status: int = 200
    banner: TopMessage | None = None
    reason: str = ""
    reason_error: str = ""
    #: None: all that can be.
    ticked: Sequence[UUID] | None = None
    came: Mapping[UUID, Came] = field(default_factory=dict)
    #: How many more match, and whether those are all there are.
    more: int = 0
    is_cut: bool = False


@for_people
def bulk(page: Opened) -> HttpResponse:
    """Show them, or do what was posted."""
    if page.request.method not in METHODS:
        return HttpResponseNotAllowed(METHODS)
    given = page.request.GET
    filters = read_query(given["list"][:4_000]) if "list" in given else read_filters(given)
    return _take(page, filters) if page.request.method == "POST" else _look(page, filters)


def _look(page: Opened, filters: Filters) -> HttpResponse:
    """What was picked, or all that a list has."""
    lists = Lists(page.viewer, page.desk.now)
    picked = read_ids(page.request.GET.getlist("pick"))
    is_all = _is_whole(page)
    ids = lists.find_all(filters, WINDOW) if is_all else picked
    is_cut = is_all and _is_cut(lists, filters, ids)
    materials = read_materials(page.viewer, ids[:MOST])
    if ids and not materials:
        raise UnknownReview(ids[0])
    return _show(page, lists, filters, materials, BulkNotes(more=max(0, len(ids) - MOST), is_cut=is_cut))


def _take(page: Opened, filters: Filters) -> HttpResponse:
    """Decide, or undo, and show what came of it."""
    posted = read_posted(page.request)
    sent = read_sent(posted.data)
    lists = Lists(page.viewer, page.desk.now)
    materials = read_materials(page.viewer, sent.shown[:MOST])
    if posted.trusted and not sent.is_too_much:
        is_undo = posted.data.get("do") == "undo"
        for id in (sent.undoing if is_undo else sent.ticked)[:MOST]:
            if id not in materials:
                action = "undo" if is_undo else "decide"
                note_unseen(id, page.user, "undo" if is_undo else sent.outcome, DOOR, action=action)
    if sent.shown and not materials:
        raise UnknownReview(sent.shown[0])
    if not posted.trusted:
        told = gettext(
            "It did not come from a page of this site that is still good, or your browser keeps no cookies for this "
            "site. What you typed is kept: check it, then send it again."
        )
        return _refuse(page, lists, filters, materials, sent, 403, gettext("Nothing was sent"), told)
    if sent.is_too_much:
        told = gettext("At most %(n)s at a time: send these first, then the next ones.") % {"n": MOST}
        return _refuse(page, lists, filters, materials, sent, 422, gettext("Nothing was done"), told)
    if posted.data.get("do") == "undo":
        undone = undo_each([id for id in sent.undoing if id in materials], actor=page.user)
        return _answer(page, filters, sent, undone, _tell_undone(undone))
    return _decide(page, lists, filters, materials, sent)


def _decide(
    page: Opened, lists: Lists, filters: Filters, materials: dict[UUID, Material], sent: BulkPost
) -> HttpResponse:
    picks = [one for one in sent.picks if one.id in materials]
    title = gettext("Nothing was decided")
    if not picks:
        told = gettext("Tick at least one of them.")
        return _refuse(page, lists, filters, materials, sent, 422, title, told)
    asked = [one for pick in picks for one in materials[pick.id].outcomes if one.name == sent.outcome]
    if not asked:
        told = gettext("Use one of the buttons. What you typed is kept.")
        return _refuse(page, lists, filters, materials, sent, 422, title, told)
    if error := find_reason_error(sent, is_needed=any(one.requires_reason for one in asked)):
        shown = BulkNotes(422, reason=sent.typed, reason_error=error, ticked=sent.ticked)
        return _show(page, lists, filters, materials, shown)
    data = {pick.id: materials[pick.id].data for pick in picks}
    came = decide_each(picks, sent.outcome, actor=page.user, reason=sent.reason, data=data)
    return _answer(page, filters, sent, came, _tell_decided(came, gone=len(sent.picks) - len(picks)))


def _refuse(
    page: Opened,
    lists: Lists,
    filters: Filters,
    materials: dict[UUID, Material],
    sent: BulkPost,
    status: int,
    title: str,
    told: str,
) -> HttpResponse:
    shown = BulkNotes(status, TopMessage("warn", title, told), reason=sent.typed, ticked=sent.ticked)
    return _show(page, lists, filters, materials, shown)


def _answer(page: Opened, filters: Filters, sent: BulkPost, came: dict[UUID, Came], banner: TopMessage) -> HttpResponse:
    """The page as things are now: what was not begun is still ticked, and nothing else."""
    lists = Lists(Viewer(page.user), read_now())
    left = [id for id, one in came.items() if one.kind == "waits"]
    ids = lists.find_all(filters, WINDOW) if _is_whole(page) else ()
    more = len(set(ids) - set(sent.shown))
    shown = BulkNotes(
        banner=banner,
        reason=sent.typed if left else "",
        ticked=left,
        came=came,
        more=more,
        is_cut=bool(more) and _is_cut(lists, filters, ids),
    )
    return _show(page, lists, filters, read_materials(lists.viewer, sent.shown), shown)


def _show(
    page: Opened, lists: Lists, filters: Filters, materials: Mapping[UUID, Material], shown: BulkNotes
) -> HttpResponse:
    query = filters.write()
    at, inbox = reverse("approvals:bulk"), reverse("approvals:inbox")
    together = read_together(lists, materials, filters, ticked=shown.ticked, came=shown.came)
    undoable = {
        id: one for id, one in shown.came.items() if one.can_undo and (one.until is None or one.until > lists.now)
    }
    untils = [one.until for one in undoable.values() if one.until is not None]
    context = {
        "filters": filters,
        "query": query,
        "rail": read_rail(lists, filters, page.desk.saved),
        "back": f"{inbox}?{query}" if query else inbox,
        "all_url": f"{at}?{query}{'&' if query else ''}all=1",
        "page_url": page.request.get_full_path(),
        "together": together,
        "shown": shown,
        "banner": shown.banner,
        "more": tell_count(shown.more, is_cut=shown.is_cut),
        "totals": sum_up([materials[one.row.id].amounts for one in together.lines if not one.obstacle]),
        "undoing": list(undoable),
        "until": min(untils).isoformat() if untils else "",
        "seconds": max(0, round((min(untils) - lists.now).total_seconds())) if untils else 0,
    }
    return page.answer("approvals/bulk.html", context, status=shown.status)


def _is_whole(page: Opened) -> bool:
    """Whether the address stands for a whole list, and not for what was picked of it."""
    given = page.request.GET
    return given.get("all") == "1" or not read_ids(given.getlist("pick"))


def _is_cut(lists: Lists, filters: Filters, ids: Sequence[UUID]) -> bool:
    """Whether more may match than were looked through."""
    if len(ids) >= WINDOW or lists.narrow(filters) is None:
        return len(ids) >= WINDOW
    return bool(lists.read(filters)[:WINDOW].count() >= WINDOW)


def _tell_decided(came: Mapping[UUID, Came], *, gone: int) -> TopMessage:
    kinds = [one.kind for one in came.values()]
    done, before, left, waits = (kinds.count(kind) for kind in ("done", "before", "left", "waits"))
    items = []
    if left:
        items.append(ngettext("%(n)s stays as it was.", "%(n)s stay as they were.", left) % {"n": left})
    if before:
        items.append(ngettext("%(n)s was decided before.", "%(n)s were decided before.", before) % {"n": before})
    if waits:
        told = ngettext(
            "%(n)s was not begun in time and is still ticked: send it now.",
            "%(n)s were not begun in time and are still ticked: send them now.",
            waits,
        )
        items.append(told % {"n": waits})
    if gone:
        told = ngettext("%(n)s is not here for you any more.", "%(n)s are not here for you any more.", gone)
        items.append(told % {"n": gone})
    if not done:
        return TopMessage("warn", gettext("Nothing was decided"), " ".join(items))
    answers = {one.how for one in came.values() if one.kind == "done"}
    named = {"votes": done, "needed": len(came) + gone, "outcome": answers.pop()}
    if answers:  # one name, and different words for it
        named["outcome"] = gettext("decided")
    return TopMessage("good", pgettext("requests", "%(votes)d of %(needed)d %(outcome)s") % named, " ".join(items))


def _tell_undone(came: Mapping[UUID, Came]) -> TopMessage:
    undone = sum(one.kind == "undone" for one in came.values())
    if not undone:
        return TopMessage("warn", gettext("Nothing was undone"))
    title = gettext("%(n)s of %(all)s undone") % {"n": undone, "all": len(came)}
    return TopMessage("good", title, gettext("Nothing of these was carried out: they wait again."))
