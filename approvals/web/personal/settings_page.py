"""`/approvals/settings/`: how somebody likes to work, and who stands in while they are away.

Must not live here: what is valid, and whose it is (`own_settings`). Invariants owned: nothing is changed by looking;
what was typed is on the page that refuses it; every change leads to a page that a reload does not make again.
"""

from __future__ import annotations

from django.http import HttpResponse, HttpResponseNotAllowed, HttpResponseRedirect, QueryDict
from django.urls import reverse
from django.utils import timezone
from django.utils.translation import gettext as _

from approvals.display.times import name_zone
from approvals.exceptions import UnknownReview
from approvals.models import Preference
from approvals.web.base.page import Opened, for_people, set_theme
from approvals.web.base.request_visit import TopMessage
from approvals.web.personal.own_settings import (
    OwnAbsenceForm,
    OwnPreferenceForm,
    end_absence,
    keep_preference,
    list_own,
    remove_absence,
)
from workflows.pages.posted_form import MAX_DIGITS, read_number, read_posted

METHODS = ("GET", "HEAD", "POST")


@for_people
def settings(page: Opened) -> HttpResponse:
    """Show them, or do what was posted."""
    if page.request.method not in METHODS:
        return HttpResponseNotAllowed(METHODS)
    if page.request.method != "POST":
        return _show(page, banner=_tell_done(page.request.GET.get("done", "")))
    posted = read_posted(page.request)
    data = posted.data
    if not posted.trusted:
        told = _("It did not come from a page of this site that is still good. Nothing was changed.")
        return _show(page, data, status=403, banner=TopMessage("warn", _("Nothing was sent"), told))
    match data.get("do", ""):
        case "preferences":
            return _keep(page, data)
        case "add":
            return _add(page, data)
        case "end":
            if not end_absence(read_number(data.get("absence", ""), MAX_DIGITS), page.user):
                told = _("It has not begun, or it is over already.")
                return _show(page, status=409, banner=TopMessage("warn", _("Nothing was changed"), told))
            return _go("ended")
        case "remove":
            if not remove_absence(read_number(data.get("absence", ""), MAX_DIGITS), page.user):
                raise UnknownReview(data.get("absence", ""))
            return _go("removed")
    return _show(page, status=422, banner=TopMessage("warn", _("Nothing was changed"), _("Use one of the buttons.")))


def _keep(page: Opened, data: QueryDict) -> HttpResponse:
    form = _make_preferences(page, data)
    if not form.is_valid():
        return _show(page, data, status=422)
    keep_preference(page.user, form.cleaned_data)
    answer = set_theme(page, data.get("theme", ""))
    if not page.is_part:
        answer["Location"] = f"{reverse('approvals:settings')}?done=kept"
    return answer


def _add(page: Opened, data: QueryDict) -> HttpResponse:
    form = OwnAbsenceForm(data, user=page.user, now=page.desk.now)
    if not form.is_valid():
        return _show(page, data, status=422, absence=form)
    form.save()
    return _go("added")


def _show(
    page: Opened,
    data: QueryDict | None = None,
    *,
    status: int = 200,
    banner: TopMessage | None = None,
    absence: OwnAbsenceForm | None = None,
) -> HttpResponse:
    now = page.desk.now
    sent = data if data is not None and data.get("do") == "preferences" else None
    typed = data if data is not None and data.get("do") == "add" else None
    context = {
        "banner": banner,
        "preferences": _make_preferences(page, sent),
        "themes": [("system", _("As my system has it")), ("light", _("Light")), ("dark", _("Dark"))],
        "theme_chosen": (sent.get("theme") if sent is not None else page.theme) or "system",
        "site_zone": timezone.get_default_timezone_name(),
        "zone": timezone.get_current_timezone_name(),
        "zone_name": name_zone(now),
        "now": now,
        "absence": absence or OwnAbsenceForm(typed, user=page.user, now=now),
        "absences": list_own(page.user, now),
        "page_url": reverse("approvals:settings"),
    }
    return page.answer("approvals/settings.html", context, status=status)


def _make_preferences(page: Opened, data: QueryDict | None) -> OwnPreferenceForm:
    return OwnPreferenceForm(data, instance=page.desk.preference or Preference(user=page.user))


def _tell_done(done: str) -> TopMessage | None:
    words = {
        "kept": _("Kept."),
        "added": _("Your absence is noted."),
        "ended": _("Welcome back: your absence is over."),
        "removed": _("The absence is removed."),
    }
    return TopMessage("good", words[done]) if done in words else None


def _go(done: str) -> HttpResponse:
    return HttpResponseRedirect(f"{reverse('approvals:settings')}?done={done}", status=303)
