"""API keys in the admin: who has one, what it may do, and whether it is still in use."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from django.contrib import admin, messages
from django.contrib.admin import SimpleListFilter
from django.contrib.admin.options import IncorrectLookupParameters
from django.core.exceptions import PermissionDenied
from django.db.models import F, Q, QuerySet
from django.db.models.functions import Now
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.utils.html import format_html
from django.utils.safestring import SafeString
from django.utils.translation import gettext, pgettext_lazy
from django.utils.translation import gettext_lazy as _
from django.views.decorators.debug import sensitive_variables

from workflows.access.api_keys import SCOPES, change_key, create_key, forget_keys
from workflows.admin.actors import find_actors, show_actor
from workflows.admin.bounded_lists import WorkspaceFilter
from workflows.admin.keys.key_actions import KeyActions, make_once, show_state, show_used
from workflows.admin.keys.key_forms import KeyForm
from workflows.admin.markup import show_moment, show_text
from workflows.admin.tenancy import ModelAdmin, OwnWorkspaces, list_rights
from workflows.exceptions import InvalidCall
from workflows.models import ApiKey
from workflows.wording.punctuation import join_html, join_list

ASKED = ("name", "workspace", "scopes", "reach", "workflows", "expires_at", "rate")
RIGHTS = ("shown_scopes", "shown_workflows", "shown_expiry", "shown_rate")
ORIGIN = (("made", "maker"), ("used", "ended"))
SHOWN = ("beginning", "state", *RIGHTS, *ORIGIN[0], *ORIGIN[1])


class StateFilter(SimpleListFilter):
    """By what it opens."""

    title = _("state")
    parameter_name = "state"
    rules = {
        "usable": Q(revoked_at=None) & (Q(expires_at=None) | Q(expires_at__gt=Now())),
        "expired": Q(revoked_at=None, expires_at__lte=Now()),
        "revoked": Q(revoked_at__isnull=False),
    }

    def lookups(self, request: HttpRequest, model_admin: ModelAdmin) -> list[tuple[str, Any]]:
        return [("usable", _("Usable")), ("expired", _("Expired")), ("revoked", _("Revoked"))]

    def queryset(self, request: HttpRequest, queryset: QuerySet[ApiKey]) -> QuerySet[ApiKey]:
        value = self.value()
        if value is None:
            return queryset
        try:
            return queryset.filter(self.rules[value])
        except KeyError as error:
            raise IncorrectLookupParameters(error) from error


@admin.register(ApiKey)
class ApiKeyAdmin(OwnWorkspaces, KeyActions):
    """Makes keys, and changes what they may do; the keys themselves it cannot know."""

    form = KeyForm
    list_display = ("beginning", "title", "state", "workspace", "shown_scopes", "used")
    list_display_links = ("beginning", "title")
    list_filter = (StateFilter, WorkspaceFilter)
    show_full_result_count = False
    show_facets = admin.ShowFacets.NEVER
    ordering = ("-id",)
    search_fields = ("prefix", "name")
    search_help_text = _("The beginning of a key or of a name")

    def get_queryset(self, request: HttpRequest) -> QuerySet[ApiKey]:
        """With their workspaces; no page has any use for a hash."""
        rows: QuerySet[ApiKey] = super().get_queryset(request).select_related("workspace").defer("hash")
        return rows

    # --- what is allowed ----------------------------------------------------------------------------

    def has_change_permission(self, request: HttpRequest, obj: ApiKey | None = None) -> bool:
        """Not of a revoked one: it stays as it ended; nor of one that may do what this user may not."""
        if obj is not None and (obj.revoked_at is not None or not set(obj.scopes) <= list_rights(request.user)):
            return False
        return super().has_change_permission(request, obj)

    def has_add_permission(self, request: HttpRequest) -> bool:
        """Who may do nothing has nothing to give a key."""
        return bool(list_rights(request.user)) and super().has_add_permission(request)

    def has_delete_permission(self, request: HttpRequest, obj: ApiKey | None = None) -> bool:
        """Not of one that was used: the ledger names it."""
        return (obj is None or obj.last_used_at is None) and super().has_delete_permission(request, obj)

    def get_deleted_objects(self, objs: Iterable[Any], request: HttpRequest) -> Any:
        """Refuse those that were used, and say what to do instead."""
        told, rows = gettext("%(key)s was used, and the history names it: revoke it instead"), list(objs)
        kept = [told % {"key": row} for row in rows if row.last_used_at is not None]
        return ([], {}, set(), kept) if kept else super().get_deleted_objects(rows, request)

    def delete_model(self, request: HttpRequest, obj: ApiKey) -> None:
        """One that is being used at this moment stays."""
        self.delete_queryset(request, ApiKey.objects.filter(pk=obj.pk))

    def delete_queryset(self, request: HttpRequest, queryset: QuerySet[ApiKey]) -> None:
        """Delete the keys that were never used; one that is in use stays."""
        queryset.filter(last_used_at=None).delete()
        forget_keys()

    # --- the list -----------------------------------------------------------------------------------

    def get_search_results(
        self, request: HttpRequest, queryset: QuerySet[ApiKey], search_term: str
    ) -> tuple[QuerySet[ApiKey], bool]:
        """By how the key or its name begins; never a duplicate, because nothing is joined."""
        term = search_term.strip().rstrip("…")
        found = queryset.filter(Q(prefix__startswith=term) | Q(name__startswith=term)) if term else queryset
        return found, False

    @admin.display(description=_("begins with"))
    def beginning(self, row: ApiKey) -> SafeString:
        return format_html("<code>{}…</code>", row.prefix)

    @admin.display(description=_("name"), ordering="name")
    def title(self, row: ApiKey) -> SafeString:
        return show_text(row.name, 40)

    @admin.display(description=pgettext_lazy("what an API key is allowed", "may"))
    def shown_scopes(self, row: ApiKey) -> SafeString:
        words = [gettext("everything")] if len(row.scopes) == len(SCOPES) else row.scopes
        limit = "" if row.workflows is None else format_html(' <span class="hp-quiet">{}</span>', _("(some workflows)"))
        return format_html("{}{}", join_list(words), limit)

    @admin.display(description=_("last used"), ordering=F("last_used_at").desc(nulls_last=True))
    def used(self, row: ApiKey) -> str:
        return show_used(row)

    @admin.display(description=_("state"))
    def state(self, row: ApiKey) -> str:
        return show_state(row)

    # --- the page of one ----------------------------------------------------------------------------

    @admin.display(description=_("workflows"))
    def shown_workflows(self, row: ApiKey) -> SafeString:
        if row.workflows is None:
            return format_html("{}", _("all workflows"))
        return join_html(show_text(name) for name in row.workflows)

    @admin.display(description=_("expires at"))
    def shown_expiry(self, row: ApiKey) -> SafeString:
        return format_html("{}", _("never")) if row.expires_at is None else show_moment(row.expires_at)

    @admin.display(description=_("rate"))
    def shown_rate(self, row: ApiKey) -> SafeString:
        return show_text(row.rate) if row.rate else format_html("{}", _("as the site allows"))

    @admin.display(description=_("created"))
    def made(self, row: ApiKey) -> SafeString:
        return show_moment(row.created_at)

    @admin.display(description=_("created by"))
    def maker(self, row: ApiKey) -> SafeString:
        return show_actor(row.created_by, getattr(row, "shown_actors", {}))

    @admin.display(description=_("revoked"))
    def ended(self, row: ApiKey) -> SafeString:
        return show_moment(row.revoked_at)

    def get_fieldsets(self, request: HttpRequest, obj: ApiKey | None = None) -> Any:
        """Fields to fill in, or what stands in them where nothing may be changed."""
        if obj is None:
            return [(None, {"fields": ASKED})]
        if self.has_change_permission(request, obj):
            asked = [field for field in ASKED if field != "workspace"]
            known: list[Any] = [("beginning", "state"), "workspace", *asked]
        else:
            known = [("beginning", "state"), "title", "workspace", *RIGHTS]
        return [(None, {"fields": known}), (_("Origin"), {"fields": ORIGIN})]

    def get_readonly_fields(self, request: HttpRequest, obj: ApiKey | None = None) -> tuple[str, ...]:
        """A key stays in its workspace."""
        return () if obj is None else (*SHOWN, "title", "workspace")

    def get_form(self, request: HttpRequest, obj: ApiKey | None = None, change: bool = False, **options: Any) -> Any:
        """With the scopes that this user may give."""
        form: Any = super().get_form(request, obj, change=change, **options)
        return type(form.__name__, (form,), {"rights": list_rights(request.user)})

    def get_object(self, request: HttpRequest, object_id: str, from_field: str | None = None) -> ApiKey | None:
        """One, with the name of its maker."""
        found: ApiKey | None = super().get_object(request, object_id, from_field)
        if found is not None:
            vars(found)["shown_actors"] = find_actors([found.created_by], request, self.admin_site.name)
        return found

    def add_view(self, request: HttpRequest, form_url: str = "", extra_context: Any = None) -> HttpResponse:
        """The form; sent a second time, it makes no second key."""
        if not self.has_add_permission(request):
            raise PermissionDenied
        context = {"once": make_once(), **(extra_context or {})}
        return self.recall(request) or super().add_view(request, form_url, context)

    def change_view(
        self, request: HttpRequest, object_id: str, form_url: str = "", extra_context: Any = None
    ) -> HttpResponse:
        """The form; a key that was revoked while it stood open stays as it ended."""
        try:
            return super().change_view(request, object_id, form_url, extra_context)
        except InvalidCall as refusal:
            self.message_user(request, str(refusal), messages.ERROR)
            return HttpResponseRedirect(request.get_full_path())

    @sensitive_variables("key")
    def save_model(self, request: HttpRequest, obj: ApiKey, form: Any, change: bool) -> None:
        """Through the calls that everybody makes."""
        if change:
            change_key(obj, **form.list_changes())
            return
        asked = {name: form.cleaned_data[name] for name in KeyForm.Meta.fields}
        row, key = create_key(**asked, actor=request.user)
        vars(obj).update({**vars(row), "shown_once": key})

    def response_add(self, request: HttpRequest, obj: Any, post_url_continue: str | None = None) -> HttpResponse:
        """The key, this once; wherever the form would have led."""
        return self.show_once(request, obj, vars(obj).pop("shown_once"))

    def render_change_form(self, request: HttpRequest, context: Any, *args: Any, **kwargs: Any) -> HttpResponse:
        """With the buttons that this user may press now."""
        row: ApiKey | None = context.get("original")
        context.update(show_save_and_add_another=False, show_save_and_continue=False)
        if row is not None:
            context["may_revoke"] = self.has_revoke_permission(request, row)
            context["may_rotate"] = row.is_usable() and self.has_rotate_permission(request, row)
        return super().render_change_form(request, context, *args, **kwargs)
