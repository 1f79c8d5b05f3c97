"""Messages in the admin: what was sent to whom, what became of it, and sending one again."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from django.contrib import admin, messages
from django.contrib.admin import SimpleListFilter
from django.contrib.admin.helpers import ACTION_CHECKBOX_NAME
from django.core.exceptions import PermissionDenied
from django.db.models import Q, QuerySet
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseNotAllowed, HttpResponseRedirect
from django.urls import URLPattern, path, reverse
from django.utils import timezone
from django.utils.html import format_html
from django.utils.safestring import SafeString
from django.utils.translation import gettext, pgettext_lazy
from django.utils.translation import gettext_lazy as _

from approvals.admin.action_pages import LIMIT, check_ids
from approvals.admin.related_rows import OfReviewAdmin
from approvals.admin.review_actions import DOOR
from approvals.admin.reviews.review_filters import RuledFilter
from approvals.admin.reviews.review_page import show_delivery_status
from approvals.admin.vote_admin import show_block_of
from approvals.cards.refusal_message import tell_refusal
from approvals.display.values import show_text as reveal
from approvals.exceptions import ApprovalError
from approvals.models import Delivery
from approvals.notify.resending import PERMISSION, resend
from workflows.admin.bounded_lists import SAMPLE, chosen
from workflows.admin.markup import NOTHING, dump_json, show_moment, show_relative, show_text
from workflows.exceptions import WorkflowError
from workflows.wording.punctuation import label_html


class DeliveryStatusFilter(RuledFilter):
    """By what became of it."""

    title = _("status")
    parameter_name = "status"
    words = {
        "waiting": pgettext_lazy("a notice", "Waiting"),
        "sent": pgettext_lazy("a notice", "Sent"),
        "failed": pgettext_lazy("a notice", "Failed"),
        "dropped": pgettext_lazy("a notice", "Dropped"),
    }
    rules = {name: Q(status=name) for name in words}


class DeliveryChannelFilter(SimpleListFilter):
    """By where it went: the places of the newest messages; any other can be had by its address."""

    title = _("channel")
    parameter_name = "channel"

    def lookups(self, request: HttpRequest, model_admin: Any) -> list[tuple[str, str]]:
        stored = model_admin.get_queryset(request).order_by("-pk").values_list("channel", flat=True)[:SAMPLE]
        return [(name, name) for name in sorted(set(stored) | chosen(self))]

    def queryset(self, request: HttpRequest, queryset: QuerySet[Any]) -> QuerySet[Any]:
        value = self.value()
        return queryset if value is None else queryset.filter(channel=value)


@admin.register(Delivery)
class DeliveryAdmin(OfReviewAdmin):
    """Reads; and sends again, through the call that everybody makes."""

    list_display = ("made", "what", "place", "to", "of_review", "badge", "tries", "next_try")
    list_display_links = ("made",)
    list_filter = (DeliveryStatusFilter, DeliveryChannelFilter)
    search_help_text = _("A review’s whole id, or how a user’s login name begins")
    actions = ["resend"]
    change_form_template = "admin/holdpoint_approvals/delivery/change_form.html"
    fields = readonly_fields = (
        *("of_review", "what", "place", "to", "shown_address", "badge", "tries", "made", "sent", "closed", "next_try"),
        *("outside_id", "problem", "data_json", "shown_id"),
    )

    def has_resend_permission(self, request: HttpRequest) -> bool:
        """Asked by the admin before it offers the action."""
        return request.user.has_perm(PERMISSION)

    def changelist_view(self, request: HttpRequest, extra_context: Any = None) -> HttpResponse:
        """The list; Django would choke on a forged id."""
        check_ids(request.POST.getlist(ACTION_CHECKBOX_NAME))
        response: HttpResponse = super().changelist_view(request, extra_context)
        return response

    @admin.action(description=_("Send selected deliveries again"), permissions=["resend"])
    def resend(self, request: HttpRequest, queryset: QuerySet[Delivery]) -> None:
        """Each once more."""
        rows = list(queryset.order_by("pk")[: LIMIT + 1])
        if len(rows) > LIMIT:
            told = gettext("Choose at most %(limit)d deliveries at a time.") % {"limit": LIMIT}
            self.message_user(request, told, messages.ERROR)
            return
        for one in rows:
            self.resend_one(request, one)

    def resend_view(self, request: HttpRequest, object_id: UUID) -> HttpResponse:
        """The button on a message's page."""
        if not self.has_view_permission(request):
            raise PermissionDenied
        if request.method != "POST":
            return HttpResponseNotAllowed(["POST"])
        found: Delivery | None = self.get_object(request, str(object_id))
        if found is None:
            raise Http404(gettext("There is no such delivery."))
        self.resend_one(request, found)
        page = reverse("admin:holdpoint_approvals_delivery_change", args=[found.pk], current_app=self.admin_site.name)
        return HttpResponseRedirect(page)

    def resend_one(self, request: HttpRequest, delivery: Delivery) -> None:
        """Send it again, and say what came of that."""
        link = self.show_review(delivery)
        try:
            resend(delivery, actor=request.user, door=DOOR)
        except (ApprovalError, WorkflowError) as refused:
            self.message_user(request, label_html(link, tell_refusal(refused, delivery.review)), messages.ERROR)
            return
        self.log_change(request, delivery, gettext("Sent again."))
        self.message_user(request, label_html(link, gettext("It is sent again.")), messages.SUCCESS)

    def render_change_form(self, request: HttpRequest, context: Any, *args: Any, **kwargs: Any) -> HttpResponse:
        """The page, with the button, or why it cannot be pressed."""
        told = gettext("You can’t send this again: it takes a permission of its own.")
        context["obstacle"] = "" if self.has_resend_permission(request) else told
        return super().render_change_form(request, context, *args, **kwargs)

    def get_urls(self) -> list[URLPattern]:
        """The button."""
        view = self.admin_site.admin_view(self.resend_view)
        return [
            path("<uuid:object_id>/resend/", view, name="holdpoint_approvals_delivery_resend"),
            *super().get_urls(),
        ]

    # --- columns ------------------------------------------------------------------------------------

    @admin.display(description=_("made"))
    def made(self, one: Delivery) -> SafeString:
        return show_moment(one.created_at)

    @admin.display(description=_("kind"))
    def what(self, one: Delivery) -> SafeString:
        return show_text(one.kind, 30)

    @admin.display(description=_("channel"))
    def place(self, one: Delivery) -> SafeString:
        return show_text(one.channel, 30)

    @admin.display(description=_("to"))
    def to(self, one: Delivery) -> SafeString:
        return NOTHING if one.user_id is None else self.show_user(one)

    @admin.display(description=_("address"))
    def shown_address(self, one: Delivery) -> SafeString:
        return show_text(reveal(one.address), 120)

    @admin.display(description=_("review"))
    def of_review(self, one: Delivery) -> SafeString:
        return self.show_review(one)

    @admin.display(description=_("status"))
    def badge(self, one: Delivery) -> SafeString:
        badge: SafeString = show_delivery_status(one)
        return badge

    @admin.display(description=_("tries"))
    def tries(self, one: Delivery) -> SafeString:
        return format_html("{}", one.attempts)

    @admin.display(description=_("next try"))
    def next_try(self, one: Delivery) -> SafeString:
        return NOTHING if one.due_at is None else show_relative(one.due_at, timezone.now())

    @admin.display(description=_("sent"))
    def sent(self, one: Delivery) -> SafeString:
        return self.show_at(one.sent_at)

    @admin.display(description=_("closed"))
    def closed(self, one: Delivery) -> SafeString:
        return self.show_at(one.closed_at)

    @admin.display(description=_("id over there"))
    def outside_id(self, one: Delivery) -> SafeString:
        return show_text(reveal(one.external_id), 120)

    @admin.display(description=_("error"))
    def problem(self, one: Delivery) -> SafeString:
        return show_block_of(one.error)

    @admin.display(description=_("data"))
    def data_json(self, one: Delivery) -> SafeString:
        return NOTHING if one.data is None else show_block_of(dump_json(one.data))

    @admin.display(description=_("id"))
    def shown_id(self, one: Delivery) -> SafeString:
        return format_html("<code>{}</code>", one.pk)
