"""What is asked about a queue, a limit or a pause.

Invariant owned: whatever leaves a form can be set: what the calls would refuse is told at its field, in the language of
the page.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

from django import forms
from django.contrib.admin.widgets import AdminTextInputWidget
from django.utils.translation import gettext
from django.utils.translation import gettext_lazy as _

from workflows.api.flow_control import read_rate
from workflows.definitions import registry
from workflows.definitions.flow import known_limits
from workflows.definitions.flow.key_templates import LONGEST_KEY
from workflows.definitions.flow.limits import MOST_SLOTS
from workflows.exceptions import InvalidCall
from workflows.models import Limit, PausedWorkflow, Queue
from workflows.values.json_text import check_text

if TYPE_CHECKING:
    _Form = forms.ModelForm[Any]
else:
    _Form = forms.ModelForm

RATE = ("rate_count", "rate_per", "rate_burst")


class RateForm(_Form):
    """A number at once, and how often."""

    limit = forms.IntegerField(
        label=_("Limit"), required=False, min_value=1, max_value=MOST_SLOTS, help_text=_("Empty: as the code has it.")
    )
    rate_count = forms.IntegerField(label=_("Runs"), required=False, min_value=1)
    rate_per = forms.FloatField(
        label=_("In seconds"), required=False, help_text=_("So many runs may begin in so many seconds.")
    )
    rate_burst = forms.IntegerField(
        label=_("At once"), required=False, min_value=1, help_text=_("Empty: as many as the runs.")
    )

    def read_rate(self) -> Any:
        """How often, as the calls take it; None where nothing was filled in."""
        count, per, burst = (self.cleaned_data.get(name) for name in RATE)
        if count is None and per is None and burst is None:
            return None
        if count is None or per is None:
            missing = "rate_count" if count is None else "rate_per"
            if missing not in self.errors:
                self.add_error(missing, gettext("A rate takes both: how many runs, in how many seconds."))
            return None
        try:
            rate = read_rate({"count": count, "per": per, "burst": burst})
        except InvalidCall:
            self.add_error("rate_per", gettext("This is no rate: write whole numbers of runs, and seconds above zero."))
            return None
        self.cleaned_data["rate_burst"] = rate.burst
        return rate


class QueueForm(RateForm):
    """What is to be another of a queue."""

    class Meta:
        model = Queue
        fields = ("workspace", "name", "limit", *RATE, "paused")

    name = forms.ChoiceField(label=_("Queue"))
    paused = forms.BooleanField(label=_("Paused"), required=False, help_text=_("Nothing of it is begun meanwhile."))

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        if isinstance(name := self.fields.get("name"), forms.ChoiceField):
            name.choices = [(one, one) for one in known_limits.list_queues()]

    def clean(self) -> dict[str, Any]:
        """With the rate as one value."""
        cleaned = super().clean() or self.cleaned_data
        cleaned["rate"] = self.read_rate()
        return cleaned

    def list_changes(self) -> dict[str, Any]:
        """What differs from what was shown: another's change of the rest meanwhile is not undone."""
        changed = {"rate" if name in RATE else name for name in self.changed_data} & {"limit", "rate", "paused"}
        return {name: self.cleaned_data[name] for name in changed}


class LimitForm(RateForm):
    """Another number in the place of the code's."""

    class Meta:
        model = Limit
        fields = ("workspace", "kind", "name", "limit", *RATE)
        widgets: ClassVar = {"name": AdminTextInputWidget}
        help_texts: ClassVar = {
            "name": _(
                "Of a concurrency one key, such as tenant:7, or all of them: tenant:{tenant}. Of a rate its name."
            )
        }

    limit = forms.IntegerField(
        label=_("Limit"), required=False, min_value=1, max_value=MOST_SLOTS, help_text=_("Of a concurrency: at once.")
    )

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        if "rate_count" in self.fields:
            self.fields["rate_count"].help_text = _("Of a rate.")

    def clean(self) -> dict[str, Any]:
        """With the one value that its kind takes."""
        cleaned = super().clean() or self.cleaned_data
        kind = cleaned.get("kind", self.instance.kind)
        name = cleaned.get("name", self.instance.name)
        rate = self.read_rate()
        if kind == Limit.RATE:
            self._check_rate(name, rate)
        elif cleaned.get("limit") is None and "limit" not in self.errors:
            self.add_error("limit", gettext("How many at once?"))
        elif rate is not None:
            self.add_error("rate_count", gettext("A concurrency has a limit and no rate."))
        if "name" in self.fields and name:
            self._check_name(kind, name)
        cleaned["value"] = rate if kind == Limit.RATE else cleaned.get("limit")
        return cleaned

    def _check_rate(self, name: str, rate: Any) -> None:
        if self.cleaned_data.get("limit") is not None:
            self.add_error("limit", gettext("A rate has runs in seconds, and no limit."))
        if rate is None:
            if not any(one in self.errors for one in RATE):
                self.add_error("rate_count", gettext("A rate takes both: how many runs, in how many seconds."))
        elif (weight := known_limits.list_weights().get(name, 1)) > rate.burst:
            told = gettext("One run takes %(weight)d, so fewer at once would let nothing through.")
            self.add_error("rate_burst", told % {"weight": weight})

    def _check_name(self, kind: str, name: str) -> None:
        try:
            check_text(name, "the name", limit=LONGEST_KEY)
            known = name in known_limits.list_rates() if kind == Limit.RATE else known_limits.fits_concurrency(name)
        except InvalidCall:
            known = False
        if not known:
            rates, keys = sorted(known_limits.list_rates()), sorted(known_limits.list_concurrencies())
            told = gettext("No workflow has such a limit. There are: %(names)s.")
            names = ", ".join(rates if kind == Limit.RATE else keys) or "–"
            self.add_error("name", told % {"names": names})


class PauseForm(_Form):
    """Which workflow is to be paused."""

    class Meta:
        model = PausedWorkflow
        fields = ("workspace", "workflow")

    workflow = forms.ChoiceField(label=_("Workflow"))

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        if isinstance(workflow := self.fields.get("workflow"), forms.ChoiceField):
            names = sorted({one.name for one in registry.list_definitions()})
            workflow.choices = [(name, name) for name in names]
