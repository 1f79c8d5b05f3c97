"""What is asked before something is done to a review: whom instead, until when, and why.

Invariant owned: whatever leaves a form is what the calls of `approvals.actions.actions` take; whether it may be done is
theirs.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from django import forms
from django.contrib.admin.sites import AdminSite
from django.contrib.admin.widgets import AdminSplitDateTime, AutocompleteSelectMultiple
from django.contrib.auth import get_user_model
from django.contrib.auth.models import Group
from django.core.exceptions import ValidationError
from django.http import HttpRequest
from django.utils import timezone
from django.utils.translation import gettext
from django.utils.translation import gettext_lazy as _

from approvals.models import Review
from approvals.models.vote import MAX_TEXT
from approvals.people.principals import has_groups, name_person
from approvals.rules import load_outcomes
from workflows.models import Workspace
from workflows.wording.punctuation import join_list

#: A field that points to users: the admin's search asks a field whom it may look for.
_USERS: Any = Workspace._meta.get_field("members")


class DeedForm(forms.Form):
    """What every form here has: a reason."""

    reason = forms.CharField(
        label=_("Reason"),
        help_text=_("Whoever may see this request reads it. May be left empty."),
        max_length=MAX_TEXT,
        required=False,
        widget=forms.Textarea(attrs={"rows": 3, "class": "vLargeTextField"}),
    )

    def __init__(self, *args: Any, request: HttpRequest, site: AdminSite, chosen: Iterable[Review], **options: Any):
        super().__init__(*args, **options)
        self.prepare(request, site, list(chosen))

    def prepare(self, request: HttpRequest, site: AdminSite, chosen: list[Review]) -> None:
        """What depends on who asks, and about what."""


class ReassignForm(DeedForm):
    """Who is asked from now on."""

    field_order = ("users", "groups", "keep", "reason")

    keep = forms.BooleanField(
        label=_("As well as those asked so far"), required=False, help_text=_("Left empty: instead of them.")
    )

    def prepare(self, request: HttpRequest, site: AdminSite, chosen: list[Review]) -> None:
        """Users are searched for where this person may search them, else written down."""
        self.fields["users"] = _make_users(request, site)
        if has_groups():
            self.fields["groups"] = forms.ModelMultipleChoiceField(
                Group.objects.order_by("name"), label=_("Groups"), required=False, blank=True
            )
        self.order_fields(self.field_order)

    def clean(self) -> dict[str, Any]:
        """Somebody has to be asked."""
        cleaned = super().clean() or self.cleaned_data
        if not self.errors and not cleaned.get("users") and not cleaned.get("groups"):
            raise ValidationError(gettext("Name at least one user or group that is asked from now on."))
        return cleaned


class ExtendForm(DeedForm):
    """Until when."""

    field_order = ("due", "deadline", "reason")

    due = forms.SplitDateTimeField(
        label=_("Due"), required=False, widget=AdminSplitDateTime, help_text=_("When an answer should be there.")
    )
    deadline = forms.SplitDateTimeField(
        label=_("Deadline"),
        required=False,
        widget=AdminSplitDateTime,
        help_text=_("When the workflow stops waiting."),
    )

    def clean(self) -> dict[str, Any]:
        """One of them, and to come."""
        cleaned = super().clean() or self.cleaned_data
        for name in ("due", "deadline"):
            moment = cleaned.get(name)
            if moment is not None and moment <= timezone.now():
                self.add_error(name, gettext("It lies in the past."))
        if not self.errors and not cleaned.get("due") and not cleaned.get("deadline"):
            raise ValidationError(gettext("Say until when: when it is due, when the wait ends, or both."))
        return cleaned


class OutcomeForm(DeedForm):
    """One answer for many."""

    field_order = ("outcome", "reason")

    outcome = forms.ChoiceField(label=_("Answer"), widget=forms.RadioSelect(attrs={"class": "hp-choices"}))

    def prepare(self, request: HttpRequest, site: AdminSite, chosen: list[Review]) -> None:
        """The answers that any of them takes; who does not take it says so."""
        field = self.fields["outcome"]
        assert isinstance(field, forms.ChoiceField)
        field.choices = list({one.name: one.label for row in chosen for one in load_outcomes(row.outcomes)}.items())


class OverrideForm(OutcomeForm):
    """The same in place of those asked."""

    def prepare(self, request: HttpRequest, site: AdminSite, chosen: list[Review]) -> None:
        """Whoever overrides says why."""
        super().prepare(request, site, chosen)
        self.fields["reason"].required = True
        self.fields["reason"].help_text = _("Needed. Whoever may see these requests reads it.")


class UsernamesField(forms.CharField):
    """Users by their login names, with commas between them."""

    def clean(self, value: Any) -> list[Any]:
        """The users; an error names who is not there."""
        text = super().clean(value)
        names = [name.strip() for name in text.split(",") if name.strip()]
        model = get_user_model()
        found = {user.get_username(): user for user in model._default_manager.filter(**{_by_name(model): names})}
        if missing := [name for name in names if name not in found]:
            raise ValidationError(gettext("There is no user %(names)s.") % {"names": join_list(missing)})
        return [found[name] for name in names]


def _by_name(model: Any) -> str:
    return f"{model.USERNAME_FIELD}__in"


def _make_users(request: HttpRequest, site: AdminSite) -> forms.Field:
    model = get_user_model()
    registered = site._registry.get(model)
    if registered is None or not registered.get_search_fields(request) or not registered.has_view_permission(request):
        return UsernamesField(label=_("Users"), required=False, help_text=_("Login names, with commas between them."))
    field = forms.ModelMultipleChoiceField(
        model._default_manager.filter(is_active=True),
        label=_("Users"),
        required=False,
        blank=True,
        widget=AutocompleteSelectMultiple(_USERS, site),
    )
    vars(field)["label_from_instance"] = name_person
    return field
