"""Workspaces in the admin: made, named, and removed while nothing is in them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from django.contrib import admin
from django.http import HttpRequest
from django.urls import reverse
from django.utils.html import format_html
from django.utils.http import urlencode
from django.utils.safestring import SafeString
from django.utils.translation import gettext
from django.utils.translation import gettext_lazy as _

from workflows.models import Instance, Workspace
from workflows.scope import DEFAULT_WORKSPACE

if TYPE_CHECKING:
    _Admin = admin.ModelAdmin[Workspace]
else:
    _Admin = admin.ModelAdmin


@admin.register(Workspace)
class WorkspaceAdmin(_Admin):
    """The default workspace keeps its slug and cannot go: the engine looks for it by that."""

    list_display = ("slug", "name", "created_at", "its_instances")
    search_fields = ("slug", "name")
    fields = ("slug", "name", "created_at")

    def get_readonly_fields(self, request: HttpRequest, obj: Any = None) -> tuple[str, ...]:
        """The slug of the default one is not to be changed."""
        return ("created_at", "slug") if is_default(obj) else ("created_at",)

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        """Not the default one."""
        return not is_default(obj) and super().has_delete_permission(request, obj)

    def get_deleted_objects(self, objs: Iterable[Any], request: HttpRequest) -> Any:
        """Refuse a workspace in use without listing what it holds, which Django would load whole."""
        kept = []
        for workspace in (objs := list(objs)):
            if is_default(workspace):
                kept.append(gettext("%(workspace)s is the default workspace") % {"workspace": workspace})
            elif Instance.objects.filter(workspace=workspace).exists():
                kept.append(gettext("%(workspace)s has instances") % {"workspace": workspace})
        return ([], {}, set(), kept) if kept else super().get_deleted_objects(objs, request)

    @admin.display(description=_("instances"))
    def its_instances(self, workspace: Workspace) -> SafeString:
        """The way to them; counting them would cost more than the whole page."""
        url = reverse("admin:holdpoint_instance_changelist", current_app=self.admin_site.name)
        return format_html('<a href="{}?{}">{}</a>', url, urlencode({"workspace": workspace.slug}), _("Show"))


def is_default(workspace: Any) -> bool:
    """Whether this is the one that projects without tenants live in."""
    return isinstance(workspace, Workspace) and workspace.slug == DEFAULT_WORKSPACE
