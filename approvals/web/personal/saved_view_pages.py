"""`/approvals/views/`: one's saved views.

Must not live here: what is kept (`saved_views`). Invariants owned: nothing is changed by looking; what was typed is on
the page that refuses it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from django.core.exceptions import ValidationError
from django.http import HttpResponse, HttpResponseNotAllowed, HttpResponseRedirect
from django.urls import reverse
from django.utils.translation import gettext as _

from approvals.display.values import show_text
from approvals.exceptions import UnknownReview
from approvals.models import SavedView
from approvals.web.base.desk import read_query
from approvals.web.base.filters import Filters
from approvals.web.base.page import Opened, find_back, for_people
from approvals.web.base.request_visit import TopMessage
from approvals.web.personal.saved_views import MAX_NAME, NameForm, ViewForm, keep_view, remove_view, rename_view
from workflows.pages.posted_form import MAX_DIGITS, read_number, read_posted

METHODS = ("GET", "HEAD", "POST")


@dataclass(frozen=True, slots=True)
class ShownView:
    """One of them, with its form."""

    key: int
    name: str
    url: str
    #: What stands in the field.
    typed: str
    error: str


@for_people
def saved(page: Opened) -> HttpResponse:
    """Show them, or do what was posted."""
    if page.request.method not in METHODS:
        return HttpResponseNotAllowed(METHODS)
    if page.request.method != "POST":
        return _show(page)
    posted = read_posted(page.request)
    data = posted.data
    if not posted.trusted:
        told = _("It did not come from a page of this site that is still good. Nothing was changed.")
        return _show(page, status=403, banner=TopMessage("warn", _("Nothing was sent"), told))
    match data.get("do", ""):
        case "keep":
            return _keep(page, data)
        case "rename":
            return _rename(page, data)
        case "remove":
            if not remove_view(page.user, _read_key(data)):
                raise UnknownReview(data.get("view", ""))
            return _go(page, reverse("approvals:saved"))
    return _show(page, status=422, banner=TopMessage("warn", _("Nothing was changed"), _("Use one of the buttons.")))


def _keep(page: Opened, data: Any) -> HttpResponse:
    form = ViewForm(data)
    if form.is_valid():
        try:
            kept = keep_view(page.user, form.cleaned_data["name"], form.cleaned_data["query"])
        except ValidationError as refused:
            form.add_error("name", refused)
        else:
            return HttpResponseRedirect(locate(read_query(kept.query)), status=303)
    errors = [told for texts in form.errors.values() for told in texts]
    query = read_query(data.get("query", "")[:8_000])
    return _show(page, status=422, adding=query, typed=data.get("name", ""), error=" ".join(map(str, errors)))


def _rename(page: Opened, data: Any) -> HttpResponse:
    form, key = NameForm(data), _read_key(data)
    if form.is_valid():
        try:
            kept = rename_view(page.user, key, form.cleaned_data["name"])
        except ValidationError as refused:
            form.add_error("name", refused)
        else:
            if kept is None:
                raise UnknownReview(key)
            return _go(page, locate(read_query(kept.query)))
    error = " ".join(map(str, form.errors["name"]))
    return _show(page, status=422, failed=key, typed=data.get("name", ""), error=error)


def _show(
    page: Opened,
    *,
    status: int = 200,
    banner: TopMessage | None = None,
    adding: Filters | None = None,
    failed: int = 0,
    typed: str = "",
    error: str = "",
) -> HttpResponse:
    rows = SavedView._default_manager.filter(user_id=page.user.pk).order_by("name", "pk")
    views = [
        ShownView(
            key=one.pk,
            name=show_text(one.name, MAX_NAME),
            url=locate(read_query(one.query)),
            typed=typed if one.pk == failed else one.name,
            error=error if one.pk == failed else "",
        )
        for one in rows
    ]
    if adding is None and "query" in page.request.GET:
        adding = read_query(page.request.GET["query"][:8_000])
    context = {
        "views": views,
        "banner": banner,
        "adding": adding,
        "adding_query": "" if adding is None else adding.write(),
        "typed": typed,
        "error": "" if failed else error,
        "max_name": MAX_NAME,
        "page_url": reverse("approvals:saved"),
    }
    return page.answer("approvals/saved.html", context, status=status)


def _go(page: Opened, otherwise: str) -> HttpResponse:
    to = find_back(page) if page.request.POST.get("next") else otherwise
    return HttpResponseRedirect(to, status=303)


def locate(filters: Filters) -> str:
    """The address of a list."""
    query, at = filters.write(), reverse("approvals:inbox")
    return f"{at}?{query}" if query else at


def _read_key(data: Any) -> int:
    return read_number(data.get("view", ""), MAX_DIGITS)
