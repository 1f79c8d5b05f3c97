"""Who opens a page of the inbox: logged in, in their language and time zone, under a strict policy.

Lives here: what all these pages share. Must not live here: what they show. Invariants owned: nobody is shown anything
without a login, and only who asks for a whole page is led to it: a page's part says so, and what was posted is given
back; no page may run or load anything that is not this site's own; every answer is for this person only.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import cached_property, wraps
from typing import Any

from django.contrib.auth.views import redirect_to_login
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.urls import NoReverseMatch, reverse
from django.utils import timezone, translation
from django.utils.cache import patch_vary_headers
from django.utils.http import url_has_allowed_host_and_scheme
from django.utils.translation import get_language
from django.utils.translation import gettext as _
from django.views.decorators.debug import sensitive_post_parameters
from django.views.decorators.gzip import gzip_page

from approvals.conf import DEFAULTS, conf
from approvals.display.values import MAX_BLOCK, MAX_NAME, show_text
from approvals.exceptions import UnknownReview
from approvals.notify.preferences import ReaderPreferences, make_reader
from approvals.people.principals import name_person
from approvals.people.viewer import Viewer, find_viewer
from approvals.web.base.desk import InboxDesk, ask_desk, read_desk
from workflows.pages.posted_form import FormRefused, check_charset, give_token, keep_cookie, read_posted
from workflows.pages.response import answer_page, write_policy
from workflows.rest.base.program_views import open_to_machines

THEME = "holdpoint_theme"
THEMES = ("light", "dark")
#: A year, as browsers keep a cookie at most.
_YEAR = 365 * 24 * 3600
#: Fields of our forms that nobody types, or that nobody is shown again.
_NOT_TYPED = frozenset(
    {"csrfmiddlewaretoken", "password", "version", "seen", "outcome", "do", "key", "saw", "preset", "until", "to"}
    | {"pick", "undo", "next", "query", "view", "absence", "theme", "shortcuts"}
)


@dataclass(frozen=True, slots=True)
class PageOwner:
    """What every page says of whoever looks."""

    name: str
    username: str
    #: Whether single keys do something.
    keys_on: bool
    theme: str
    #: Where a form logs out; empty where the project has no such address.
    logout_url: str


class Opened:
    """One request for a page of the inbox."""

    def __init__(self, request: HttpRequest) -> None:
        self.request = request
        self.user: Any = request.user

    @cached_property
    def desk(self) -> InboxDesk:
        """The moment, how they like to work, and the lists that they kept."""
        return read_desk(self.viewer)

    @cached_property
    def reader(self) -> ReaderPreferences:
        """Their language and time zone."""
        return make_reader(self.user, self.desk.preference)

    @property
    def is_somebody(self) -> bool:
        """Whether they are logged in. A backend of the project's may let somebody in whose account was closed."""
        return bool(self.user.is_authenticated and self.user.is_active)

    @cached_property
    def viewer(self) -> Viewer:
        """Who looks."""
        return find_viewer(self.request, **ask_desk())

    @cached_property
    def is_part(self) -> bool:
        """Whether a part of a page is wanted, by our own script."""
        return self.request.headers.get("HX-Request") == "true"

    @cached_property
    def theme(self) -> str:
        """The theme that they chose; empty: that of their system."""
        return read_theme(self.request)

    @cached_property
    def person(self) -> PageOwner:
        """Who is logged in, as the page says it."""
        if not self.is_somebody:
            return PageOwner("", "", keys_on=False, theme=self.theme, logout_url="")
        return PageOwner(
            name=show_text(name_person(self.user), MAX_NAME),
            username=show_text(self.user.get_username(), MAX_NAME),
            keys_on=self.desk.preference.shortcuts if self.desk.preference else True,
            theme=self.theme,
            logout_url=_find_logout(),
        )

    def answer(
        self, template: str, context: Mapping[str, Any], *, status: int = 200, headers: Mapping[str, str] | None = None
    ) -> HttpResponse:
        """A page, or a part of one."""
        shared = {
            "base": conf.base_template,
            # A project's own frame has a name and a way out of its own.
            "is_ours": conf.base_template == DEFAULTS["BASE_TEMPLATE"],
            "person": self.person,
            "theme": self.theme,
            "user": self.user,
            "csrf_token": give_token(self.request),
        }
        response = answer_page(template, {**shared, **context}, status=status, has_form=True, headers=headers)
        response["Content-Security-Policy"] = write_policy(has_scripts=True)
        keep_cookie(self.request, response)
        return response

    def tell(
        self,
        status: int,
        title: str,
        text: str,
        *,
        kept: str = "",
        login_url: str = "",
        headers: Mapping[str, str] | None = None,
    ) -> HttpResponse:
        """A page, or the pane, that says one thing; `kept` is what was typed for what is not there."""
        template = "approvals/parts/notice.html" if self.is_part else "approvals/notice.html"
        context = {"title": title, "text": text, "kept": kept, "login_url": login_url}
        return self.answer(template, context, status=status, headers=headers)

    def tell_gone(self, kept: str = "") -> HttpResponse:
        """What is not there, or not theirs."""
        told = _("It may have been withdrawn, or it asks others now. What waits for you is in your inbox.")
        return self.tell(404, _("There is nothing here for you"), told, kept=kept)

    def keep_typed(self) -> str:
        """What was typed into a form that nothing can take any more."""
        if self.request.method != "POST":
            return ""
        fields = read_posted(self.request).data.lists()
        lines = [text for name, texts in fields if name.partition("-")[0] not in _NOT_TYPED for text in texts]
        return show_text("\n".join(line for line in lines if line.strip()), MAX_BLOCK, lines=True)


