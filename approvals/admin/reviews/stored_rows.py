"""What is stored of a review, as it is: below its card, folded.

Invariant owned: whole values leave as plain text, and what stands under a secret's name leaves not at all.
"""

from __future__ import annotations

from typing import Any

from django.contrib import admin
from django.utils.html import format_html
from django.utils.safestring import SafeString
from django.utils.translation import gettext_lazy as _
from django.utils.translation import pgettext_lazy

from approvals.admin.badges import locate_page
from approvals.admin.decision_page import DecidingAdmin
from approvals.models import Review
from approvals.subjects.field_values import redact_json
from workflows.admin.base import JsonColumns
from workflows.admin.markup import show_moment, show_text

#: What is stored, as it is, with its heading.
VALUES = {
    "request": _("request"),
    "schema": _("schema"),
    "change": _("change"),
    "snapshot": _("as it was shown"),
    "evidence": _("evidence"),
    "outcomes": _("outcomes"),
    "quorum": _("quorum"),
    "rungs": _("ladder"),
}


class StoredAdmin(JsonColumns, DecidingAdmin):
    """The columns of the row."""

    json_columns = VALUES

    fieldsets = (
        (
            _("As it is stored"),
            {
                "classes": ("collapse",),
                "fields": (
                    ("shown_id", "of_instance"),
                    ("of_interaction", "shown_workspace"),
                    ("shown_step", "shown_version"),
                    ("shown_hook", "shown_calendar"),
                    ("asked_exactly", "due_exactly"),
                    *(f"{name}_json" for name in VALUES),
                ),
            },
        ),
    )
    readonly_fields = (
        *("shown_id", "of_instance", "of_interaction", "shown_workspace", "shown_step", "shown_version"),
        *("shown_hook", "shown_calendar", "asked_exactly", "due_exactly"),
        *(f"{name}_json" for name in VALUES),
    )

    @admin.display(description=_("id"))
    def shown_id(self, review: Review) -> SafeString:
        return format_html("<code>{}</code>", review.pk)

    @admin.display(description=_("instance"))
    def of_instance(self, review: Review) -> SafeString:
        return self.link("holdpoint_instance", review.instance_id)

    @admin.display(description=_("interaction"))
    def of_interaction(self, review: Review) -> SafeString:
        return self.link("holdpoint_interaction", review.pk)

    @admin.display(description=_("workspace"))
    def shown_workspace(self, review: Review) -> SafeString:
        return show_text(review.workspace.slug)

    @admin.display(description=_("step"))
    def shown_step(self, review: Review) -> SafeString:
        return show_text(review.step, 60)

    @admin.display(description=_("what the decision does"))
    def shown_hook(self, review: Review) -> SafeString:
        return show_text(review.on_decision, 100)

    @admin.display(description=_("calendar"))
    def shown_calendar(self, review: Review) -> SafeString:
        return show_text(review.calendar)

    @admin.display(description=pgettext_lazy("a request", "asked"))
    def asked_exactly(self, review: Review) -> SafeString:
        return show_moment(review.created_at)

    @admin.display(description=_("due"))
    def due_exactly(self, review: Review) -> SafeString:
        return show_moment(review.due_at)

    def read_json(self, row: Review, column: str) -> Any:
        """A value of the review, or of its question; a secret in it stays one."""
        if column == "schema":
            return row.interaction.schema
        return redact_json(getattr(row.interaction if column == "request" else row, column))

    def link(self, name: str, pk: Any) -> SafeString:
        """The way to another page of the admin, where this site has it."""
        url = locate_page(name, pk, self.admin_site.name)
        shown = format_html("<code>{}</code>", pk)
        return shown if url is None else format_html('<a href="{}">{}</a>', url, shown)
