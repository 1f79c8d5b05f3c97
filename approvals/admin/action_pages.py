"""Doing something to one review or to many: the question, the answer, and what came of each.

Lives here: pages and messages. Must not live here: what is done (`review_actions`) and who may
(`approvals.actions.actions`). Invariants owned: nothing is done by GET; every try goes to the call that everybody
makes, so a request of somebody's own making is refused like a greyed-out button, and is in the ledger; a refusal of one
leaves the others be.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any
from uuid import UUID

from django.contrib import admin, messages
from django.contrib.admin.helpers import ACTION_CHECKBOX_NAME, AdminForm
from django.core.exceptions import BadRequest, PermissionDenied
from django.db.models import QuerySet
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseNotAllowed, HttpResponseRedirect
from django.template.response import TemplateResponse
from django.urls import URLPattern, path, reverse
from django.utils import timezone
from django.utils.translation import gettext
from django.utils.translation import gettext_lazy as _

from approvals.actions.visibility import note_unseen
from approvals.admin.badges import link_review, show_risk, show_standing, show_title
from approvals.admin.review_actions import (
    DECIDE,
    DEEDS,
    DOOR,
    EXTEND,
    OVERRIDE,
    REASSIGN,
    RELEASE,
    WITHDRAW,
    AdminAction,
)
from approvals.admin.reviews.review_filters import give_names
from approvals.cards.refusal_message import tell_refusal
from approvals.exceptions import ApprovalError
from approvals.models import Review
from approvals.reviews.permissions import explain
from workflows.admin.base import ReadOnlyAdmin
from workflows.exceptions import WorkflowError
from workflows.pages.posted_form import join_breaks
from workflows.wording.punctuation import join_label, label_html

#: Reviews of one request: each is a transaction of its own, and a browser waits for all of them.
LIMIT = 200


class ReviewActions(ReadOnlyAdmin):
    """The part of the reviews' admin that changes something."""

    actions = ["decide", "reassign", "extend", "release", "withdraw", "override"]

    # --- the list -----------------------------------------------------------------------------------

    @admin.action(description=_("Decide selected reviews…"))
    def decide(self, request: HttpRequest, queryset: QuerySet[Review]) -> HttpResponse | None:
        """As the reviewer that one is."""
        return self.do_many(request, queryset, DECIDE)

    @admin.action(description=_("Reassign selected reviews…"), permissions=["reassign"])
    def reassign(self, request: HttpRequest, queryset: QuerySet[Review]) -> HttpResponse | None:
        """Ask others."""
        return self.do_many(request, queryset, REASSIGN)

    @admin.action(description=_("Extend selected reviews…"), permissions=["extend"])
    def extend(self, request: HttpRequest, queryset: QuerySet[Review]) -> HttpResponse | None:
        """Give more time."""
        return self.do_many(request, queryset, EXTEND)

    @admin.action(description=_("Release selected reviews"))
    def release(self, request: HttpRequest, queryset: QuerySet[Review]) -> HttpResponse | None:
        """Let others decide again."""
        return self.do_many(request, queryset, RELEASE)

    @admin.action(description=_("Withdraw selected reviews…"))
    def withdraw(self, request: HttpRequest, queryset: QuerySet[Review]) -> HttpResponse | None:
        """Take requests back."""
        return self.do_many(request, queryset, WITHDRAW)

    @admin.action(description=_("Override selected reviews…"), permissions=["override"])
    def override(self, request: HttpRequest, queryset: QuerySet[Review]) -> HttpResponse | None:
        """Decide in place of those asked."""
        return self.do_many(request, queryset, OVERRIDE)

    def has_reassign_permission(self, request: HttpRequest) -> bool:
        """Asked by the admin before it offers the action."""
        return self.has_perm(request, REASSIGN)

    def has_extend_permission(self, request: HttpRequest) -> bool:
        """The same for this one."""
        return self.has_perm(request, EXTEND)

    def has_override_permission(self, request: HttpRequest) -> bool:
        """The same for this one."""
        return self.has_perm(request, OVERRIDE)

    def has_perm(self, request: HttpRequest, deed: AdminAction) -> bool:
        """Whether the user has the permission that a deed takes."""
        return not deed.permission or request.user.has_perm(f"holdpoint_approvals.{deed.permission}")

    def changelist_view(self, request: HttpRequest, extra_context: Any = None) -> HttpResponse:
        """The list; Django would choke on a forged id."""
        chosen = request.POST.getlist(ACTION_CHECKBOX_NAME)
        check_ids(chosen)
        if not self.has_view_permission(request):
            self.note_attempts(request, chosen[:LIMIT], request.POST.get("action", ""))
        response: HttpResponse = super().changelist_view(request, extra_context)
        return response

    def do_many(self, request: HttpRequest, queryset: QuerySet[Review], deed: AdminAction) -> HttpResponse | None:
        """The question about what was ticked, until it is answered; one alone has a page of its own."""
        if request.POST.get("confirmed"):
            # What was agreed to, even if it has left the filtered list meanwhile: each call then says why not.
            queryset = self.get_queryset(request).filter(pk__in=request.POST.getlist(ACTION_CHECKBOX_NAME))
        chosen = list(queryset.order_by("pk").select_related("interaction")[: LIMIT + 1])
        if len(chosen) > LIMIT:
            told = gettext("Choose at most %(limit)d reviews at a time.") % {"limit": LIMIT}
            self.message_user(request, told, messages.ERROR)
            return None
        if len(chosen) == 1 and deed.form is not None and not request.POST.get("confirmed"):
            return HttpResponseRedirect(self.locate(chosen[0], deed.name))
        if deed.form is None:
            self.do_each(request, chosen, deed, {})
            return None
        return self.ask(request, chosen, deed, back=request.get_full_path()) if chosen else None

    # --- one ----------------------------------------------------------------------------------------

    def deed_view(self, request: HttpRequest, object_id: UUID, deed: AdminAction) -> HttpResponse:
        """The button on a review's page: the same question for one."""
        review = self.find_review(request, object_id)
        page = self.locate(review)
        if deed.form is None:
            if request.method != "POST":
                return HttpResponseNotAllowed(["POST"])
            self.do_each(request, [review], deed, {})
            return HttpResponseRedirect(page)
        if not request.POST.get("confirmed") and (obstacle := explain(review, request.user)[deed.name]) is not None:
            self.message_user(request, obstacle.message, messages.ERROR)
            return HttpResponseRedirect(page)
        return self.ask(request, [review], deed, back=page) or HttpResponseRedirect(page)

    def find_review(self, request: HttpRequest, object_id: UUID) -> Review:
        """The review of an address, or 404 for who may not see it."""
        if not self.has_view_permission(request):
            self.note_attempts(request, [str(object_id)], request.path.rstrip("/").rpartition("/")[2])
            raise PermissionDenied
        found: Review | None = self.get_object(request, str(object_id))
        if found is None:
            raise Http404(gettext("There is no such review."))
        return found

    def note_attempts(self, request: HttpRequest, ids: Sequence[str], name: str) -> None:
        """What somebody tried whom the admin shows no reviews is in the ledger, as at every door."""
        if request.method == "POST" and name in DEEDS:
            for id in ids:
                note_unseen(UUID(id), request.user, request.POST.get("outcome", "") or name, DOOR, action=name)

    # --- asking and doing ---------------------------------------------------------------------------

    def ask(
        self, request: HttpRequest, chosen: Sequence[Review], deed: AdminAction, *, back: str
    ) -> HttpResponse | None:
        """The question, until it is answered; None when it has been done."""
        assert deed.form is not None
        given = join_breaks(request.POST) if request.POST.get("confirmed") else None
        form: Any = deed.form(given, request=request, site=self.admin_site, chosen=chosen)
        if form.is_valid():
            self.do_each(request, chosen, deed, form.cleaned_data)
            return None
        give_names(chosen)
        now = timezone.now()
        rows = [
            (one, show_title(one, 120), show_risk(one), show_standing(one, one.interaction.status, now))
            for one in chosen
        ]
        context = {
            **self.describe_page(request, deed.title),
            "subtitle": str(chosen[0]) if len(chosen) == 1 else None,
            "deed": deed,
            "chosen": rows,
            "form": AdminForm(form, [(None, {"fields": list(form.fields)})], {}, model_admin=self),
            "back": back,
            "checkbox": ACTION_CHECKBOX_NAME,
        }
        return TemplateResponse(request, "admin/holdpoint_approvals/review/deed.html", context)

    def do_each(
        self, request: HttpRequest, chosen: Sequence[Review], deed: AdminAction, given: Mapping[str, Any]
    ) -> None:
        """Make the call for each, and say what came of it; refusals first: they are what is left to be done."""
        results: list[tuple[str, int]] = []
        for review in chosen:
            version = read_version(request, review)
            try:
                came = deed.call(review, request.user, {**given, "version": version})
            except (ApprovalError, WorkflowError) as refused:
                link = link_review(review, self.admin_site.name)
                results.append((label_html(link, tell_refusal(refused, review)), messages.ERROR))
            else:
                self.log_change(request, review, join_label(deed.button, came))
                results.append((label_html(link_review(review, self.admin_site.name), came), messages.SUCCESS))
        self.report_results(request, results)

    def describe_page(self, request: HttpRequest, title: Any) -> dict[str, Any]:
        """What every page of the admin is handed."""
        request.current_app = self.admin_site.name
        return {**self.admin_site.each_context(request), "title": title, "opts": self.opts, "media": self.media}

    def locate(self, review: Review, page: str = "change") -> str:
        """The address of a page of a review."""
        name = f"admin:holdpoint_approvals_review_{page}"
        return reverse(name, args=[review.pk], current_app=self.admin_site.name)

    def get_urls(self) -> list[URLPattern]:
        """The buttons."""

        def make_view(deed: AdminAction) -> Any:
            def view(request: HttpRequest, object_id: UUID) -> HttpResponse:
                return self.deed_view(request, object_id, deed)

            return self.admin_site.admin_view(view)

        buttons = [
            path(f"<uuid:object_id>/{name}/", make_view(deed), name=f"holdpoint_approvals_review_{name}")
            for name, deed in DEEDS.items()
        ]
        return [*buttons, *super().get_urls()]


def check_ids(ids: Sequence[str]) -> None:
    """Refuse with 400 what no checkbox of ours sends."""
    try:
        for text in ids:
            UUID(text)
    except ValueError as error:
        raise BadRequest("not the id of a review") from error


def read_version(request: HttpRequest, review: Review) -> int | None:
    """The version that was on the page of the question."""
    text = request.POST.get(f"version-{review.pk}", "")
    return int(text) if text.isascii() and text.isdecimal() and len(text) < 10 else None
