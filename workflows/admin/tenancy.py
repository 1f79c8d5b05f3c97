"""Which workspaces the admin shows to somebody, and what a key of theirs may do.

Lives here: both answers. Must not live here: pages. Invariants owned: whoever may not operate the whole site finds in
the admin what lies in their own workspaces, and of everything else no more than of what never was; nobody makes a key
that may do what they may not do themselves.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar

from django.contrib import admin
from django.db.models import Model, QuerySet
from django.http import HttpRequest, QueryDict

from workflows.access.api_keys import SCOPES
from workflows.access.memberships import list_workspaces
from workflows.definitions.workspace import DEFAULT_WORKSPACE
from workflows.models import Workspace

if TYPE_CHECKING:
    ModelAdmin = admin.ModelAdmin[Any]
else:
    ModelAdmin = admin.ModelAdmin

Row = TypeVar("Row", bound=Model)

ALL_WORKSPACES = "holdpoint.all_workspaces"
#: What a session needs for what a key with the scope may do.
PERMISSIONS = {
    "read": ("holdpoint.view_instance", "holdpoint.view_interaction", "holdpoint.view_schedule"),
    "start": ("holdpoint.start_instance", "holdpoint.run_schedule"),
    "signal": ("holdpoint.signal_instance",),
    "complete": ("holdpoint.complete_interaction",),
    "operate": (
        *("holdpoint.cancel_instance", "holdpoint.retry_instance", "holdpoint.redrive_interaction"),
        "holdpoint.fork_instance",
        "holdpoint.control_queue",
        "holdpoint.manage_schedule",
    ),
}


def find_scopes(request: HttpRequest) -> list[int] | None:
    """The ids of the workspaces that this user works with; None: all of them.

    >>> find_scopes(request_of_a_superuser) is None
    True
    """
    user: Any = request.user
    return None if user.has_perm(ALL_WORKSPACES) else [id for id, _ in list_own(request)]


def list_own(request: HttpRequest) -> list[tuple[int, str]]:
    """The workspaces that are this user's, as (id, slug); asked once per request.

    >>> list_own(request_of_a_member_of_acme)
    [(2, 'acme')]
    """
    found: list[tuple[int, str]] | None = vars(request).get("holdpoint_workspaces")
    if found is None:
        found = vars(request)["holdpoint_workspaces"] = list_workspaces(request.user)
    return found


def keep_own(rows: QuerySet[Row], request: HttpRequest, path: str = "workspace") -> QuerySet[Row]:
    """Those rows that lie in this user's workspaces.

    >>> keep_own(Instance.objects.all(), request_of_a_member_of_acme).count()
    2
    """
    scopes = find_scopes(request)
    return rows if scopes is None else rows.filter(**{f"{path}__in": scopes})


def is_bounded(request: HttpRequest) -> bool:
    """Whether there are workspaces that this user does not work with.

    >>> is_bounded(request_of_a_superuser)
    False
    """
    scopes = find_scopes(request)
    return scopes is not None and Workspace.objects.exclude(pk__in=scopes).exists()


def list_rights(user: Any) -> frozenset[str]:
    """The scopes that a key may have which this user makes: `admin` takes all of the others.

    >>> sorted(list_rights(user_who_may_only_look))
    ['read']
    """
    held = {scope for scope, needed in PERMISSIONS.items() if user.has_perms(needed)}
    return frozenset(SCOPES) if len(held) == len(PERMISSIONS) else frozenset(held)


class TenantAdmin(ModelAdmin):
    """Rows of the user's own workspaces, in every list, page, action and choice of this model."""

    #: From a row to the key of its workspace.
    workspace_path = "workspace"

    def get_queryset(self, request: HttpRequest) -> QuerySet[Any]:
        """What there is for this user."""
        return keep_own(super().get_queryset(request), request, self.workspace_path)


class OwnWorkspaces(ModelAdmin):
    """Forms that ask for a workspace: one of the user's own, and mostly the one that they look at."""

    def formfield_for_foreignkey(self, db_field: Any, request: HttpRequest, **options: Any) -> Any:
        """One's own workspaces."""
        if db_field.name == "workspace":
            options["queryset"] = keep_own(Workspace.objects.order_by("slug"), request, "pk")
        return super().formfield_for_foreignkey(db_field, request, **options)

    def get_changeform_initial_data(self, request: HttpRequest) -> dict[str, Any]:
        """The workspace whose rows were listed, else the default one; unless the address names another."""
        slug = QueryDict(request.GET.get("_changelist_filters", "")).get("workspace", DEFAULT_WORKSPACE)
        found = keep_own(Workspace.objects.filter(slug=slug.replace("\0", "")), request, "pk")
        return {"workspace": found.values_list("pk", flat=True).first(), **super().get_changeform_initial_data(request)}
