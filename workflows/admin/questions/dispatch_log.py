"""What of a question's page tells of sending it: its tries, the next one, and sending it again.

Invariant owned: nobody without the permission sends anything again, neither by an action that was not offered to them
nor by a request of their own making.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from django.contrib import admin, messages
from django.core.exceptions import PermissionDenied
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse
from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString
from django.utils.translation import gettext, ngettext
from django.utils.translation import gettext_lazy as _

import workflows
from workflows.admin.base import ReadOnlyAdmin
from workflows.admin.markup import NOTHING, show_badge, show_moment, show_text
from workflows.exceptions import WorkflowError
from workflows.models import Dispatch, Interaction

#: Questions of one request: each may be a transaction of its own.
LIMIT = 500
#: Tries that a page shows, the latest first.
TRIES = 50
#: Refusals that are told one by one.
REFUSALS = 10

FIELDS = ("tried", "next_try", "why_not_sent", "dispatch_log")
#: Columns that these read beside those of a list.
COLUMNS = ("tries", "dispatch_at", "dispatch_error", "dispatched_at")
ROWS = (("dispatched", "tried", "next_try"), "why_not_sent", "dispatch_log")


class DispatchAdmin(ReadOnlyAdmin):
    """The part of the interactions' admin that is about sending them."""

    actions = ["redrive"]

    def has_redrive_permission(self, request: HttpRequest) -> bool:
        """Asked by the admin before it offers the action."""
        return request.user.has_perm("holdpoint.redrive_interaction")

    def changelist_view(self, request: HttpRequest, extra_context: Any = None) -> Any:
        """The list; a forged action is refused here, where Django would ignore it."""
        forged = request.method == "POST" and "redrive" in request.POST.getlist("action")
        if forged and not (self.has_view_permission(request) and self.has_redrive_permission(request)):
            raise PermissionDenied
        response: HttpResponse = super().changelist_view(request, extra_context)
        return response

    @admin.action(description=_("Send selected interactions again"), permissions=["redrive"])
    def redrive(self, request: HttpRequest, queryset: QuerySet[Interaction]) -> None:
        """Send what was ticked again, and say what could not be."""
        chosen = list(queryset.order_by("id")[: LIMIT + 1])
        if len(chosen) > LIMIT:
            text = gettext("Choose at most %(limit)d interactions at a time.") % {"limit": LIMIT}
            self.message_user(request, text, messages.ERROR)
            return
        done, refused = 0, []
        for one in chosen:
            try:
                workflows.redrive(one, actor=request.user)
                done += 1
            except WorkflowError as error:
                refused.append(str(error))
        self._tell(request, done, refused)

    def _tell(self, request: HttpRequest, done: int, refused: Sequence[str]) -> None:
        for text in refused[:REFUSALS]:
            self.message_user(request, text, messages.ERROR)
        if done or len(refused) > REFUSALS:
            text = ngettext("%(done)d interaction is sent again.", "%(done)d interactions are sent again.", done)
            self.message_user(request, text % {"done": done}, messages.WARNING if refused else messages.SUCCESS)

    @admin.display(description=_("tries"))
    def tried(self, row: Interaction) -> str:
        return str(row.tries)

    @admin.display(description=_("next try at"))
    def next_try(self, row: Interaction) -> SafeString:
        return show_moment(row.dispatch_at if row.status == "pending" else None)

    @admin.display(description=_("dispatch error"))
    def why_not_sent(self, row: Interaction) -> SafeString:
        return show_text(row.dispatch_error, 500)

    @admin.display(description=_("dispatches"))
    def dispatch_log(self, row: Interaction) -> SafeString:
        """The latest tries, as a table; what is not sent has none."""
        if not row.tries and row.dispatch_at is None:
            return NOTHING
        found = Dispatch.objects.filter(interaction_id=row.pk).order_by("-id")[:TRIES]
        if not found:
            return NOTHING
        head = format_html_join("", '<th scope="col">{}</th>', ((one,) for one in self._name_columns()))
        body = format_html_join("", "<tr>{}</tr>", ((self._show_try(one),) for one in found))
        return format_html(
            '<div class="hp-table hp-scroll"><table><thead><tr>{}</tr></thead><tbody>{}</tbody></table></div>',
            head,
            body,
        )

    def _name_columns(self) -> list[str]:
        names = ("number", "at", "sent", "status", "ms", "error", "response")
        return [str(Dispatch._meta.get_field(name).verbose_name) for name in names]  # type: ignore[union-attr]

    def _show_try(self, one: Dispatch) -> SafeString:
        cells = (
            one.number,
            show_moment(one.at),
            show_badge(_("yes"), "good") if one.sent else show_badge(_("no"), "bad"),
            one.status if one.status is not None else NOTHING,
            one.ms if one.ms is not None else NOTHING,
            show_text(one.error, 200),
            show_text(one.response, 200),
        )
        return format_html_join("", "<td>{}</td>", ((cell,) for cell in cells))
