"""Forking an instance in the admin: the form, and the links between instances that go on from one another.

Invariant owned: what can be refused is refused by the engine's own call, and shown in its words beside the form.
"""

from __future__ import annotations

from typing import Any
from uuid import UUID

from django import forms
from django.contrib import admin
from django.contrib.postgres.expressions import ArraySubquery
from django.db.models import OuterRef, QuerySet
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.template.response import TemplateResponse
from django.urls import reverse
from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString
from django.utils.text import capfirst
from django.utils.translation import gettext
from django.utils.translation import gettext_lazy as _

import workflows
from workflows.admin.instances.instance_actions import OperatorActions, link_instance
from workflows.admin.json_field import StrictJsonField
from workflows.admin.markup import NOTHING, show_id, show_status, show_text
from workflows.api.lineage.fork_points import list_points
from workflows.definitions import registry
from workflows.exceptions import WorkflowError
from workflows.models import Instance

#: Forks of one instance that its page links to.
SHOWN = 20


class ForkForm(forms.Form):
    """Where the new instance goes on, and what it has in place of what was there."""

    at = forms.ChoiceField(
        label=_("Point"),
        required=False,
        help_text=_("That call, step or stage and all after it run anew. What came before it is kept."),
    )
    key = forms.CharField(label=capfirst(_("key")), max_length=200, required=False)
    input = StrictJsonField(
        label=_("Input"),
        required=False,
        help_text=_("As JSON. Left empty it is that of this instance."),
        widget=forms.Textarea(attrs={"rows": 4, "class": "vLargeTextField"}),
    )
    state = StrictJsonField(
        label=capfirst(_("state")),
        required=False,
        help_text=_("As JSON. Left empty it is what it was at the point, if the workflow keeps states."),
        widget=forms.Textarea(attrs={"rows": 4, "class": "vLargeTextField"}),
    )

    def __init__(self, instance: Instance, data: Any, *, may_start: bool) -> None:
        super().__init__(data)
        definition = registry.find(instance.workflow, instance.version)
        is_function = definition is not None and definition.signature is not None
        points = list_points(instance)
        if definition is not None and not is_function and may_start:
            points = list(definition.steps)  # with a state of one's own it may begin with any of them
        choices = [("", _("Its beginning")), *((one, one) for one in points)]
        at: Any = self.fields["at"]
        at.choices = choices
        if not may_start:
            del self.fields["input"]
        if not may_start or is_function:
            del self.fields["state"]

    def read_values(self) -> dict[str, Any]:
        """What is said in place of what was."""
        data = self.cleaned_data
        return {name: data[name] for name in ("input", "state") if data.get(name) is not None}


class ForkActions(OperatorActions):
    """The part of the instances' admin that forks them, and shows their lineage."""

    def get_queryset(self, request: HttpRequest) -> QuerySet[Instance]:
        """Rows; that of a page with its latest forks, so that these cost no statement."""
        rows: QuerySet[Instance] = super().get_queryset(request)
        if request.resolver_match is None or request.resolver_match.url_name != "holdpoint_instance_change":
            return rows
        forks = Instance.objects.filter(forked_from=OuterRef("pk")).order_by("-id").values("id")
        return rows.annotate(latest_forks=ArraySubquery(forks[: SHOWN + 1]))

    def has_fork_permission(self, request: HttpRequest) -> bool:
        """Whether this user may fork instances; values of one's own take the permission to start them, too."""
        return request.user.has_perm("holdpoint.fork_instance")

    def may_fork(self, request: HttpRequest, instance: Instance) -> bool:
        """Whether the page offers it."""
        return self.has_fork_permission(request) and not instance.workflow.endswith(registry.LINES)

    def fork_view(self, request: HttpRequest, object_id: str) -> HttpResponse:
        """The button on an instance's page: a form, then the page of the new instance."""
        self.check_permission(request, "fork")
        instance = self.find_instance(request, object_id)
        may_start = request.user.has_perm("holdpoint.start_instance")
        form = ForkForm(instance, request.POST if request.POST.get("confirmed") else None, may_start=may_start)
        if form.is_valid():
            data = form.cleaned_data
            try:
                forked = workflows.fork(
                    instance,
                    at=data["at"] or None,
                    key=data["key"] or None,
                    actor=request.user,
                    **form.read_values(),
                )
            except WorkflowError as refusal:
                form.add_error(None, str(refusal))
            else:
                self.log_change(request, instance, gettext("Forked."))
                made = format_html(str(_("{instance} was started.")), instance=self.link(forked))
                self.message_user(request, made)
                return HttpResponseRedirect(self.locate(forked.pk))
        context = {
            **self.admin_site.each_context(request),
            "title": _("Fork this instance"),
            "subtitle": str(instance),
            "chosen": [(instance, show_id(instance.pk), show_text(instance.key), show_status(instance.status))],
            "form": form,
            "back": self.locate(instance.pk),
            "opts": self.opts,
            "media": self.media,
        }
        request.current_app = self.admin_site.name
        return TemplateResponse(request, "admin/holdpoint/instance/fork.html", context)

    def locate(self, id: UUID) -> str:
        """The address of an instance's page."""
        return reverse("admin:holdpoint_instance_change", args=[id], current_app=self.admin_site.name)

    def link(self, instance: Instance) -> str:
        """An instance's name, leading to its page."""
        return link_instance(instance, self.admin_site.name)

    @admin.display(description=_("forked from"))
    def of_first(self, instance: Instance) -> SafeString:
        """Its id only, as for the parent."""
        if instance.forked_from_id is None:
            return NOTHING
        first = instance.forked_from_id
        return format_html('<a href="{}">{}</a>', self.locate(first), show_id(first))

    @admin.display(description=_("forks"))
    def its_forks(self, instance: Instance) -> SafeString:
        """The latest of those that go on from it, which came with its row."""
        found: list[UUID] = getattr(instance, "latest_forks", [])
        if not found:
            return NOTHING
        links = format_html_join(
            ", ", '<a href="{}">{}</a>', ((self.locate(one), show_id(one)) for one in found[:SHOWN])
        )
        return format_html("{}, …", links) if len(found) > SHOWN else links
