"""The login of this site: one click for the demo's people, a name and a password for everybody.

Invariants owned: nobody gets in without a password but the demo's own people, and they only with DEBUG; and after the
login nobody is led to another site.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from django.conf import settings
from django.contrib.auth import login
from django.contrib.auth.views import LoginView
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseBase, HttpResponseRedirect
from django.shortcuts import redirect, resolve_url
from django.utils.decorators import method_decorator
from django.utils.http import url_has_allowed_host_and_scheme
from django.views.decorators.debug import sensitive_post_parameters
from django.views.decorators.http import require_POST

from approvals.logins import CountedLoginForm
from approvals.models import Review
from examples.demo.pages import answer, only_in_debug, tell_count
from examples.demo.people import PEOPLE, SHOP, Person, find_person
from workflows.clock import Now


@dataclass(frozen=True, slots=True)
class Persona:
    """Somebody to choose."""

    person: Person
    #: What waits for them.
    waiting: str


def go_home(request: HttpRequest) -> HttpResponse:
    """The front door: to what waits for who is logged in, else to the login."""
    return redirect("approvals:inbox" if request.user.is_authenticated else "login")


class Login(LoginView):
    """Django's own, as a page like the others."""

    authentication_form = CountedLoginForm

    @method_decorator(sensitive_post_parameters())
    def dispatch(self, request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponseBase:
        return super().dispatch(request, *args, **kwargs)

    def render_to_response(self, context: dict[str, Any], **kwargs: Any) -> HttpResponse:
        given = {
            "form": context["form"],
            "next": self.get_redirect_url(),
            "personas": list_personas() if settings.DEBUG else [],
            "shop": SHOP,
        }
        return answer(self.request, "examples/login.html", given)


def list_personas() -> list[Persona]:
    """The demo's people who are there, and what waits for each."""
    found = []
    for person in PEOPLE:
        if (user := find_person(person.username)) is not None:
            rows = Review.objects.for_user(user)
            late = rows.filter(due_at__lt=Now()).count()
            asked = Review.objects.pending().filter(requester_id=user.pk).count()
            found.append(Persona(person, tell_count(rows.count(), late, asked)))
    return found


@only_in_debug
@require_POST
def enter_as(request: HttpRequest, username: str) -> HttpResponse:
    """One click: logged in as one of the demo's people, and as nobody else."""
    user = find_person(username)
    if user is None:
        raise Http404
    login(request, user, backend="approvals.logins.CountedModelBackend")
    return HttpResponseRedirect(read_next(request), status=303)


def read_next(request: HttpRequest) -> str:
    """Where they wanted to go, if that is on this site."""
    wanted = request.POST.get("next", "")
    is_ours = url_has_allowed_host_and_scheme(wanted, {request.get_host()}, require_https=request.is_secure())
    return wanted if is_ours else resolve_url(settings.LOGIN_REDIRECT_URL)
