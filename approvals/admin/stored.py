"""What is stored of a review, as it is: below its card, folded.

Invariant owned: whole values leave as plain text, and what stands under a secret's name leaves not at all.
"""

from __future__ import annotations

from typing import Any

from django.contrib import admin
from django.core.exceptions import PermissionDenied
from django.http import Http404, HttpRequest, HttpResponse
from django.urls import URLPattern, re_path, reverse
from django.utils.html import format_html
from django.utils.safestring import SafeString
from django.utils.translation import gettext_lazy as _
from django.utils.translation import pgettext_lazy

from approvals.admin.deciding import DecidingAdmin
from approvals.admin.showing import locate_page
from approvals.models import Review
from approvals.plain_values import redact_json
from workflows.admin.markup import NOTHING, VALUE, answer_plainly, dump_json, show_block, show_moment, show_text

#: What is stored, as it is.
VALUES = ("request", "schema", "change", "snapshot", "evidence", "outcomes", "quorum", "rungs")


class StoredAdmin(DecidingAdmin):
    """The columns of the row."""

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

    @admin.display(description=_("request"))
    def request_json(self, review: Review) -> SafeString:
        return self.show_own(review, "request")

    @admin.display(description=_("schema"))
    def schema_json(self, review: Review) -> SafeString:
        return self.show_own(review, "schema")

    @admin.display(description=_("change"))
    def change_json(self, review: Review) -> SafeString:
        return self.show_own(review, "change")

    @admin.display(description=_("as it was shown"))
    def snapshot_json(self, review: Review) -> SafeString:
        return self.show_own(review, "snapshot")

    @admin.display(description=_("evidence"))
    def evidence_json(self, review: Review) -> SafeString:
        return self.show_own(review, "evidence")

    @admin.display(description=_("outcomes"))
    def outcomes_json(self, review: Review) -> SafeString:
        return self.show_own(review, "outcomes")

    @admin.display(description=_("quorum"))
    def quorum_json(self, review: Review) -> SafeString:
        return self.show_own(review, "quorum")

    @admin.display(description=_("ladder"))
    def rungs_json(self, review: Review) -> SafeString:
        return self.show_own(review, "rungs")

    def show_own(self, review: Review, what: str) -> SafeString:
        """A value, or its beginning with a way to all of it; a secret in it stays one."""
        value = read_value(review, what)
        if value is None:
            return NOTHING
        site = self.admin_site.name
        whole = reverse("admin:holdpoint_approvals_review_value", args=[review.pk, what], current_app=site)
        return show_block(dump_json(value), whole, VALUE)

    def link(self, name: str, pk: Any) -> SafeString:
        """The way to another page of the admin, where this site has it."""
        url = locate_page(name, pk, self.admin_site.name)
        shown = format_html("<code>{}</code>", pk)
        return shown if url is None else format_html('<a href="{}">{}</a>', url, shown)

    def get_urls(self) -> list[URLPattern]:
        """Values in full."""
        return [
            re_path(
                rf"^(?P<object_id>[0-9a-f-]{{36}})/value/(?P<what>{'|'.join(VALUES)})/$",
                self.admin_site.admin_view(self.value_view),
                name="holdpoint_approvals_review_value",
            ),
            *super().get_urls(),
        ]

    def value_view(self, request: HttpRequest, object_id: str, what: str) -> HttpResponse:
        """A whole value as plain text, which no browser may take for anything else."""
        if not self.has_view_permission(request):
            raise PermissionDenied
        found = self.get_object(request, object_id)
        if found is None:
            raise Http404
        return answer_plainly(dump_json(read_value(found, what)))


def read_value(review: Review, what: str) -> Any:
    """A value of the review, or of its question."""
    of = review.interaction if what in ("request", "schema") else review
    return redact_json(getattr(of, what)) if what != "schema" else getattr(of, what)
