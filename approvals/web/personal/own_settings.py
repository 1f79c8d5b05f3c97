"""What somebody may say about themselves: how they like to work, and who stands in while they are away.

Must not live here: what these do (`viewer`, `preferences`). Invariants owned: nobody changes what is another's; who
stands in is somebody who could be asked there; whoever is not of one's workspaces is not told from who does not exist.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any, ClassVar

from django import forms
from django.conf import settings
from django.contrib.auth import get_user_model
from django.core.exceptions import ValidationError
from django.db.models import Q
from django.utils.text import capfirst
from django.utils.translation import get_language_info, gettext, to_locale
from django.utils.translation import gettext_lazy as _

from approvals.display.times import show_at
from approvals.display.values import MAX_NAME, name_kind, show_text
from approvals.models import Absence, Preference
from approvals.people.person import Person
from approvals.people.principals import list_active, name_person
from approvals.web.personal.personal_forms import AbsenceForm, PreferenceForm
from workflows.access.memberships import list_workspaces
from workflows.clock import Now
from workflows.models import Workspace
from workflows.wording.punctuation import join_list

#: Of one person.
MAX_ABSENCES = 50
#: Where what a constraint says is shown.
_PLACES = {"holdpoint_absence_other": "substitute", "holdpoint_absence_order": "until"}


class MomentInput(forms.DateTimeInput):
    """A moment, as a browser asks for it."""

    input_type = "datetime-local"

    def __init__(self) -> None:
        super().__init__(attrs={"class": "input"}, format="%Y-%m-%dT%H:%M")


_CATALOGUES = Path(__file__).parents[2] / "locale"


class OwnPreferenceForm(PreferenceForm):
    """How somebody likes to work, in their own words for it."""

    class Meta(PreferenceForm.Meta):
        fields = ("language", "time_zone", "email", "shortcuts")

    language = forms.ChoiceField(label=_("Language"), required=False, widget=forms.Select(attrs={"class": "input"}))
    time_zone = forms.ChoiceField(
        label=_("Time zone"),
        required=False,
        help_text=_("Left empty: that of this site. Begin to type a city, such as Madrid."),
        error_messages={"invalid_choice": _("There is no time zone “%(value)s”. Write it like Europe/Madrid.")},
        widget=forms.TextInput(attrs={"class": "input", "list": "zones", "autocomplete": "off", "spellcheck": "false"}),
    )

    otherwise: ClassVar[dict[str, Any]] = {**PreferenceForm.otherwise, "language": _("As my browser says")}

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        email: Any = self.fields["email"]
        email.choices = [(value, capfirst(label)) for value, label in email.choices]
        email.widget.attrs["class"] = "input"
        self.fields["shortcuts"].help_text = gettext("They rest while you type. High-risk requests never take one.")

    def list_languages(self) -> list[tuple[Any, Any]]:
        """Those that the inbox speaks, as those who speak them call them."""
        spoken = {"en", *(one.name for one in _CATALOGUES.iterdir())}
        offered = [code for code, _label in super().list_languages()]
        known = [code for code in offered if {to_locale(code), to_locale(code).partition("_")[0]} & spoken]
        return [(code, name_language(code)) for code in known]

    @property
    def zones(self) -> list[str]:
        """What there is to choose from."""
        field: Any = self.fields["time_zone"]
        return [str(value) for value, _label in field.choices if value]

    def clean_time_zone(self) -> str:
        """As it is written there."""
        return str(self.cleaned_data["time_zone"]).strip()


class OwnAbsenceForm(AbsenceForm):
    """One's own absence."""

    class Meta(AbsenceForm.Meta):
        fields = ("substitute", "since", "until", "workspace", "workflows", "note")

    substitute = forms.CharField(
        label=_("Who stands in"),
        max_length=254,  # an address may be what one logs in with
        help_text=_("Their login name."),
        widget=forms.TextInput(attrs={"class": "input", "autocomplete": "off", "spellcheck": "false"}),
    )
    since = forms.DateTimeField(label=_("From"), widget=MomentInput())
    until = forms.DateTimeField(
        label=_("Until"),
        required=False,
        help_text=_("Left empty: until you end it."),
        widget=MomentInput(),
    )

    def __init__(self, *args: Any, user: Any, now: datetime, **options: Any) -> None:
        super().__init__(*args, instance=Absence(user=user), **options)
        self.user, self.now = user, now
        self.mine = list_workspaces(user)
        which: Any = self.fields["workflows"]
        which.choices = [(name, name_kind(name)) for name, _label in which.choices]
        where, note = self.fields["workspace"], self.fields["note"]
        assert isinstance(where, forms.ModelChoiceField)
        where.queryset = Workspace.objects.filter(pk__in=[id for id, _slug in self.mine]).order_by("slug")
        where.empty_label = gettext("All of them")
        where.widget.attrs["class"] = note.widget.attrs["class"] = "input"

    def clean_substitute(self) -> Any:
        """The account; somebody who is in none of one's workspaces is nobody."""
        name = self.cleaned_data["substitute"].strip()
        found = list_active().filter(**{get_user_model().USERNAME_FIELD: name}).first()
        theirs = {id for id, _slug in list_workspaces(found)} if found is not None else set()
        if not theirs & {id for id, _slug in self.mine}:
            raise ValidationError(gettext("There is nobody of that name here. Choose somebody else."))
        self.theirs = theirs
        return found

    def clean_until(self) -> datetime | None:
        """It lies ahead."""
        until: datetime | None = self.cleaned_data["until"]
        if until is not None and until <= self.now:
            raise ValidationError(gettext("It lies in the past."))
        return until

    def clean(self) -> dict[str, Any]:
        """Whoever stands in can do so there."""
        cleaned = super().clean() or self.cleaned_data
        where = cleaned.get("workspace")
        if where is not None and cleaned.get("substitute") is not None and where.pk not in self.theirs:
            told = gettext("They are not in this workspace: choose somebody who is, or another workspace.")
            self.add_error("substitute", told)
        self._check_constraints(cleaned)
        if Absence._default_manager.filter(user_id=self.user.pk).count() >= MAX_ABSENCES:
            raise ValidationError(gettext("You have %(n)s of these: remove some first.") % {"n": MAX_ABSENCES})
        return cleaned

    def _check_constraints(self, cleaned: dict[str, Any]) -> None:
        """What the table itself demands is said at the field that it is about."""
        names = ("substitute", "since", "until")
        tried = Absence(user=self.user, **{name: cleaned[name] for name in names if cleaned.get(name) is not None})
        for constraint in Absence._meta.constraints:
            try:
                constraint.validate(Absence, tried)
            except ValidationError as refused:
                self.add_error(_PLACES.get(constraint.name), refused)


