"""Reviews in the admin: a list that says what waits for whom, and a page that tells everything about one of them."""

from __future__ import annotations

from typing import Any

from django.contrib import admin
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse
from django.utils import timezone
from django.utils.html import format_html
from django.utils.safestring import SafeString
from django.utils.translation import gettext, pgettext_lazy
from django.utils.translation import gettext_lazy as _

from approvals.admin.badges import show_due, show_risk, show_standing, show_title
from approvals.admin.reviews.review_filters import (
    NAMED,
    DeciderFilter,
    DueFilter,
    OwnWorkspaceFilter,
    ReviewList,
    ReviewStatusFilter,
    ReviewWorkflowFilter,
    RiskFilter,
    search_reviews,
)
from approvals.admin.reviews.review_page import read_page_of
from approvals.admin.reviews.stored_rows import StoredAdmin
from approvals.models import Review
from workflows.admin.markup import NOTHING, show_text
from workflows.definitions.workspace import DEFAULT_WORKSPACE
from workflows.wording.punctuation import join_html


@admin.register(Review)
class ReviewAdmin(StoredAdmin):
    """Reads; what it changes, `ReviewActions` and `DecidingAdmin` do, and `StoredAdmin` shows what is stored."""

    # No column is a plain field: those could be sorted by, and a million rows have one good order.
    list_display = ("what", "badge", "due", "asker", "asked")
    list_display_links = ("what",)
    list_filter = (DeciderFilter, ReviewStatusFilter, DueFilter, RiskFilter, ReviewWorkflowFilter, OwnWorkspaceFilter)
    list_per_page = 50
    ordering = ("-pk",)
    search_fields = ("title",)
    search_help_text = _("A whole id; a part of the sentence or of the object’s name; or how a requester’s name begins")
    change_form_template = "admin/holdpoint_approvals/review/change_form.html"

    class Media:
        css = {"all": ["approvals/admin.css"]}

    def get_queryset(self, request: HttpRequest) -> QuerySet[Review]:
        """Those of one's own workspaces, with how their questions stand."""
        rows: QuerySet[Review] = Review.objects.visible_to(request.user)
        return rows.select_related("interaction", "workspace").defer(
            "interaction__request", "interaction__output", "interaction__schema"
        )

    # --- the list -----------------------------------------------------------------------------------

    def get_changelist(self, request: HttpRequest, **kwargs: Any) -> type[ReviewList]:
        """The list with names, and without values."""
        return ReviewList

    def get_search_results(
        self, request: HttpRequest, queryset: QuerySet[Any], search_term: str
    ) -> tuple[QuerySet[Any], bool]:
        """See `search_reviews`; never a duplicate, because nothing is joined."""
        term = search_term.strip()
        return (search_reviews(queryset, term) if term else queryset), False

    @admin.display(description=_("what will happen"))
    def what(self, review: Review) -> SafeString:
        """The object and the workflow below; outside the default workspace with that in front."""
        slug = review.workspace.slug
        place = "" if slug == DEFAULT_WORKSPACE else format_html('<span class="hp-quiet">{}/</span> ', slug)
        below = format_html('<div class="hp-quiet">{}</div>', show_text(review.workflow, 40))
        return format_html("{}{}{}", place, show_title(review), below)

    @admin.display(description=_("requester"))
    def asker(self, review: Any) -> SafeString:
        if review.requester_id is None:
            return NOTHING
        return show_text(review.shown_names[f"user:{review.requester_id}"], 40)

    @admin.display(description=_("who is asked"))
    def asked(self, review: Any) -> SafeString:
        """The first few; and who is at it."""
        few: list[Any] = [show_text(review.shown_names[one], 40) for one in review.shown_asked[:NAMED]]
        told = join_html([*few, _("and more")] if len(review.shown_asked) > NAMED else few)
        if review.claimed_by_id is None or not review.open:
            return told or NOTHING
        who = show_text(review.shown_names[f"user:{review.claimed_by_id}"], 40)
        return format_html('{}<div class="hp-quiet">{} {}</div>', told, _("claimed by"), who)

    @admin.display(description=_("due"))
    def due(self, review: Review) -> SafeString:
        return show_due(review, timezone.now())

    @admin.display(description=_("status, risk"))
    def badge(self, review: Review) -> SafeString:
        """With the risk and the version below, where these are out of the ordinary."""
        shown = show_standing(review, review.interaction.status, timezone.now())
        risk = "" if review.risk == "low" else show_risk(review)
        version = "" if review.version == 1 else gettext("version %(version)d") % {"version": review.version}
        return format_html('{}<div class="hp-quiet">{} {}</div>', shown, risk, version)

    @admin.display(description=pgettext_lazy("of a request", "version"))
    def shown_version(self, review: Review) -> SafeString:
        return format_html("{}", review.version)

    # --- the page of one ----------------------------------------------------------------------------

    def get_object(self, request: HttpRequest, object_id: str, from_field: str | None = None) -> Review | None:
        """One, whole: its question is read with the card."""
        found: Review | None = super().get_object(request, object_id, from_field)
        return found

    def render_change_form(self, request: HttpRequest, context: Any, *args: Any, **kwargs: Any) -> HttpResponse:
        """The page: the card, what may be done, and all the rows behind it."""
        context.update(read_page_of(context["original"], request, self.admin_site.name))
        return super().render_change_form(request, context, *args, **kwargs)
