"""Workspaces in the admin: made, named, peopled, and removed while nothing is in them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from django.contrib import admin
from django.db.models import ManyToManyField
from django.http import HttpRequest
from django.urls import reverse
from django.utils.html import format_html
from django.utils.http import urlencode
from django.utils.safestring import SafeString
from django.utils.translation import gettext
from django.utils.translation import gettext_lazy as _

from workflows.access.api_keys import forget_keys
from workflows.admin.base import StyledAdmin
from workflows.admin.tenancy import TenantAdmin, find_scopes
from workflows.definitions.workspace import DEFAULT_WORKSPACE
from workflows.models import ApiKey, Instance, Workspace


@admin.register(Workspace)
class WorkspaceAdmin(TenantAdmin, StyledAdmin):
    """The default workspace keeps its slug and cannot go: the engine looks for it by that."""

    list_display = ("slug", "name", "created_at", "its_instances", "its_keys")
    search_fields = ("slug", "name")
    filter_horizontal = ("members",)
    workspace_path = "pk"

    def get_fields(self, request: HttpRequest, obj: Workspace | None = None) -> tuple[str, ...]:
        """One that is being made leads nowhere yet."""
        asked = ("slug", "name", "members")
        return asked if obj is None else (*asked, "its_instances", "its_keys", "created_at")

    def get_readonly_fields(self, request: HttpRequest, obj: Workspace | None = None) -> tuple[str, ...]:
        """The slug of the default one is not to be changed; nor by who would learn from it which others are taken."""
        known = ("created_at", "its_instances", "its_keys")
        is_fixed = is_default(obj) or find_scopes(request) is not None
        return (*known, "slug") if is_fixed else known

    def has_add_permission(self, request: HttpRequest) -> bool:
        """A new one lies in nobody's workspaces."""
        return find_scopes(request) is None and super().has_add_permission(request)

    def get_autocomplete_fields(self, request: HttpRequest) -> tuple[str, ...]:
        """Members are searched for where the project's users can be; else they are picked from all of them."""
        users = self.admin_site._registry.get(Workspace._meta.get_field("members").related_model)
        return ("members",) if users is not None and users.get_search_fields(request) else ()

    def formfield_for_manytomany(
        self, db_field: ManyToManyField[Any, Any], request: HttpRequest, **options: Any
    ) -> Any:
        """Users by their login names, whatever model they are of."""
        users: Any = db_field.related_model
        options.setdefault("queryset", users._default_manager.order_by(users.USERNAME_FIELD))
        field = super().formfield_for_manytomany(db_field, request, **options)
        if field is not None:
            vars(field)["label_from_instance"] = users.get_username
        return field

    def has_delete_permission(self, request: HttpRequest, obj: Workspace | None = None) -> bool:
        """Not the default one."""
        return not is_default(obj) and super().has_delete_permission(request, obj)

    def get_deleted_objects(self, objs: Iterable[Any], request: HttpRequest) -> Any:
        """Refuse a workspace in use without listing what it holds, which Django would load whole."""
        kept, rows = [], list(objs)
        for workspace in rows:
            if is_default(workspace):
                kept.append(gettext("%(workspace)s is the default workspace") % {"workspace": workspace})
            elif Instance.objects.filter(workspace=workspace).exists():
                kept.append(gettext("%(workspace)s has instances") % {"workspace": workspace})
            elif ApiKey.objects.filter(workspace=workspace, last_used_at__isnull=False).exists():
                kept.append(gettext("%(workspace)s has API keys that were used") % {"workspace": workspace})
        return ([], {}, set(), kept) if kept else super().get_deleted_objects(rows, request)

    def delete_model(self, request: HttpRequest, obj: Workspace) -> None:
        """Delete a workspace together with its keys."""
        super().delete_model(request, obj)
        forget_keys()

    @admin.display(description=_("instances"))
    def its_instances(self, workspace: Workspace) -> SafeString:
        """The way to them; counting them would cost more than the whole page."""
        return self.link_list("instance", workspace)

    @admin.display(description=_("API keys"))
    def its_keys(self, workspace: Workspace) -> SafeString:
        """The way to them."""
        return self.link_list("apikey", workspace)

    def link_list(self, model: str, workspace: Workspace) -> SafeString:
        """A list, narrowed to one workspace."""
        url = reverse(f"admin:holdpoint_{model}_changelist", current_app=self.admin_site.name)
        return format_html('<a href="{}?{}">{}</a>', url, urlencode({"workspace": workspace.slug}), _("Show"))


def is_default(workspace: Workspace | None) -> bool:
    """Whether this is the one that projects without tenants live in."""
    return isinstance(workspace, Workspace) and workspace.slug == DEFAULT_WORKSPACE
