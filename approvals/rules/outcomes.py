"""What can be answered: the outcomes of an approval, as values.

Invariant owned: outcomes that were read have different names that can stand in code, an address and a form,
and there is at least one. Their order is a promise: the last one is the answer when none can win any more.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Literal, get_args

from django.utils.functional import Promise
from django.utils.translation import gettext_lazy as _
from django.utils.translation import pgettext_lazy

from approvals.exceptions import InvalidApproval, UnknownOutcome

Tone = Literal["neutral", "positive", "negative", "warning"]
TONES: tuple[str, ...] = get_args(Tone)

#: Reasons are chosen with the keys 1 to 9.
MAX_PRESETS = 9
MAX_NAME = 64

#: Outcomes by which a request was taken back, not answered.
WITHDRAWN = ("withdraw", "withdrawn")


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownOutcome:
    """The meaning of a well-known name, and the words for it; an author's own label replaces them all.

    The words are translated when they are shown: "approved" is not the same word in every language for a vote, a
    request and a person.
    """

    label: Any = ""
    tone: Tone = "neutral"
    #: Whether nothing happens by this answer, whatever its tone.
    is_refusal: bool = False
    #: Votes: "2 of 3 approved".
    votes: Any
    #: A request that was decided: "approved".
    request: Any = None
    #: A person: "Ana Ruiz approved".
    person: Any
    #: Sentences on the decision of the reader, and of somebody else.
    by_reader: Any = ""
    by_other: Any = ""


_WITHDRAWN = KnownOutcome(votes=_("withdrawn"), person=_("withdrew it"))
_KNOWN = {
    "approve": KnownOutcome(
        label=_("Approve"),
        tone="positive",
        votes=_("approved"),
        request=pgettext_lazy("a decision", "approved"),
        person=pgettext_lazy("what somebody did", "approved"),
        by_reader=_("You approved this %(when)s"),
        by_other=_("%(by)s approved this %(when)s"),
    ),
    "edit_and_approve": KnownOutcome(
        label=_("Edit and approve"),
        tone="positive",
        votes=_("edited and approved"),
        request=pgettext_lazy("a decision", "edited and approved"),
        person=pgettext_lazy("what somebody did", "edited and approved"),
    ),
    "request_changes": KnownOutcome(
        label=_("Request changes"),
        tone="warning",
        is_refusal=True,
        votes=_("changes requested"),
        request=pgettext_lazy("a decision", "changes requested"),
        person=_("asked for changes"),
    ),
    "reject": KnownOutcome(
        label=_("Reject"),
        tone="negative",
        is_refusal=True,
        votes=_("rejected"),
        request=pgettext_lazy("a decision", "rejected"),
        person=pgettext_lazy("what somebody did", "rejected"),
        by_reader=_("You rejected this %(when)s"),
        by_other=_("%(by)s rejected this %(when)s"),
    ),
    **dict.fromkeys(WITHDRAWN, _WITHDRAWN),
}


@dataclass(frozen=True, slots=True, init=False)
class Outcome:
    """One possible answer: its name, and how it is shown and asked for.

    What is left out follows the name: `approve` and `edit_and_approve` are positive, `reject` is negative and
    `request_changes` a warning; any other name is neutral. A reason is asked for where the author says so.
    `presets` are up to nine ready reasons.

    >>> Outcome("reject").tone, Outcome("reject").requires_reason
    ('negative', False)
    >>> Outcome("send_back", requires_reason=True, presets=("No receipt", "Wrong cost centre")).label
    'Send back'
    """

    name: str
    #: The label that the author wrote; empty when it follows the name.
    written: str
    tone: Tone
    requires_reason: bool
    presets: tuple[str, ...]

    def __init__(
        self,
        name: str,
        label: str | Promise = "",
        tone: Tone | None = None,
        requires_reason: bool | None = None,
        presets: Iterable[str | Promise] = (),
    ) -> None:
        if not _is_name(name):
            raise InvalidApproval(
                "outcomes", name, f"the name of an outcome is a word such as 'send_back' (a-z, 0-9, _; ≤ {MAX_NAME})"
            )
        if not isinstance(label, str | Promise):
            raise InvalidApproval("label", label, f"the label of outcome {name!r} is the text on its button")
        if tone is not None and tone not in TONES:
            raise InvalidApproval("tone", tone, f"the tone of outcome {name!r} is one of {', '.join(TONES)}")
        if requires_reason not in (None, True, False):
            raise InvalidApproval("requires_reason", requires_reason, f"outcome {name!r} takes True or False")
        known = _KNOWN.get(name)
        for field, value in {
            "name": name,
            "written": str(label).strip(),
            "tone": tone or (known.tone if known else "neutral"),
            "requires_reason": bool(requires_reason),
            "presets": _read_presets(name, presets),
        }.items():
            object.__setattr__(self, field, value)

    @property
    def label(self) -> str:
        """What stands on the button; that of a well-known name speaks the reader's language."""
        if self.written:
            return self.written
        known = _KNOWN.get(self.name)
        return str(known.label) if known and known.label else self.name.replace("_", " ").strip().capitalize()

    @property
    def known(self) -> KnownOutcome | None:
        """The words of a well-known name; None where the author wrote a label, or chose another name.

        >>> str(Outcome("approve").known.votes), Outcome("approve", "Pay").known
        ('approved', None)
        """
        return None if self.written else _KNOWN.get(self.name)

    @property
    def is_refusal(self) -> bool:
        """Whether the name alone says that nothing happens, however the author labels it.

        >>> Outcome("reject", "Turn down").is_refusal, Outcome("approve").is_refusal
        (True, False)
        """
        return self.name in _KNOWN and _KNOWN[self.name].is_refusal


