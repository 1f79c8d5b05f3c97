"""The form of a decision: the fields of the schema, a reason, and one button for each outcome.

    shown = DecisionForm(card).show()                              # for approvals/parts/form.html and bar.html
    filled = FrozenForm.from_review(review).read(request.POST)     # what came back
    decide(review, filled.outcome, reason=filled.reason, data=filled.data, version=filled.version, …)
    shown = DecisionForm(card).show(filled, reason_error=…)        # the same page again, with all that was typed

Lives here: between what was posted and what `decide` takes. Must not live here: whether it may be. Invariants owned:
nothing typed is lost on the way round; a form that was left alone sends no data with the outcome that says no, and what
is on the table with any other; a secret that somebody has filled in is not on the page of the next.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from django.http import QueryDict
from django.utils.translation import gettext

from approvals.cards.card import Card, OutcomeChoice, list_choices
from approvals.display.values import show_text
from approvals.forms.secret_fields import keep_untouched, leave_out_secrets, open_secrets
from approvals.models import Review
from approvals.rules import load_outcomes
from approvals.subjects.diff_parts import ABSENT
from workflows.exceptions import InvalidData
from workflows.forms.form import SchemaForm, ShownForm
from workflows.forms.form_reader import FormReading
from workflows.pages.posted_form import read_number
from workflows.schemas.schema import Schema, load_schema
from workflows.values.json_text import MISSING
from workflows.wording.punctuation import join_list

#: Characters of what is read of a field that holds one of our own words.
_MAX_WORD = 200


@dataclass(frozen=True, slots=True)
class Preset:
    """A ready reason to choose."""

    id: str
    value: str
    text: str
    chosen: bool
    #: What a button says that decides with this reason at once.
    outcome: str


@dataclass(frozen=True, slots=True)
class Presets:
    """The ready reasons of one outcome."""

    name: str
    id: str
    #: "Reject because"
    legend: str
    options: tuple[Preset, ...]
    #: Whether none is chosen.
    none_chosen: bool
    #: What was typed beside them, in the menu of the outcome's button.
    reason: str


@dataclass(frozen=True, slots=True)
class ShownDecision:
    """The form as its templates show it."""

    #: Begins every id, so that several forms can be on one page; and the names of the fields.
    prefix: str
    card: Card
    #: None: nothing is to be filled in.
    fields: ShownForm | None
    #: Of the outcomes that have ready reasons.
    presets: tuple[Presets, ...]
    #: Of the outcomes whose buttons open a menu: ready reasons, and room for another one.
    menus: Mapping[str, Presets]
    reason: str
    reason_hint: str
    reason_error: str
    password_error: str
    #: Whether the password is asked for.
    asks_password: bool
    #: Whether there is anything to type: who may not decide sees why at the buttons, but what was typed stays.
    is_shown: bool

    @property
    def count(self) -> int:
        """How many things are wrong in the fields."""
        return 0 if self.fields is None else len(self.fields.problems) + len(self.fields.errors)

    @property
    def focus(self) -> str:
        """What comes first of what is wrong beside the fields; the fields' own summary comes before."""
        if self.count:
            return ""
        return "reason" if self.reason_error else "password" if self.password_error else ""


@dataclass(slots=True)
class Filled:
    """What was posted, as `decide` takes it; and as it was typed."""

    outcome: str
    #: The ready reason that was chosen, and what was typed below it.
    reason: str
    #: What the fields hold; None where nothing was to be filled in, or nothing was.
    data: Any
    #: The version and the digest that were on the page.
    version: int
    seen: str | None
    password: str = field(repr=False)
    typed: dict[str, list[str]]
    #: The reason as it was typed, which ready one was chosen for which outcome, and what was typed in its menu.
    typed_reason: str
    chosen: Mapping[str, str]
    typed_menus: Mapping[str, str] = field(default_factory=dict)
    #: What could not be read, by field; decide nothing while there is any.
    errors: dict[str, list[str]] = field(default_factory=dict)
    reading: FormReading | None = None

    def place_errors(self, found: Mapping[str, list[str]]) -> None:
        """What the schema refused, at the fields."""
        if self.reading is not None:
            self.reading.place_errors(found)
            self.errors = self.reading.errors


