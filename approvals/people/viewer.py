"""One person who looks at reviews: workspaces, names and absences, each read once.

Lives here: what a person's lists are made of, so that any number of them costs it once. Must not live here: rows of
reviews (`querysets`). Invariants owned: nothing is read before it is needed, and nothing twice. So a viewer is as old
as what it has read: it is for one request or one task, and a new one is made after somebody's rights were changed.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any
from uuid import UUID

from django.contrib.postgres.expressions import ArraySubquery
from django.core.exceptions import EmptyResultSet
from django.db.models import OuterRef, Q
from django.db.models.expressions import RawSQL

from approvals.people.eligibility_sql import leave_out_barred, list_rows
from approvals.people.inbox_source import InboxSource, look_around
from approvals.people.person import Person
from approvals.people.principals import GROUP, KINDS, RULE, name_all, name_user, read_memberships
from workflows.access.memberships import list_workspaces
from workflows.clock import Now

if TYPE_CHECKING:
    from django.http import HttpRequest

    from approvals.models import Absence


class Viewer:
    """Who looks. It takes the place of a user wherever reviews are asked for.

    >>> viewer = Viewer(request.user)
    >>> Review.objects.for_user(viewer).count(), Review.objects.for_user(viewer, snoozed=True).count()
    (12, 3)
    """

    def __init__(self, user: Person | None, **beside: Any) -> None:
        self.user: Any = user
        self._beside = beside
        self._streams: dict[str, list[InboxSource]] = {}

    @property
    def is_active(self) -> bool:
        """Whether this is anybody who may log in."""
        return self.user is not None and self.user.pk is not None and bool(self.user.is_active)

    @cached_property
    def workspaces(self) -> list[tuple[int, str]]:
        """Those that are theirs, as (id, slug)."""
        return list_workspaces(self.user) if self.is_active else []

    @property
    def scopes(self) -> list[int]:
        """The ids of their workspaces."""
        return [id for id, _ in self.workspaces]

    def narrow(self, workspace: int | None) -> list[int]:
        """All of their workspaces, or one of them."""
        return self.scopes if workspace is None else [id for id in self.scopes if id == workspace]

    def list_principals(self, kinds: Container[str] = KINDS) -> list[str]:
        """The names that they answer to."""
        is_named = self.is_active and (GROUP in kinds or RULE in kinds)
        return name_all(self.user, kinds, self._memberships if is_named else {})

    @cached_property
    def may_see_all(self) -> bool:
        """Whether they may look at whatever is in their workspaces."""
        return hasattr(self.user, "has_perm") and bool(self.user.has_perm("holdpoint_approvals.view_review"))

    @cached_property
    def absences(self) -> list[Absence]:
        """Those of whom they stand in for now."""
        return _read_absences(self._memberships.get("absences"))

    @cached_property
    def absent(self) -> list[Absent]:
        """The same as people: who is away, each once."""
        found: dict[Any, list[Absence]] = {}
        for one in self.absences:
            found.setdefault(one.user_id, []).append(one)
        return [Absent(during) for during in found.values()]

    def list_streams(self, alias: str, workspace: int | None = None) -> list[InboxSource]:
        """Where the reviews come from that name them, or somebody they stand in for."""
        if alias not in self._streams:
            self._streams[alias] = _list_streams(self, alias) if self.is_active else []
        found = self._streams[alias]
        return found if workspace is None else [one for one in found if one.workspace == workspace]

    def list_groups(self) -> list[str]:
        """The names of the groups that they are in, "group:7"."""
        return [one for one in self.list_principals((GROUP,)) if one.startswith(f"{GROUP}:")]

    def list_waiting(self, alias: str, principal: str) -> list[int]:
        """The workspaces in which anything waits for one of their names: among thousands there are few of them."""
        own = principal in self.list_principals()
        return sorted({one.workspace for one in self.list_streams(alias) if own and one.principal == principal})

    def knows(self, names: Iterable[str]) -> bool:
        """Whether these were asked for."""
        return all(name in self._beside for name in names)

    @property
    def beside(self) -> Mapping[str, Any]:
        """What the given expressions say about the account, read in the same statement; nothing of one that is gone."""
        return {name: self._memberships[name] for name in self._beside if name in self._memberships}

    @cached_property
    def _memberships(self) -> Mapping[str, Any]:
        """What one statement tells about the account."""
        ids = _running().filter(substitute_id=OuterRef("pk")).order_by("pk").values("pk")
        return read_memberships(self.user, KINDS, absences=ArraySubquery(ids), **self._beside)


class Absent(Viewer):
    """Who is away; whom they stand in for themselves does not matter."""

    def __init__(self, during: Sequence[Absence]) -> None:
        super().__init__(during[0].user)
        self._during = during

    def list_shares(self, scopes: Iterable[int]) -> dict[tuple[str, ...], list[int]]:
        """What a member of these workspaces does for them: workflows (none named: all) and in which workspaces.

        However many absences say it: any number of them costs what one does.
        """
        found: dict[tuple[str, ...], list[int]] = {}
        for scope in (one for one in scopes if one in self.scopes):
            here = [one.workflows for one in self._during if one.workspace_id in (None, scope)]
            if here:
                named = {name for workflows in here for name in workflows or ()}
                found.setdefault(tuple(sorted(named)) if all(here) else (), []).append(scope)
        return found

    @cached_property
    def _memberships(self) -> Mapping[str, Any]:
        return read_memberships(self.user, KINDS)


def see_as(user: Person | Viewer | None) -> Viewer:
    """A viewer stays the one it is; of a user one is made.

    >>> see_as(ann).user == ann
    True
    """
    return user if isinstance(user, Viewer) else Viewer(user)


def find_viewer(request: HttpRequest, **beside: Any) -> Viewer:
    """Who looks, the same one as long as the request lasts.

    >>> find_viewer(request) is find_viewer(request)
    True
    """
    found: Viewer | None = getattr(request, "_holdpoint_viewer", None)
    if found is None or found.user != request.user or not found.knows(beside):
        found = Viewer(request.user, **beside)
        request._holdpoint_viewer = found  # type: ignore[attr-defined]
    return found


def list_absences(user: Person) -> list[Absence]:
    """Those whom this user stands in for now."""
    return [one for one in _running().select_related("user").filter(substitute_id=user.pk) if one.user.is_active]


def is_within_absence(absence: Absence, workspace: int, workflow: str) -> bool:
    """Whether an absence is about reviews of this workflow there."""
    here = absence.workspace_id is None or absence.workspace_id == workspace
    return here and (not absence.workflows or workflow in absence.workflows)


def _running() -> Any:
    running = Q(until__isnull=True) | Q(until__gt=Now())
    return list_rows("Absence").filter(running, since__lte=Now()).order_by("pk")


def _read_absences(ids: Sequence[int] | None) -> list[Absence]:
    rows = list_rows("Absence").select_related("user").filter(pk__in=ids).order_by("pk") if ids else ()
    return [one for one in rows if one.user.is_active]


# --- streams ----------------------------------------------------------------------------------------------------


def _list_streams(viewer: Viewer, alias: str) -> list[InboxSource]:
    offers = [_Offer(viewer.user, viewer.list_principals(), viewer.scopes)] if viewer.scopes else []
    for away in viewer.absent if viewer.scopes else ():
        for workflows, scopes in away.list_shares(viewer.scopes).items():
            if (where := _narrow(away.user, workflows, alias)) is not None:
                offers.append(_Offer(away.user, away.list_principals(), scopes, *where))
    pairs = [pair for offer in offers for pair in offer.list_pairs()]
    asked, handed_on = look_around(alias, pairs, [name_user(offer.person) for offer in offers])
    return [stream for offer in offers for stream in offer.list_streams(asked, handed_on)]


#: What was handed on to somebody is theirs until who handed it on has decided after all.
_NOT_USED = """ AND (instead_of = '' OR NOT EXISTS (SELECT 1 FROM holdpoint_vote v WHERE v.review_id = c.review_id
    AND v.standing AND c.added_by IN ('user:' || v.user_id, 'user:' || v.on_behalf_of_id)))"""


class _Offer:
    """Under which names, and where, a person would be asked; `where` is SQL about the candidate's row `c`."""

    def __init__(
        self, person: Person, names: Sequence[str], scopes: Sequence[int], where: str = "", params: Sequence[Any] = ()
    ) -> None:
        self.person, self.names, self.scopes, self.where, self.params = person, names, scopes, where, params

    def list_pairs(self) -> Iterable[tuple[str, int]]:
        return [(name, scope) for name in self.names for scope in self.scopes]

    def list_streams(
        self, asked: Container[tuple[str, int]], handed_on: Mapping[str, Sequence[UUID]]
    ) -> Iterator[InboxSource]:
        own = name_user(self.person)
        gone = handed_on.get(own)
        left: tuple[str, Sequence[Any]] = (" AND review_id <> ALL(%s)", (gone,)) if gone else ("", ())
        for name, scope in self.list_pairs():
            if (name, scope) in asked:
                where, more = (_NOT_USED, ()) if name == own else left
                yield InboxSource(name, scope, where + self.where, (*more, *self.params))


def _narrow(user: Person, workflows: Sequence[str], alias: str) -> tuple[str, Sequence[Any]] | None:
    """SQL for what a substitute may decide of what asks who is away; None for nothing."""
    # Standing in for somebody never does what they may not.
    rows = leave_out_barred(list_rows("Review").filter(pk=RawSQL("c.review_id", ())), user.pk)
    if workflows:
        rows = rows.filter(workflow__in=workflows)
    try:
        sql, params = rows.order_by().values("pk").query.get_compiler(using=alias).as_sql()
    except EmptyResultSet:
        return None
    return f" AND EXISTS ({sql})", params