def _is_name(given: object) -> bool:
    return isinstance(given, str) and given.isascii() and given.isidentifier() and len(given) <= MAX_NAME


def _read_presets(name: str, given: Any) -> tuple[str, ...]:
    what = f"the presets of outcome {name!r} are a list of up to {MAX_PRESETS} reasons, such as ('No receipt',)"
    if isinstance(given, str) or not isinstance(given, Iterable):
        raise InvalidApproval("presets", given, what)
    presets = tuple(given)
    if len(presets) > MAX_PRESETS or not all(isinstance(one, str | Promise) and str(one).strip() for one in presets):
        raise InvalidApproval("presets", presets, what)
    return tuple(str(one).strip() for one in presets)


def read_outcomes(given: Iterable[str | Outcome]) -> tuple[Outcome, ...]:
    """The outcomes of an approval, as an author writes them: names, or `Outcome` values.

    >>> [outcome.label for outcome in read_outcomes(("approve", "send_back", Outcome("reject", "Turn down")))]
    ['Approve', 'Send back', 'Turn down']
    """
    if isinstance(given, str | Outcome) or not isinstance(given, Iterable):
        raise InvalidApproval("outcomes", given, 'write a list, such as ("approve", "reject")')
    outcomes = tuple(one if isinstance(one, Outcome) else Outcome(one) for one in given)
    if not outcomes:
        raise InvalidApproval("outcomes", outcomes, "there must be at least one")
    names = [outcome.name for outcome in outcomes]
    if twice := sorted({name for name in names if names.count(name) > 1}):
        raise InvalidApproval("outcomes", names, f"{', '.join(twice)} may stand there once only")
    return outcomes


def find_outcome(outcomes: Sequence[Outcome], name: object) -> Outcome:
    """The outcome of that name; `UnknownOutcome` lists those there are.

    >>> find_outcome(read_outcomes(("approve", "reject")), "reject").tone
    'negative'
    """
    for outcome in outcomes:
        if outcome.name == name:
            return outcome
    raise UnknownOutcome(name, [outcome.name for outcome in outcomes])


def dump_outcomes(outcomes: Sequence[Outcome]) -> list[dict[str, Any]]:
    """Outcomes as plain JSON, to be frozen with a request. A label that follows the name stays empty, so that it
    is still translated when it is shown.

    >>> dump_outcomes(read_outcomes(["approve"]))
    [{'name': 'approve', 'label': '', 'tone': 'positive', 'requires_reason': False, 'presets': []}]
    """
    return [
        {
            "name": outcome.name,
            "label": outcome.written,
            "tone": outcome.tone,
            "requires_reason": outcome.requires_reason,
            "presets": list(outcome.presets),
        }
        for outcome in outcomes
    ]


def load_outcomes(stored: Iterable[dict[str, Any]]) -> tuple[Outcome, ...]:
    """Outcomes as they were frozen.

    >>> load_outcomes(dump_outcomes(read_outcomes(["approve", "reject"]))) == read_outcomes(["approve", "reject"])
    True
    """
    return read_outcomes(Outcome(**one) for one in stored)
