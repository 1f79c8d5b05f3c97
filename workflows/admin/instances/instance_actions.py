"""Cancel and retry, for one instance or many, through the engine's own calls.

Invariant owned: nobody without the permission gets past `check_permission`, neither by a button that was
not shown to them nor by a request of their own making.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any
from uuid import UUID

from django import forms
from django.contrib import admin, messages
from django.contrib.admin.helpers import ACTION_CHECKBOX_NAME
from django.core.exceptions import BadRequest, PermissionDenied
from django.db.models import QuerySet
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseNotAllowed, HttpResponseRedirect
from django.template.response import TemplateResponse
from django.urls import reverse
from django.utils.html import format_html
from django.utils.translation import gettext, ngettext
from django.utils.translation import gettext_lazy as _

import workflows
from workflows.admin.base import ReadOnlyAdmin
from workflows.admin.markup import show_id, show_status, show_text
from workflows.admin.tenancy import TenantAdmin
from workflows.exceptions import WorkflowError
from workflows.models import Instance

#: Instances of one request: each is a transaction of its own, and a browser waits for all of them.
LIMIT = 500


class ReasonForm(forms.Form):
    """Why something is cancelled."""

    reason = forms.CharField(
        label=_("Reason"),
        help_text=_("Kept with the instance and in its ledger. May be left empty."),
        max_length=10_000,
        required=False,
        widget=forms.Textarea(attrs={"rows": 3, "class": "vLargeTextField", "autofocus": True}),
    )


class OperatorActions(TenantAdmin, ReadOnlyAdmin):
    """The part of the instances' admin that changes something."""

    actions = ["cancel", "retry"]

    def has_cancel_permission(self, request: HttpRequest) -> bool:
        """Asked by the admin before it offers the action `cancel`."""
        return request.user.has_perm("holdpoint.cancel_instance")

    def has_retry_permission(self, request: HttpRequest) -> bool:
        """Asked by the admin before it offers the action `retry`."""
        return request.user.has_perm("holdpoint.retry_instance")

    def may_see_traceback(self, request: HttpRequest) -> bool:
        """What the author's code said when it failed is for operators, as over REST: customers' data may be in it."""
        return self.has_retry_permission(request)

    def check_permission(self, request: HttpRequest, action: str) -> None:
        """Refuse with 403 whoever may not do this (or may not even look)."""
        if not (self.has_view_permission(request) and request.user.has_perm(f"holdpoint.{action}_instance")):
            raise PermissionDenied

    def changelist_view(self, request: HttpRequest, extra_context: Any = None) -> HttpResponse:
        """The list; a forged action is refused here, where Django would ignore it (and choke on a forged id)."""
        for action in ("cancel", "retry"):
            if request.method == "POST" and action in request.POST.getlist("action"):
                self.check_permission(request, action)
        check_ids(request.POST.getlist(ACTION_CHECKBOX_NAME))
        response: HttpResponse = super().changelist_view(request, extra_context)
        return response

    @admin.action(description=_("Cancel selected instances…"), permissions=["cancel"])
    def cancel(self, request: HttpRequest, queryset: QuerySet[Instance]) -> HttpResponse | None:
        """Ask for a reason, then cancel what was chosen in the list."""
        chosen = self.choose_instances(request, queryset)
        return self.ask_then_cancel(request, chosen, back=request.get_full_path()) if chosen else None

    @admin.action(description=_("Retry selected instances"), permissions=["retry"])
    def retry(self, request: HttpRequest, queryset: QuerySet[Instance]) -> None:
        """Run the chosen failed instances again."""
        self.retry_each(request, self.choose_instances(request, queryset))

    def cancel_view(self, request: HttpRequest, object_id: str) -> HttpResponse:
        """The button on an instance's page: the same question for one."""
        self.check_permission(request, "cancel")
        instance = self.find_instance(request, object_id)
        page = reverse("admin:holdpoint_instance_change", args=[instance.pk], current_app=self.admin_site.name)
        return self.ask_then_cancel(request, [instance], back=page) or HttpResponseRedirect(page)

    def retry_view(self, request: HttpRequest, object_id: str) -> HttpResponse:
        """The button on an instance's page."""
        self.check_permission(request, "retry")
        if request.method != "POST":
            return HttpResponseNotAllowed(["POST"])
        instance = self.find_instance(request, object_id)
        self.retry_each(request, [instance])
        page = reverse("admin:holdpoint_instance_change", args=[instance.pk], current_app=self.admin_site.name)
        return HttpResponseRedirect(page)

    def find_instance(self, request: HttpRequest, object_id: str) -> Instance:
        """The instance of an address, or 404."""
        found: Instance | None = self.get_object(request, object_id)
        if found is None:
            raise Http404(gettext("There is no such instance."))
        return found

    def choose_instances(self, request: HttpRequest, queryset: QuerySet[Instance]) -> list[Instance]:
        """What was ticked, oldest first (locks are taken in the order of ids); nothing if it is too much."""
        if request.POST.get("confirmed"):
            # What was agreed to, even if it has left the filtered list meanwhile: the engine then says why not.
            queryset = self.get_queryset(request).filter(pk__in=request.POST.getlist(ACTION_CHECKBOX_NAME))
        chosen = list(queryset.order_by("id")[: LIMIT + 1])
        if len(chosen) <= LIMIT:
            return chosen
        self.message_user(
            request, gettext("Choose at most %(limit)d instances at a time.") % {"limit": LIMIT}, messages.ERROR
        )
        return []

    def ask_then_cancel(self, request: HttpRequest, chosen: Sequence[Instance], *, back: str) -> HttpResponse | None:
        """The question, until it is answered; None when the instances have been dealt with."""
        form = ReasonForm(request.POST if request.POST.get("confirmed") else None)
        if form.is_valid():
            reason = form.cleaned_data["reason"]
            self.run_each(
                request,
                chosen,
                lambda one: workflows.cancel(one, reason, actor=request.user),
                _("{instance} was cancelled."),
                gettext("Cancelled. %(reason)s") % {"reason": reason},
            )
            return None
        context = {
            **self.admin_site.each_context(request),
            "title": ngettext("Cancel this instance?", "Cancel these instances?", len(chosen)),
            "subtitle": str(chosen[0]) if len(chosen) == 1 else None,
            "chosen": [(one, show_id(one.pk), show_text(one.key), show_status(one.status)) for one in chosen],
            "form": form,
            "back": back,
            "opts": self.opts,
            "media": self.media,
            "checkbox": ACTION_CHECKBOX_NAME,
        }
        request.current_app = self.admin_site.name
        return TemplateResponse(request, "admin/holdpoint/instance/cancel.html", context)

    def retry_each(self, request: HttpRequest, chosen: Sequence[Instance]) -> None:
        """Retry them and say what became of each."""
        self.run_each(
            request,
            chosen,
            lambda one: workflows.retry(one, actor=request.user),
            _("{instance} runs again."),
            gettext("Retried."),
        )

    def run_each(
        self,
        request: HttpRequest,
        chosen: Sequence[Instance],
        call: Callable[[Instance], object],
        success: Any,
        note: str,
    ) -> None:
        """Make a call for each instance; a refusal of one, in the engine's words, leaves the others be."""
        results: list[tuple[str, int]] = []
        for instance in chosen:
            try:
                call(instance)
            except WorkflowError as refusal:
                results.append((str(refusal), messages.ERROR))
            else:
                self.log_change(request, instance, note)
                link = link_instance(instance, self.admin_site.name)
                results.append((format_html(str(success), instance=link), messages.SUCCESS))
        self.report_results(request, results)


def check_ids(ids: Sequence[str]) -> None:
    """Refuse with 400 what no checkbox of ours sends."""
    try:
        for text in ids:
            UUID(text)
    except ValueError as error:
        raise BadRequest("not the id of an instance") from error


def link_instance(instance: Instance, site: str) -> str:
    """An instance's name, leading to its page."""
    url = reverse("admin:holdpoint_instance_change", args=[instance.pk], current_app=site)
    return format_html('<a href="{}">{}</a>', url, show_text(str(instance)))
