"""What is wrong with a value: English to programs, and the reader's language to people.

Lives here: a text that remembers how it was made. Must not live here: what is wrong. Invariant owned: whatever handles
a reason as the text that it is, such as an API's answer or the ledger, gets the same English in every language.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Self

from django.utils.text import capfirst
from django.utils.translation import gettext

from workflows.joining import end_sentence, join_or


def gettext_noop(message: str) -> str:
    """Mark a text to be translated later: as Django's, which is no good here, for it asks for the settings.

    >>> gettext_noop("is required")
    'is required'
    """
    return message


class Reason(str):
    """A reason of ours. `form` is marked with `gettext_noop`; what stands in it is by name.

    >>> Reason(gettext_noop("must be at least %(limit)s"), {"limit": "5"})
    'must be at least 5'
    """

    form: str
    values: Mapping[str, Any]

    def __new__(cls, form: str, values: Mapping[str, Any] | None = None) -> Self:
        made = super().__new__(cls, form % values if values else form)
        made.form, made.values = form, values or {}
        return made

    def __getnewargs__(self) -> tuple[Any, ...]:
        return self.form, self.values

    def tell(self) -> str:
        """The same in the language that is spoken now."""
        told = gettext(self.form)
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


def tell_reason(reason: str) -> str:
    """A reason within a sentence; what is none of ours, as it is.

    >>> tell_reason(Reason(gettext_noop("is required")))
    'es obligatorio'
    """
    return reason.tell() if isinstance(reason, Reason | Either) else reason


def make_sentence(reason: str) -> str:
    """A reason as it stands alone below its field.

    >>> make_sentence(Reason(gettext_noop("must not be empty")))
    'Must not be empty.'
    """
    if isinstance(reason, Reason | Either):
        return end_sentence(capfirst(reason.tell()))
    if not reason or not reason[0].islower():
        return reason
    return reason[0].upper() + reason[1:] + ("" if reason[-1] in ".!?" else ".")
