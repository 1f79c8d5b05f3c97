"""Parked answers in the admin: what a transport brought and nobody could take, and trying it once more.

Invariant owned: read only but for that; the bytes of a record are shown as text, and never sent as they are.
"""

from __future__ import annotations

from itertools import islice

from django.contrib import admin, messages
from django.contrib.admin import SimpleListFilter
from django.db.models import QuerySet
from django.http import HttpRequest
from django.utils.html import format_html
from django.utils.safestring import SafeString
from django.utils.translation import gettext
from django.utils.translation import gettext_lazy as _

from workflows.admin.base import ReadOnlyAdmin
from workflows.admin.bounded_lists import WorkspaceFilter
from workflows.admin.markup import NOTHING, VALUE, show_badge, show_moment, show_text
from workflows.admin.tenancy import ModelAdmin, TenantAdmin
from workflows.models import ParkedAnswer
from workflows.store.ledger.event_sums import REASONS
from workflows.wording.hidden_characters import reveal

#: Records of one request: each is a transaction of its own, and a browser waits for all of them.
LIMIT = 500
#: Messages of one request.
MESSAGES = 20


class ReasonFilter(SimpleListFilter):
    """By why they were parked."""

    title = _("reason")
    parameter_name = "reason"

    def lookups(self, request: HttpRequest, model_admin: ModelAdmin) -> list[tuple[str, str]]:
        return [(reason, reason) for reason in REASONS]

    def queryset(self, request: HttpRequest, queryset: QuerySet[ParkedAnswer]) -> QuerySet[ParkedAnswer]:
        value = self.value()
        return queryset if value is None else queryset.filter(reason=value)


@admin.register(ParkedAnswer)
class ParkedAnswerAdmin(TenantAdmin, ReadOnlyAdmin):
    """Reads; a record whose cause is gone may be taken after all."""

    list_display = ("place", "badge", "why", "parked", "taken")
    list_display_links = ("place",)
    list_filter = (ReasonFilter, WorkspaceFilter)
    ordering = ("-id",)
    actions = ["take_again"]
    fieldsets = (
        (None, {"fields": (("place", "badge"), "why_exactly", "question", ("parked", "taken"))}),
        (_("Values"), {"fields": ("key_text", "header_lines", "record_text")}),
    )
    readonly_fields = (
        *("place", "badge", "why_exactly", "question", "parked", "taken"),
        *("key_text", "header_lines", "record_text"),
    )

    def get_queryset(self, request: HttpRequest) -> QuerySet[ParkedAnswer]:
        """What a row needs: records may be large."""
        rows: QuerySet[ParkedAnswer] = super().get_queryset(request)
        return rows.defer("key", "value", "headers").select_related("workspace")

    def has_take_again_permission(self, request: HttpRequest) -> bool:
        """Asked by the admin before it offers the action."""
        return request.user.has_perm("holdpoint.complete_interaction")

    @admin.action(description=_("Take selected answers after all"), permissions=["take_again"])
    def take_again(self, request: HttpRequest, queryset: QuerySet[ParkedAnswer]) -> None:
        """Try each once more, oldest first, and say what became of it."""
        from workflows.channels.kafka import take_again

        refusals = []
        taken = 0
        for parked in islice(queryset.filter(taken_at=None).order_by("id"), LIMIT):
            refused = take_again(parked)
            if refused is None:
                taken += 1
                self.log_change(request, parked, gettext("Taken."))
            else:
                refusals.append(f"{parked}: {refused.detail}")
        for text in refusals[:MESSAGES]:
            self.message_user(request, text, messages.ERROR)
        total = gettext("%(done)d of %(all)d succeeded, %(failed)d were refused.")
        counts = {"all": taken + len(refusals), "done": taken, "failed": len(refusals)}
        self.message_user(request, total % counts, messages.WARNING if refusals else messages.SUCCESS)

    @admin.display(description=_("record"))
    def place(self, row: ParkedAnswer) -> SafeString:
        """Where it was read."""
        return format_html("{}/{}/{}", show_text(row.topic, 60), row.partition, row.offset)

    @admin.display(description=_("reason"))
    def badge(self, row: ParkedAnswer) -> SafeString:
        return show_badge(row.reason, "quiet" if row.taken_at else "bad")

    @admin.display(description=_("what was wrong"))
    def why(self, row: ParkedAnswer) -> SafeString:
        return show_text(row.detail, 80)

    @admin.display(description=_("what was wrong"))
    def why_exactly(self, row: ParkedAnswer) -> SafeString:
        return show_text(row.detail, 2000)

    @admin.display(description=_("interaction"))
    def question(self, row: ParkedAnswer) -> SafeString:
        return NOTHING if row.interaction is None else format_html("<code>{}</code>", row.interaction)

    @admin.display(description=_("at"))
    def parked(self, row: ParkedAnswer) -> SafeString:
        return show_moment(row.at)

    @admin.display(description=_("taken at"))
    def taken(self, row: ParkedAnswer) -> SafeString:
        return show_moment(row.taken_at)

    @admin.display(description=_("key"))
    def key_text(self, row: ParkedAnswer) -> SafeString:
        return NOTHING if row.key is None else show_text(bytes(row.key).decode(errors="replace"), 200)

    @admin.display(description=_("headers"))
    def header_lines(self, row: ParkedAnswer) -> SafeString:
        lines = "\n".join(f"{name}: {value}" for name, value in row.headers or [])
        return show_beginning(lines) if lines else NOTHING

    @admin.display(description=_("record"))
    def record_text(self, row: ParkedAnswer) -> SafeString:
        return NOTHING if row.value is None else show_beginning(bytes(row.value).decode(errors="replace"))


def show_beginning(text: str) -> SafeString:
    """A text, or as much of it as a page takes."""
    shown = text if len(text) <= VALUE else f"{text[:VALUE]}…"
    return format_html('<pre class="hp-value" tabindex="0">{}</pre>', reveal(shown, lines=True))