class FrozenForm:
    """The form as it was frozen with a request: reads what was posted, without the card around it."""

    def __init__(self, outcomes: tuple[OutcomeChoice, ...], schema: Any, filled: Any, *, prefix: str = "data") -> None:
        self.outcomes, self.schema, self.filled, self.prefix = outcomes, schema, filled, prefix
        self.fields = None if schema is None else SchemaForm(schema, prefix=prefix)
        if self.fields is not None and filled is not MISSING:
            self.fields.tree = open_secrets(self.fields.tree, filled)

    @staticmethod
    def from_review(review: Review, filled: Any = MISSING, *, prefix: str = "data") -> FrozenForm:
        """The form of a request; `filled` is what is on the table, as `Card.filled`.

        >>> FrozenForm.from_review(review).read(request.POST).outcome
        'approve'
        """
        outcomes = list_choices(load_outcomes(review.outcomes), review.risk)
        return FrozenForm(outcomes, review.interaction.schema, filled, prefix=prefix)

    def label(self, outcome: str) -> str:
        """What an answer is called."""
        return next((one.label for one in self.outcomes if one.name == outcome), outcome)

    def begin(self) -> dict[str, list[str]]:
        """What stands in the fields at first: what is on the table but its secrets, or the form's defaults."""
        return self._begin(self.filled)

    def take_over(self, filled: Filled, shown: Any) -> Filled:
        """What was typed, with what others have filled in since: where a field was left as it was shown (`shown` is
        what was on the table then), what is there now stands in it."""
        if self.fields is None:
            return filled
        old, new = self._begin(MISSING if shown is ABSENT or shown is None else shown), self.begin()
        typed = {
            name: new[name] if texts == old.get(name) and name in new else texts for name, texts in filled.typed.items()
        }
        return replace(filled, typed=typed)

    def read(self, posted: QueryDict) -> Filled:
        """What came back."""
        # A button of a menu decides with a ready reason: "reject:1".
        outcome, _, ready = posted.get("outcome", "")[:_MAX_WORD].partition(":")
        chosen = {one.name: posted.get(f"preset-{one.name}", "") for one in self.outcomes}
        if ready:
            chosen[outcome] = ready
        typed_menus = {one.name: posted.get(f"reason-{one.name}", "") for one in self.outcomes}
        typed_reason = posted.get("reason", "")
        filled = Filled(
            outcome=outcome,
            reason=self._join_reason(outcome, chosen, (typed_menus.get(outcome, ""), typed_reason)),
            data=None,
            version=read_number(posted.get("version", "")),
            seen=posted.get("seen", "")[:_MAX_WORD] or None,
            password=posted.get("password", ""),
            typed={},
            typed_reason=typed_reason,
            chosen=chosen,
            typed_menus=typed_menus,
        )
        if self.fields is not None:
            self._read_fields(filled, self.fields, posted)
        return filled

    def press(self, posted: QueryDict) -> tuple[Filled, str] | None:
        """What a button of a list does, and the field to go on with; None if none was pressed."""
        pressed = None if self.fields is None else self.fields.press(posted)
        if pressed is None:
            return None
        filled = self.read(posted)
        filled.typed, filled.errors = pressed.typed, pressed.errors
        return filled, pressed.focus

    def _read_fields(self, filled: Filled, fields: SchemaForm, posted: QueryDict) -> None:
        filled.typed = fields.pick(posted)
        schema = load_schema(self.schema, None)
        reading = fields.read(filled.typed, schema=schema)
        if self._says_no(filled.outcome) and (filled.typed == self.begin() or not _is_whole(reading, schema)):
            return  # saying no must never be harder than it is
        filled.reading, filled.errors = reading, reading.errors
        filled.data = None if reading.errors else self._join_held(fields, reading.value)

    def _begin(self, data: Any) -> dict[str, list[str]]:
        if self.fields is None:
            return {}
        return self.fields.begin(data if data is MISSING else leave_out_secrets(self.fields.tree, data))

    def _join_held(self, fields: SchemaForm, value: Any) -> Any:
        """What was sent, with what is on the table where it was left as it stood."""
        held = self.filled
        if held is not MISSING:
            shown = fields.read(self.begin()).value
            shown, value = (ABSENT if side is MISSING else side for side in (shown, value))
            value = keep_untouched(held, shown, value)
        return None if value is MISSING or value is ABSENT else value

    def _says_no(self, outcome: str) -> bool:
        """Whether this is the answer that does without data: the last one, unless it says yes in its own way."""
        last = self.outcomes[-1]
        return len(self.outcomes) > 1 and outcome == last.name and last.tone != "positive"

    def _join_reason(self, outcome: str, chosen: Mapping[str, str], typed: Iterable[str]) -> str:
        presets = next((one.presets for one in self.outcomes if one.name == outcome), ())
        number = chosen.get(outcome, "")
        ready = presets[int(number)] if number in map(str, range(len(presets))) else ""
        return "\n".join(part for part in (ready, *(one.strip() for one in typed)) if part)


