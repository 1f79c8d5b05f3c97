"""Several things in a row, a thing with its name, and a sentence's end: in the punctuation of the language.

Lives here: how words are put together where no sentence of their own can be written. Must not live here: what is said,
and anything that programs read back. Invariant owned: a comma, a colon and a full stop that people read come from the
catalogue, because not every language has ours; and what is joined is never taken for a format.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString
from django.utils.translation import gettext, pgettext


def join_list(items: Iterable[object]) -> str:
    """Short things in a row.

    >>> join_list(["Ann", "Ben", "Cleo"])
    'Ann, Ben, Cleo'
    """
    return _find_comma().join(map(str, items))


def join_html(items: Iterable[object]) -> SafeString:
    """The same of what is markup already; anything else is escaped.

    >>> join_html([show_text("Ann"), show_text("Ben")])
    '<bdi>Ann</bdi>, <bdi>Ben</bdi>'
    """
    return format_html_join(_find_comma(), "{}", ((one,) for one in items))


def join_clauses(items: Iterable[object]) -> str:
    """Longer things in a row, which may have commas of their own.

    >>> join_clauses(["Finance: 1 of 2 approved, 1 rejected", "Legal: 0 of 1 approved"])
    'Finance: 1 of 2 approved, 1 rejected; Legal: 0 of 1 approved'
    """
    return _find_between(pgettext("two parts of a sentence that has more of them", "%(before)s; %(after)s")).join(
        map(str, items)
    )


def join_and(items: Sequence[object]) -> str:
    """All of them, in a sentence.

    >>> join_and(["Ann", "Ben", "Cleo"])
    'Ann, Ben and Cleo'
    """
    if len(items) < 2:
        return join_list(items)
    return gettext("%(first)s and %(last)s") % {"first": join_list(items[:-1]), "last": items[-1]}


def join_or(items: Sequence[object]) -> str:
    """Any of them, in a sentence.

    >>> join_or(["Ann", "Ben", "Cleo"])
    'Ann, Ben or Cleo'
    """
    if len(items) < 2:
        return join_list(items)
    return gettext("%(first)s or %(last)s") % {"first": join_list(items[:-1]), "last": items[-1]}


def join_label(name: object, value: object) -> str:
    """A thing after its name.

    >>> join_label("Amount", "€1,240.00")
    'Amount: €1,240.00'
    """
    return pgettext("a thing after its name", "%(name)s: %(value)s") % {"name": name, "value": value}


def label_html(name: object, value: object) -> SafeString:
    """The same of what is markup already; anything else is escaped.

    >>> label_html(link_review(review, "admin"), "It is sent again.")
    '<a href="/admin/holdpoint_approvals/review/…/change/">Refund</a>: It is sent again.'
    """
    form = pgettext("a thing after its name", "%(name)s: %(value)s") % {"name": "{name}", "value": "{value}"}
    return format_html(form, name=name, value=value)


def end_sentence(words: object) -> str:
    """Words that are a sentence, with its end.

    >>> end_sentence("Waiting for Finance since Tuesday")
    'Waiting for Finance since Tuesday.'
    """
    return pgettext("a sentence and its end", "%(words)s.") % {"words": words} if words else ""


def _find_comma() -> str:
    return _find_between(pgettext("two things of a list", "%(before)s, %(after)s"))


def _find_between(form: str) -> str:
    """What stands between two things: a message of its own could not begin or end with a blank."""
    return form % {"before": "", "after": ""}
