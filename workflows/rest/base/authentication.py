"""Who calls, and in which workspace: a key or a session.

Invariants owned: a caller has exactly one workspace; a workspace that does not exist and one that is not the
caller's are refused alike; and a key that opens nothing is told nothing about why.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NoReturn

from django.conf import settings
from django.http import HttpRequest

from workflows.access.api_keys import find_access
from workflows.access.memberships import list_workspaces
from workflows.api.arguments import read_actor
from workflows.conf import conf
from workflows.conf.flow_settings import parse_rate
from workflows.definitions.registry import LINES
from workflows.rest.protocol.problems import CHOOSE_WORKSPACE, FORBIDDEN, UNAUTHORIZED, RequestRefused

HEADER = "X-Workspace"


@dataclass(frozen=True, slots=True)
class Need:
    """What a call takes: this scope of a key, or this permission of a user."""

    scope: str
    permission: str
    #: What it takes as well.
    beside: Need | None = None


READ = Need("read", "holdpoint.view_instance")
READ_INTERACTIONS = Need("read", "holdpoint.view_interaction")
START = Need("start", "holdpoint.start_instance")
SIGNAL = Need("signal", "holdpoint.signal_instance")
COMPLETE = Need("complete", "holdpoint.complete_interaction")
CANCEL = Need("operate", "holdpoint.cancel_instance")
RETRY = Need("operate", "holdpoint.retry_instance")
FORK = Need("operate", "holdpoint.fork_instance")
REDRIVE = Need("operate", "holdpoint.redrive_interaction")
CONTROL = Need("operate", "holdpoint.control_queue")
READ_SCHEDULES = Need("read", "holdpoint.view_schedule")
#: A schedule starts instances: nobody may make or change one who may not start them.
MANAGE_SCHEDULES = Need("operate", "holdpoint.manage_schedule", beside=START)
REMOVE_SCHEDULES = Need("operate", "holdpoint.manage_schedule")
RUN_SCHEDULES = Need("start", "holdpoint.run_schedule")


@dataclass(frozen=True, slots=True)
class Caller:
    """Somebody who may call, and what for."""

    actor: str
    workspace: int
    slug: str
    #: None: all of them.
    workflows: tuple[str, ...] | None
    rate: tuple[int, int] | None
    #: A key's; a user has permissions.
    scopes: frozenset[str] = frozenset()
    user: Any = None

    def may(self, need: Need) -> bool:
        """Whether a call that takes this is among what the caller may do."""
        if self.user is None:
            return need.scope in self.scopes or "admin" in self.scopes
        return hasattr(self.user, "has_perm") and bool(self.user.has_perm(need.permission))

    def check(self, need: Need) -> None:
        """That this call is among what the caller may do."""
        if self.user is None:
            if need.scope not in self.scopes and "admin" not in self.scopes:
                raise RequestRefused(FORBIDDEN, f"This takes a key with the scope {need.scope}.")
        elif not hasattr(self.user, "has_perm"):
            raise RequestRefused(FORBIDDEN, "The users of this site have no permissions: use a key.")
        elif not self.may(need):
            raise RequestRefused(FORBIDDEN, f"This takes the permission {need.permission}.")
        if need.beside is not None:
            self.check(need.beside)

    def sees(self, workflow: str) -> bool:
        """Whether instances of this workflow are there for the caller."""
        return self.workflows is None or workflow in self.workflows

    def check_workflow(self, name: str) -> None:
        """That a key for some workflows is meant for this one."""
        if self.workflows is not None and not self.sees(name):
            told = ", ".join(one for one in self.workflows if not one.endswith(LINES)) or "none"
            raise RequestRefused(FORBIDDEN, f"This key is for other workflows: {told}.")


def find_caller(request: HttpRequest) -> Caller:
    """Whose request this is; `RequestRefused` with 401 (nobody's), or 403 and 400 about the workspace."""
    key = read_key(request)
    return _find_by_session(request) if key is None else _find_by_key(request, key)


def read_key(request: HttpRequest) -> str | None:
    """The key that a request brings, good or not. What a proxy puts into the header for itself (Basic …) is none."""
    scheme, _, key = request.META.get("HTTP_AUTHORIZATION", "").partition(" ")
    return key.strip() if scheme.lower() == "bearer" else None


def _find_by_key(request: HttpRequest, key: str) -> Caller:
    access = find_access(key)
    if access is None:
        refuse_stranger()
    if (named := read_workspace(request)) is not None and named != access.slug:
        refuse_workspace()
    rate = parse_rate(access.rate) if access.rate else conf.api_rate
    # The lines of a workflow's items are a part of it: what they ask is answered by whoever may answer the workflow.
    lines = None if access.workflows is None else tuple(f"{name}{LINES}" for name in access.workflows)
    names = None if access.workflows is None or lines is None else access.workflows + lines
    return Caller(access.actor, access.workspace, access.slug, names, rate, access.scopes)


def _find_by_session(request: HttpRequest) -> Caller:
    if "\0" in request.COOKIES.get(settings.SESSION_COOKIE_NAME, ""):
        refuse_stranger()  # or the database would refuse to look for it
    user = getattr(request, "user", None)
    if user is None or not user.is_authenticated or not user.is_active:
        refuse_stranger()
    id, slug = choose_workspace(user, read_workspace(request))
    return Caller(read_actor(user), id, slug, None, conf.api_rate, user=user)


def read_workspace(request: HttpRequest) -> str | None:
    """The workspace that a request names."""
    return request.GET.get("workspace") or request.META.get("HTTP_X_WORKSPACE") or None


def choose_workspace(user: Any, named: str | None) -> tuple[int, str]:
    """The id and slug of the workspace that a user means."""
    mine = list_workspaces(user)
    if named is not None:
        for id, slug in mine:
            if slug == named:
                return id, slug
        refuse_workspace()
    if len(mine) == 1:
        return mine[0]
    if not mine:
        raise RequestRefused(
            FORBIDDEN, "You are a member of no workspace of this site. Its admin lists members under Workspaces."
        )
    raise RequestRefused(
        CHOOSE_WORKSPACE,
        f"You are in several workspaces: name one with ?workspace= or the header {HEADER}.",
        errors={"workspace": [slug for _, slug in mine]},
    )


def refuse_workspace() -> NoReturn:
    """The same for a workspace that is not yours and for one that is not."""
    raise RequestRefused(FORBIDDEN, "This workspace is not yours: name another one, or none.")


def refuse_stranger() -> NoReturn:
    """The same for a key that is none, was revoked or is over, and for nobody at all."""
    raise RequestRefused(
        UNAUTHORIZED,
        "Send a key of this site in the header Authorization: Bearer hp_…, or log in.",
        headers={"WWW-Authenticate": 'Bearer realm="holdpoint"'},
    )