@dataclass(frozen=True, slots=True)
class ShownAbsence:
    """One of one's own absences."""

    key: int
    substitute: str
    #: "now", "to come" or "over", in words.
    state: str
    since: str
    until: str
    #: Workspaces and workflows, where it is not about all of them.
    scope: str
    note: str
    is_now: bool


def list_own(user: Person, now: datetime) -> tuple[ShownAbsence, ...]:
    """The latest ones first.

    >>> [one.substitute for one in list_own(ann, now)]
    ['Ben Okafor']
    """
    rows = Absence._default_manager.filter(user_id=user.pk).select_related("substitute", "workspace")
    return tuple(_show(one, now) for one in rows.order_by("-since", "-pk")[:MAX_ABSENCES])


def end_absence(key: int, user: Person) -> bool:
    """End one that lasts; whether there was one."""
    rows = Absence._default_manager.filter(Q(until__isnull=True) | Q(until__gt=Now()), pk=key, user_id=user.pk)
    return rows.filter(since__lt=Now()).update(until=Now()) > 0


def remove_absence(key: int, user: Person) -> bool:
    """Remove one, as if it had not been said; whether there was one."""
    return Absence._default_manager.filter(pk=key, user_id=user.pk).delete()[0] > 0


def keep_preference(user: Any, values: dict[str, Any]) -> None:
    """Write down how somebody likes to work."""
    Preference._default_manager.update_or_create(user=user, defaults=values)


def name_language(code: str) -> str:
    """A language as those who speak it call it.

    >>> name_language("de")
    'Deutsch'
    """
    try:
        name = str(get_language_info(code)["name_local"])
    except KeyError:
        return str(dict(settings.LANGUAGES).get(code, code))
    return str(capfirst(name))


def _show(one: Absence, now: datetime) -> ShownAbsence:
    is_over = one.until is not None and one.until <= now
    is_now = one.since <= now and not is_over
    scope = [one.workspace.slug] if one.workspace is not None else []
    return ShownAbsence(
        key=one.pk,
        substitute=show_text(name_person(one.substitute), MAX_NAME),
        state=gettext("now") if is_now else gettext("over") if is_over else gettext("to come"),
        since=show_at(one.since, now),
        until=show_at(one.until, now) if one.until is not None else gettext("until further notice"),
        scope=show_text(join_list([*scope, *map(name_kind, one.workflows or ())])),
        note=show_text(one.note) if one.note else "",
        is_now=is_now,
    )
