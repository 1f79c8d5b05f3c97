"""What the pages of queues, limits and pauses have in common: who may change them, and how.

Must not live here: a page. Invariants owned: `holdpoint.control_queue` is what changing takes, of all three; a row is
written by a call of `workflows.api.flow_control`, in one of the user's own workspaces.
"""

from __future__ import annotations

from typing import Any, ClassVar

from django.contrib import admin, messages
from django.contrib.admin.views.main import ChangeList
from django.db.models import Model, QuerySet
from django.http import HttpRequest
from django.utils.html import format_html
from django.utils.safestring import SafeString
from django.utils.translation import gettext_lazy as _

from workflows.admin.actors import find_actors, show_actor
from workflows.admin.base import PageTools, StyledAdmin
from workflows.admin.bounded_lists import CappedPaginator, WorkspaceFilter
from workflows.admin.markup import NOTHING, show_moment
from workflows.admin.tenancy import OwnWorkspaces, TenantAdmin
from workflows.api.flow_control import write_rate
from workflows.exceptions import WorkflowError
from workflows.store import Tokens

CONTROL = "holdpoint.control_queue"


class NamedChangeList(ChangeList):
    """Rows with the names of whoever changed them last, all read at once."""

    def get_results(self, request: HttpRequest) -> None:
        """The rows of the page."""
        super().get_results(request)
        people = find_actors([row.changed_by for row in self.result_list], request, self.model_admin.admin_site.name)
        for row in self.result_list:
            vars(row)["shown_actors"] = people


class ControlAdmin(PageTools, OwnWorkspaces, TenantAdmin, StyledAdmin):
    """Rows that stand for what somebody has set; `change_row` sets it."""

    #: What tells one row from all others.
    named_by: ClassVar[tuple[str, ...]] = ("workspace", "name")
    list_filter = (WorkspaceFilter,)
    list_select_related = ("workspace",)
    show_full_result_count = False
    show_facets = admin.ShowFacets.NEVER
    paginator = CappedPaginator

    # --- what is allowed ----------------------------------------------------------------------------

    def has_view_permission(self, request: HttpRequest, obj: Model | None = None) -> bool:
        """Who may change may look."""
        return super().has_view_permission(request, obj) or request.user.has_perm(CONTROL)

    def has_add_permission(self, request: HttpRequest) -> bool:
        """To set something where nothing is set."""
        return request.user.has_perm(CONTROL)

    def has_change_permission(self, request: HttpRequest, obj: Model | None = None) -> bool:
        """To set something else."""
        return request.user.has_perm(CONTROL)

    def has_delete_permission(self, request: HttpRequest, obj: Model | None = None) -> bool:
        """Rows go through the calls, if at all."""
        return False

    def has_control_permission(self, request: HttpRequest) -> bool:
        """Asked by the admin before it offers an action."""
        return request.user.has_perm(CONTROL)

    def list_tools(self, request: HttpRequest, row: Any) -> list[tuple[str, Any]]:
        """None, but where a kind of row has some."""
        return []

    # --- changing -----------------------------------------------------------------------------------

    def change_row(self, request: HttpRequest, row: Any, form: Any, *, change: bool) -> None:
        """Make the call that the form stands for."""
        raise NotImplementedError

    def save_model(self, request: HttpRequest, obj: Any, form: Any, change: bool) -> None:
        """Through the calls that everybody makes; what they have written is the row."""
        self.change_row(request, obj, form, change=change)
        names = {name: getattr(obj, name) for name in self.named_by}
        obj.pk = self.model._default_manager.get(**names).pk

    def run_each(self, request: HttpRequest, rows: QuerySet[Any], work: Any, done: str) -> None:
        """One call per chosen row, with a message of each."""
        results = []
        for row in rows.select_related("workspace"):
            try:
                work(row)
                results.append((done % {"name": row}, messages.SUCCESS))
            except WorkflowError as refusal:
                results.append((str(refusal), messages.ERROR))
        self.report_results(request, results)

    # --- the form -----------------------------------------------------------------------------------

    def get_object(self, request: HttpRequest, object_id: str, from_field: str | None = None) -> Any:
        """One, with the name of whoever changed it last."""
        found = super().get_object(request, object_id, from_field)
        if found is not None:
            vars(found)["shown_actors"] = find_actors([found.changed_by], request, self.admin_site.name)
        return found

    # --- columns ------------------------------------------------------------------------------------

    @admin.display(description=_("changed"))
    def changed(self, row: Any) -> SafeString:
        return show_moment(row.changed_at)

    @admin.display(description=_("changed by"))
    def changer(self, row: Any) -> SafeString:
        return show_actor(row.changed_by, getattr(row, "shown_actors", {}))


def show_tokens(rate: Tokens | None) -> SafeString:
    """How often, for a list: 100/m, and what may come at once where that is something else."""
    if rate is None:
        return NOTHING
    if rate.burst == rate.count:
        return format_html("{}", write_rate(rate))
    most = _("at most %(burst)d at once") % {"burst": rate.burst}
    return format_html('{} <span class="hp-quiet">{}</span>', write_rate(rate), most)
