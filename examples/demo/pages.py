"""What the demo's pages share: for whom they are there, their headers, their language and time zone.

Invariant owned: a page of the demo does not exist without DEBUG.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import wraps
from typing import Any

from django.conf import settings
from django.contrib.auth.views import redirect_to_login
from django.http import Http404, HttpRequest, HttpResponse
from django.middleware.csrf import get_token
from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from approvals.models import Preference
from approvals.notify.preferences import make_reader
from approvals.web.base.page import read_theme, speaking_to
from workflows.pages.response import answer_page, write_policy

View = Callable[..., HttpResponse]


def only_in_debug(view: View) -> View:
    """Not there on a real site, whatever its addresses say."""

    @wraps(view)
    def guarded(request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponse:
        if not settings.DEBUG:
            raise Http404
        return view(request, *args, **kwargs)

    return guarded


def for_people(view: View) -> View:
    """For who is logged in, as they read."""

    @wraps(view)
    def opened(request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponse:
        if not request.user.is_authenticated:
            return redirect_to_login(request.get_full_path())
        said = Preference._default_manager.filter(pk=request.user.pk).first()
        with speaking_to(make_reader(request.user, said)):
            return view(request, *args, **kwargs)

    return opened


def answer(
    request: HttpRequest, template: str, context: Mapping[str, Any], *, status: int = 200, has_scripts: bool = False
) -> HttpResponse:
    """A page under the strict policy of the others."""
    shared = {"user": request.user, "csrf_token": get_token(request), "theme": read_theme(request)}
    response = answer_page(template, {**shared, **context}, status=status, has_form=True)
    response["Content-Security-Policy"] = write_policy(has_scripts=has_scripts)
    return response


def tell_count(count: int, late: int, asked: int) -> str:
    """What waits for somebody, in a sentence."""
    if late:
        told = ngettext("%(count)d waits, and is overdue.", "%(count)d wait, %(late)d of them overdue.", count)
        return told % {"count": count, "late": late}
    if count:
        return ngettext("%(count)d waits.", "%(count)d wait.", count) % {"count": count}
    if asked:
        told = ngettext("%(count)d request is on its way.", "%(count)d requests are on their way.", asked)
        return told % {"count": asked}
    return _("Nothing waits.")
