"""What people say about themselves, as forms: when they are away, and how they like to work.

Lives here: what the admin and a person's own settings have in common. Invariant owned: whatever leaves a form is a
workflow, a language or a time zone that there is, or was when it was chosen.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any, ClassVar
from zoneinfo import available_timezones

from django import forms
from django.conf import settings
from django.utils.translation import gettext
from django.utils.translation import gettext_lazy as _

from approvals.models import Absence, Preference
from workflows.definitions import registry

if TYPE_CHECKING:
    _AbsenceForm = forms.ModelForm[Absence]
    _PreferenceForm = forms.ModelForm[Preference]
else:
    _AbsenceForm = _PreferenceForm = forms.ModelForm


@cache
def list_zones() -> list[tuple[str, str]]:
    """The time zones that there are, as choices: looked for once, as they are some hundred files."""
    return [(name, name) for name in sorted(available_timezones())]


class AbsenceForm(_AbsenceForm):
    """Workflows are ticked; no tick means all of them, as its help says."""

    class Meta:
        model = Absence
        fields: tuple[str, ...] = ("user", "substitute", "since", "until", "workspace", "workflows", "note")

    workflows = forms.MultipleChoiceField(
        label=_("Only these workflows"),
        required=False,
        help_text=_("Nothing ticked: all of them."),
        widget=forms.CheckboxSelectMultiple(attrs={"class": "hp-choices hp-long"}),
    )

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        chosen = set(self.instance.workflows or ())
        known = {definition.name for definition in registry.list_definitions()}
        elsewhere = [(name, gettext("%(name)s (not known here)") % {"name": name}) for name in chosen - known]
        field = self.fields.get("workflows")
        if isinstance(field, forms.MultipleChoiceField):  # not where this person may only look
            field.choices = sorted([*((name, name) for name in known), *elsewhere])

    def clean_workflows(self) -> list[str] | None:
        """None is all of them."""
        return self.cleaned_data["workflows"] or None


class PreferenceForm(_PreferenceForm):
    """Languages and time zones that there are."""

    class Meta:
        model = Preference
        fields: tuple[str, ...] = ("user", "language", "time_zone", "email", "shortcuts")

    language = forms.ChoiceField(label=_("Language"), required=False)
    time_zone = forms.ChoiceField(label=_("Time zone"), required=False)

    #: What nothing chosen means.
    otherwise: ClassVar[dict[str, Any]] = {"language": _("As the site has it"), "time_zone": _("As the site has it")}

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self._offer("language", self.list_languages(), self.instance.language)
        self._offer("time_zone", list_zones(), self.instance.time_zone)

    def list_languages(self) -> list[tuple[Any, Any]]:
        """Those that the site has."""
        return list(settings.LANGUAGES)

    def _offer(self, name: str, choices: list[tuple[Any, Any]], kept: str) -> None:
        field = self.fields.get(name)
        if isinstance(field, forms.ChoiceField):
            known = {value for value, _label in choices}
            more = [(kept, kept)] if kept and kept not in known else []
            field.choices = [("", self.otherwise[name]), *choices, *more]