class DecisionForm(FrozenForm):
    """The form on one card: shows it, too."""

    def __init__(self, card: Card, *, prefix: str = "data", asks_password: bool = False) -> None:
        super().__init__(card.outcomes, card.schema, card.filled, prefix=prefix)
        self.card, self.asks_password = card, asks_password

    def show(
        self, filled: Filled | None = None, *, focus: str = "", reason_error: str = "", password_error: str = ""
    ) -> ShownDecision:
        """The form at first, or with what was typed and what is wrong with it."""
        shown = None
        if self.fields is not None:
            typed = self.begin() if filled is None else filled.typed
            shown = self.fields.show(typed, filled.errors if filled else None, focus=focus)
        menus = {one.name: self._show_presets(one, filled) for one in self.outcomes}
        return ShownDecision(
            prefix=self.prefix,
            card=self.card,
            fields=shown,
            presets=tuple(menus[one.name] for one in self.outcomes if one.presets),
            menus={one.name: menus[one.name] for one in self.outcomes if self._has_menu(one)},
            reason=filled.typed_reason if filled else "",
            reason_hint=self._tell_when_needed(),
            reason_error=reason_error,
            password_error=password_error,
            asks_password=self.asks_password,
            is_shown=self.card.may_decide or filled is not None,
        )

    def _has_menu(self, outcome: OutcomeChoice) -> bool:
        """Whether its button asks why. What is of high risk is answered in the form, where there is more room."""
        return self.card.risk != "high" and (bool(outcome.presets) or outcome.requires_reason)

    def _show_presets(self, outcome: OutcomeChoice, filled: Filled | None) -> Presets:
        name, id = f"preset-{outcome.name}", f"{self.prefix}-preset-{outcome.name}"
        chosen = filled.chosen.get(outcome.name, "") if filled else ""
        options = tuple(
            Preset(f"{id}-{number}", str(number), text, chosen == str(number), f"{outcome.name}:{number}")
            for number, text in enumerate(outcome.presets)
        )
        legend = gettext("%(outcome)s because") % {"outcome": outcome.label}
        reason = filled.typed_menus.get(outcome.name, "") if filled else ""
        return Presets(name, id, legend, options, not any(one.chosen for one in options), reason)

    def _tell_when_needed(self) -> str:
        needing = [one.label for one in self.outcomes if one.requires_reason]
        if not needing:
            return gettext("Optional. Whoever may see this request reads it.")
        if len(needing) == len(self.outcomes):
            return gettext("Needed for every answer. Whoever may see this request reads it.")
        quoted = join_list(gettext("“%(label)s”") % {"label": show_text(label)} for label in needing)
        return gettext("Needed for %(outcomes)s. Whoever may see this request reads it.") % {"outcomes": quoted}


def _is_whole(reading: FormReading, schema: Schema | None) -> bool:
    """Whether what was typed is all that is asked for."""
    if reading.errors or reading.value is MISSING:
        return False
    try:
        if schema is not None:
            schema.check(reading.value)
    except InvalidData:
        return False
    return True
