"""What is wrong with a value: English to programs, and the reader's language to people.

Lives here: a text that remembers how it was made. Must not live here: what is wrong. Invariant owned: whatever handles
a reason as the text that it is, such as an API's answer or the ledger, gets the same English in every language.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Self

from django.utils.text import capfirst
from django.utils.translation import gettext, ngettext

from workflows.wording.punctuation import end_sentence, join_clauses, join_label, join_list, join_or

#: What a sentence ends with, in our languages.
_ENDS = (".", "!", "?", "…", "。", "！", "？")  # noqa: RUF001 - Japanese and Chinese have these
#: More places than anybody reads in one sentence.
_MOST_PLACES = 20


def gettext_noop(message: str) -> str:
    """Mark a text to be translated later: as Django's, which is no good here, for it asks for the settings.

    >>> gettext_noop("is required")
    'is required'
    """
    return message


def ngettext_lazy(one: str, many: str) -> tuple[str, str]:
    """The same for a text that counts: called as Django's, because `makemessages` knows two texts by that name only.

    >>> ngettext_lazy("must have at least %(limit)s item", "must have at least %(limit)s items")
    ('must have at least %(limit)s item', 'must have at least %(limit)s items')
    """
    return one, many


class Reason(str):
    """A reason of ours. `form` is marked with `gettext_noop`; what stands in it is by name.

    >>> Reason(gettext_noop("must be at least %(limit)s"), {"limit": "5"})
    'must be at least 5'

    One that counts has two forms, marked with `ngettext_lazy`, and says how many.

    >>> Reason(ngettext_lazy("only %(n)s is asked", "only %(n)s are asked"), {"n": 1}, number=1)
    'only 1 is asked'
    """

    form: str | tuple[str, str]
    values: Mapping[str, Any]
    number: int

    def __new__(cls, form: str | tuple[str, str], values: Mapping[str, Any] | None = None, number: int = 1) -> Self:
        text = form if isinstance(form, str) else form[number != 1]
        made = super().__new__(cls, text % values if values else text)
        made.form, made.values, made.number = form, values or {}, number
        return made

    def __getnewargs__(self) -> tuple[Any, ...]:
        return self.form, self.values, self.number

    def tell(self) -> str:
        """The same in the language that is spoken now."""
        told = gettext(self.form) if isinstance(self.form, str) else ngettext(*self.form, self.number)
        return told % {name: tell_reason(value) for name, value in self.values.items()} if self.values else told


class Either(str):
    """Several of them, any of which would do.

    >>> Either(["text", "a number", "null"])
    'text, a number or null'
    """

    choices: tuple[str, ...]

    def __new__(cls, choices: Iterable[str]) -> Self:
        kept = tuple(choices)
        *first, last = kept or ("",)
        made = super().__new__(cls, f"{', '.join(first)} or {last}" if first else last)
        made.choices = kept
        return made

    def __getnewargs__(self) -> tuple[Any, ...]:
        return (self.choices,)

    def tell(self) -> str:
        """The same in the language that is spoken now."""
        return join_or([tell_reason(one) for one in self.choices])


class Listed(str):
    """Several of them, all of which are meant.

    >>> Listed(["finance", "legal"])
    'finance, legal'
    """

    items: tuple[str, ...]

    def __new__(cls, items: Iterable[str]) -> Self:
        kept = tuple(items)
        made = super().__new__(cls, ", ".join(kept))
        made.items = kept
        return made

    def __getnewargs__(self) -> tuple[Any, ...]:
        return (self.items,)

    def tell(self) -> str:
        """The same in the language that is spoken now."""
        return join_list(tell_reason(one) for one in self.items)


class Placed(str):
    """Reasons with the places that they are about; "" is all of it. `names` says what people call a place.

    >>> Placed({"amount": ["is required"], "": ["there is no such row"]})
    'amount: is required; there is no such row'
    """

    reasons: Mapping[str, Iterable[str]]
    names: Mapping[str, Any]

    def __new__(cls, reasons: Mapping[str, Iterable[str]], names: Mapping[str, Any] | None = None) -> Self:
        kept = {place: tuple(told) for place, told in reasons.items()}
        told = [f"{place}: {', '.join(why)}" if place else ", ".join(why) for place, why in kept.items()]
        more = [f"and {len(told) - _MOST_PLACES} more"] if len(told) > _MOST_PLACES else []
        made = super().__new__(cls, "; ".join([*told[:_MOST_PLACES], *more]))
        made.reasons, made.names = kept, names or {}
        return made

    def __getnewargs__(self) -> tuple[Any, ...]:
        return self.reasons, self.names

    def tell(self) -> str:
        """The same in the language that is spoken now, and short."""
        told = []
        for place, why in list(self.reasons.items())[:_MOST_PLACES]:
            words = join_list(tell_reason(one) for one in why)
            told.append(join_label(self.names.get(place, place), words) if place else words)
        return join_clauses([*told, "…"] if len(self.reasons) > _MOST_PLACES else told)


def tell_reason(reason: str) -> str:
    """A reason within a sentence; what is none of ours, as it is.

    >>> tell_reason(Reason(gettext_noop("is required")))
    'es obligatorio'
    """
    return reason.tell() if isinstance(reason, Reason | Either | Listed | Placed) else reason


def make_sentence(reason: str) -> str:
    """A reason as it stands alone below its field.

    >>> make_sentence(Reason(gettext_noop("must not be empty")))
    'Must not be empty.'
    """
    if isinstance(reason, Reason | Either | Listed | Placed):
        told = capfirst(reason.tell())
        # What somebody else wrote, such as a model's own validation, may stand in it with its own end.
        return told if told.endswith(_ENDS) else end_sentence(told)
    if not reason or not reason[0].islower():
        return reason
    return reason[0].upper() + reason[1:] + ("" if reason[-1] in ".!?" else ".")