def for_people(view: Callable[..., HttpResponse]) -> Callable[..., HttpResponse]:
    """A view that takes an `Opened` in the place of the request; whoever is not logged in is led to do so."""

    # The login and the form's token are judged here, so that what was typed is not lost with a refusal; and many that
    # are decided together are not one transaction, even where the project makes one of every request.
    @open_to_machines
    @gzip_page  # with a padding of random length, so that its size tells nothing of what is in it
    @sensitive_post_parameters("password")
    @wraps(view)
    def opened(request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponse:
        page = Opened(request)
        if page.is_somebody:
            with speaking_to(page.reader):
                response = _open(view, page, *args, **kwargs)
                response["Content-Language"] = get_language() or ""
        else:
            response = _ask_to_log_in(page)
        response["X-Frame-Options"] = "DENY"
        response.headers.setdefault("Cache-Control", "no-store")
        patch_vary_headers(response, ("Accept-Language", "Cookie", "HX-Request"))
        return response

    return opened


@contextmanager
def speaking_to(reader: ReaderPreferences) -> Iterator[None]:
    """In the language that they chose, else in that of the browser; in their time zone."""
    language = reader.language if reader.chose_language else translation.get_language()
    with translation.override(language), timezone.override(reader.zone):
        yield


def _open(view: Callable[..., HttpResponse], page: Opened, *args: Any, **kwargs: Any) -> HttpResponse:
    try:
        check_charset(page.request)
        return view(page, *args, **kwargs)
    except UnknownReview:
        return page.tell_gone()
    except FormRefused as refused:
        return page.tell(refused.status, _("That could not be read"), str(refused))


def _ask_to_log_in(page: Opened) -> HttpResponse:
    if page.is_part:
        told = _("You are no longer logged in. Log in again in another tab, then send this once more: it is kept here.")
        return HttpResponse(told, status=401, content_type="text/plain; charset=utf-8")
    to_login = redirect_to_login(page.request.get_full_path())
    if page.request.method in ("GET", "HEAD"):
        return to_login
    kept = ""
    with suppress(FormRefused):
        kept = page.keep_typed()
    title, told = _("You are no longer logged in"), _("Nothing was sent. Log in again, then send it once more.")
    return page.tell(401, title, told, kept=kept, login_url=to_login.url)


def _find_logout() -> str:
    with suppress(NoReverseMatch):
        return reverse("logout")
    return ""


def read_theme(request: HttpRequest) -> str:
    """The theme that this browser has been told; empty: that of its system."""
    chosen = request.COOKIES.get(THEME, "")
    return chosen if chosen in THEMES else ""


def set_theme(page: Opened, wanted: str) -> HttpResponse:
    """Keep a theme for this browser."""
    response = go_back(page)
    if wanted in THEMES:
        secure = page.request.is_secure()
        response.set_cookie(THEME, wanted, max_age=_YEAR, samesite="Lax", secure=secure, httponly=True)
    else:
        response.delete_cookie(THEME, samesite="Lax")
    return response


def go_back(page: Opened) -> HttpResponse:
    """Nothing for a script; for a browser the way back to the page that it came from."""
    if page.is_part:
        return HttpResponse(status=204)
    return HttpResponseRedirect(find_back(page), status=303)


def find_back(page: Opened) -> str:
    """A page of this site that a form names; else the inbox."""
    wanted = page.request.POST.get("next", "")
    is_ours = url_has_allowed_host_and_scheme(wanted, {page.request.get_host()}, require_https=page.request.is_secure())
    return wanted if is_ours else reverse("approvals:inbox")
