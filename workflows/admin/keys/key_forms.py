"""What is asked about a key: what it may do, and how long an old one stays beside a new one.

Invariant owned: whatever leaves a form has passed the checks of `workflows.access.api_keys`; what these refuse is told
in the language of the page, because their own words are for programmers.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar

from django import forms
from django.contrib.admin.widgets import AdminSplitDateTime, AdminTextInputWidget
from django.core.exceptions import ValidationError
from django.utils import timezone
from django.utils.translation import gettext, pgettext_lazy
from django.utils.translation import gettext_lazy as _

from workflows.access.api_keys import SCOPES, check_expiry, check_rate
from workflows.definitions import registry
from workflows.exceptions import InvalidCall
from workflows.models import ApiKey
from workflows.values.durations import parse_delay

if TYPE_CHECKING:
    _ModelForm = forms.ModelForm[ApiKey]
else:
    _ModelForm = forms.ModelForm

#: What each scope opens, in people's words.
SCOPE_WORDS = {
    "read": _("read: instances, their history, and questions"),
    "start": _("start: begin instances"),
    "signal": _("signal: send signals and events"),
    "complete": _("complete: answer questions"),
    "operate": _("operate: cancel and retry instances, pause and limit what runs"),
    "admin": _("admin: all of these, and whatever will be added"),
}
ALL, SOME = "all", "some"

Read = TypeVar("Read")


class KeyForm(_ModelForm):
    """A key's name and rights. `reach` says in so many words what an empty list could only hint at."""

    #: The scopes that whoever fills it in may give.
    rights: ClassVar[frozenset[str]] = frozenset(SCOPES)

    class Meta:
        model = ApiKey
        fields = ("name", "workspace", "scopes", "workflows", "expires_at", "rate")

    scopes = forms.MultipleChoiceField(
        # The word alone is a month to Django, whose catalogue ours is laid over.
        label=pgettext_lazy("what an API key is allowed", "May"),
        choices=[(scope, SCOPE_WORDS[scope]) for scope in SCOPES],
        widget=forms.CheckboxSelectMultiple(attrs={"class": "hp-choices"}),
        error_messages={"required": _("Tick at least one: a key that may do nothing opens nothing.")},
    )
    reach = forms.ChoiceField(
        label=_("Workflows"),
        choices=[(ALL, _("All workflows")), (SOME, _("Only those ticked below"))],
        widget=forms.RadioSelect(attrs={"class": "hp-choices"}),
        initial=ALL,
    )
    workflows = forms.MultipleChoiceField(
        label=_("Only these"),
        required=False,
        widget=forms.CheckboxSelectMultiple(attrs={"class": "hp-choices hp-long"}),
    )
    expires_at = forms.SplitDateTimeField(
        label=_("Expires at"), required=False, widget=AdminSplitDateTime, help_text=_("Empty: never.")
    )
    rate = forms.CharField(
        label=_("Rate"),
        required=False,
        max_length=20,
        widget=AdminTextInputWidget(attrs={"placeholder": "600/m"}),
        help_text=_("Calls per s, m, h or d, such as 600/m. Empty: as many as the site allows."),
    )

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        chosen = self.instance.workflows or []
        known = {definition.name for definition in registry.list_definitions()}
        # Another site, or an older release, may know those that this one does not.
        elsewhere = [(name, gettext("%(name)s (not known here)") % {"name": name}) for name in set(chosen) - known]
        if "scopes" in self.fields:
            self.list_of("scopes").choices = [(one, SCOPE_WORDS[one]) for one in SCOPES if one in self.rights]
        self.list_of("workflows").choices = sorted([*((name, name) for name in known), *elsewhere])
        if chosen:
            self.fields["reach"].initial = SOME

    def list_of(self, name: str) -> forms.MultipleChoiceField:
        """A field with choices."""
        field = self.fields[name]
        assert isinstance(field, forms.MultipleChoiceField)
        return field

    def clean_rate(self) -> str:
        told = gettext("This is no rate: write a number per s, m, h or d, such as 600/m.")
        return repeat_check(check_rate, self.cleaned_data["rate"].strip(), told)

    def clean_expires_at(self) -> datetime | None:
        """A moment to come; one that has passed may stand where it stood."""
        moment: datetime | None = self.cleaned_data["expires_at"]
        return moment if "expires_at" not in self.changed_data else _check_end(moment)

    def clean(self) -> dict[str, Any]:
        """Ticks and the choice above them agree: neither may quietly give more than was meant."""
        cleaned = super().clean() or self.cleaned_data
        reach, some = cleaned.get("reach"), cleaned.get("workflows")
        if reach == SOME and not some:
            self.add_error("workflows", gettext("Tick at least one, or choose “All workflows”."))
        elif reach == ALL and some:
            told = gettext("The key would open all workflows: choose “Only those ticked below”, or untick them.")
            self.add_error("workflows", told)
        else:
            cleaned["workflows"] = some or None
        return cleaned

    def list_changes(self) -> dict[str, Any]:
        """What differs from what was shown: another's change of the rest meanwhile is not undone."""
        names = {"workflows" if name == "reach" else name for name in self.changed_data}
        return {name: self.cleaned_data[name] for name in names}


class RotateForm(forms.Form):
    """How long the old key stays, and the new one."""

    grace = forms.CharField(
        label=_("The old key works for"),
        initial="24h",
        widget=AdminTextInputWidget,
        help_text=_("Long enough for every caller to change over, such as 30m, 24h or 7d; 0s ends it at once."),
    )
    expires_at = forms.SplitDateTimeField(
        label=_("The new key expires at"),
        required=False,
        widget=AdminSplitDateTime,
        help_text=_("Empty: never."),
    )

    def clean_grace(self) -> str:
        grace: str = self.cleaned_data["grace"]
        told = gettext("This is no length of time: write it as 30m, 24h or 7d.")
        repeat_check(parse_delay, grace, told)
        return grace

    def clean_expires_at(self) -> datetime | None:
        return _check_end(self.cleaned_data["expires_at"])


def propose_expiry(row: ApiKey) -> datetime | None:
    """As long a life as the old key was given, from now on; for a person to judge."""
    if row.expires_at is None:
        return None
    try:
        return timezone.now() + (row.expires_at - row.created_at)
    except OverflowError:  # to the end of the calendar, and on
        return row.expires_at


def repeat_check(check: Callable[[Any], Read], value: object, told: str) -> Read:
    """A check of the engine's as one of a form."""
    try:
        return check(value)
    except InvalidCall as error:
        raise ValidationError(told) from error


def _check_end(moment: datetime | None) -> datetime | None:
    return repeat_check(check_expiry, moment, gettext("This lies in the past: to end a key now, revoke it."))
