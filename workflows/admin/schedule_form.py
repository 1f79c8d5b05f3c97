"""What is asked about a schedule in the admin.

Invariant owned: whatever leaves the form has passed the checks of `workflows.api.schedule_calls`; what these refuse is
told at the form, in their own words.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from django import forms
from django.contrib.admin.widgets import AdminTextInputWidget
from django.utils.translation import gettext
from django.utils.translation import gettext_lazy as _

from workflows.admin.json_field import StrictJsonField
from workflows.api.schedule_calls import FIELDS, check_name, check_schedule
from workflows.definitions import registry
from workflows.exceptions import WorkflowError
from workflows.models import Schedule
from workflows.values.durations import write_duration
from workflows.values.schedule_options import DEFAULT_CATCH_UP, DEFAULT_OVERLAP, show_catch_up

if TYPE_CHECKING:
    _ModelForm = forms.ModelForm[Schedule]
else:
    _ModelForm = forms.ModelForm

#: Digits; a number that has more is none of ticks, and Python reads none of thousands.
LONGEST_COUNT = 10
OVERLAP_WORDS = [
    ("skip", _("skip: start nothing while the last instance lives")),
    ("allow", _("allow: start the next one beside it")),
    ("cancel", _("cancel: cancel the last one, and start the next")),
]


class ScheduleForm(_ModelForm):
    """A schedule's times, and what it starts."""

    class Meta:
        model = Schedule
        fields = ("workspace", "name")

    name = forms.CharField(label=_("Name"), max_length=200, widget=AdminTextInputWidget)
    workflow = forms.ChoiceField(label=_("Workflow"))
    cron = forms.CharField(
        label=_("Cron"),
        required=False,
        widget=AdminTextInputWidget(attrs={"placeholder": "0 9 * * 1-5"}),
        help_text=_("Minute, hour, day of the month, month, day of the week. Or fill in an interval."),
    )
    every = forms.CharField(
        label=_("Every"),
        required=False,
        widget=AdminTextInputWidget(attrs={"placeholder": "15m"}),
        help_text=_("An interval, such as 30s, 15m, 6h or 7d. Or fill in a cron expression."),
    )
    tz = forms.CharField(
        label=_("Time zone"),
        required=False,
        widget=AdminTextInputWidget(attrs={"placeholder": "Europe/Berlin"}),
        help_text=_("In which the cron expression speaks. Empty: the site’s own."),
    )
    input = StrictJsonField(label=_("Input"), required=False, help_text=_("JSON. Empty: {}."))
    overlap = forms.ChoiceField(label=_("Overlap"), choices=OVERLAP_WORDS, initial=DEFAULT_OVERLAP)
    catch_up = forms.CharField(
        label=_("Missed ticks"),
        initial=DEFAULT_CATCH_UP,
        widget=AdminTextInputWidget,
        help_text=_("What is made up for: none, last, or so many of the last ones."),
    )
    enabled = forms.BooleanField(label=_("Enabled"), required=False, initial=True)

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        row = self.instance
        names = {definition.name for definition in registry.list_latest()} | ({row.workflow} if row.pk else set())
        workflow = self.fields.get("workflow")
        if isinstance(workflow, forms.ChoiceField):
            workflow.choices = [(name, name) for name in sorted(names)]
        if row.pk:
            every = None if row.every is None else write_duration(row.every)
            known = {"workflow": row.workflow, "cron": row.cron, "every": every, "input": row.input}
            more = {"tz": row.tz if row.cron else None, "overlap": row.overlap, "enabled": row.enabled}
            self.initial.update({**known, **more, "catch_up": show_catch_up(row.catch_up)})

    def _post_clean(self) -> None:
        """Nothing is put into the row: the calls write it."""

    def clean(self) -> dict[str, Any]:
        """The checks of the calls, for all fields together."""
        cleaned = super().clean() or self.cleaned_data
        if self.errors:
            return cleaned
        try:
            if "name" in self.fields:
                check_name(cleaned["name"])
            check_schedule(self.list_fields())
        except WorkflowError as error:
            self.add_error(None, str(error))
        if "name" in self.fields and Schedule.objects.filter(
            workspace=cleaned.get("workspace"), name=cleaned["name"]
        ).exclude(pk=self.instance.pk):
            self.add_error("name", gettext("There is a schedule of this name in the workspace."))
        return cleaned

    def list_fields(self) -> dict[str, Any]:
        """What the calls are told."""
        found = {name: self.cleaned_data[name] for name in FIELDS}
        catch_up = str(found["catch_up"]).strip()
        is_number = catch_up.isascii() and catch_up.isdigit() and len(catch_up) < LONGEST_COUNT
        found["catch_up"] = int(catch_up) if is_number else catch_up
        return found | {name: found[name] or None for name in ("cron", "every", "tz")}
