"""What each mail says about itself: its subject, and the sentence that leads to the request.

Invariants owned: a subject is one line, and shows what hides; it says first what is wanted of its reader.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from django.utils.translation import gettext

from approvals.cards.card import Card
from approvals.display.times import name_zone, show_when
from approvals.display.values import MAX_NAME, show_text

#: Characters of a subject; programs show fewer.
MAX_SUBJECT = 140


@dataclass(frozen=True, slots=True)
class Words:
    """The beginning of a mail."""

    subject: str
    #: After the greeting, up to the sentence that says what will happen.
    lead: str
    #: What somebody wrote, and who.
    said: str = ""
    said_by: str = ""
    #: One more sentence.
    note: str = ""


@dataclass(frozen=True, slots=True)
class Occasion:
    """Why a mail is written, beside the request itself."""

    kind: str
    #: Who caused it, and for whom the reader stands in.
    by: str = ""
    stands_in_for: str = ""
    #: What was said.
    text: str = ""
    #: What was decided: "Approved".
    outcome: str = ""


def choose_words(occasion: Occasion, card: Card) -> Words:
    """The words for an occasion, in the language that is spoken now.

    >>> choose_words(Occasion("new"), card).subject
    'Due today at 16:00: Refund €1,240.00 to Acme GmbH'
    """
    subject, lead = _choose(occasion, card)
    given = {
        "title": card.title,
        "by": occasion.by,
        "outcome": occasion.outcome,
        "when": "" if card.due_at is None else show_when(card.due_at, card.now),
        "moment": tell_due(card.due_at, card.now),
    }
    return Words(
        subject=show_text(subject % given, MAX_SUBJECT),
        lead=lead % given,
        said=occasion.text,
        said_by=occasion.by,
        note=_note(occasion, card),
    )


def choose_subject(count: int, title: str) -> str:
    """The subject of a collected mail.

    >>> choose_subject(3, "Refund €1,240.00 to Acme GmbH")
    '3 requests wait for you: Refund €1,240.00 to Acme GmbH …'
    """
    if count == 1:
        return show_text(gettext("One request waits for you: %(title)s") % {"title": title}, MAX_SUBJECT)
    told = gettext("%(count)d requests wait for you: %(title)s …")
    return show_text(told % {"count": count, "title": show_text(title, MAX_NAME)}, MAX_SUBJECT)


def tell_due(due_at: datetime | None, now: datetime) -> str:
    """When it is due, within a sentence and with the zone: a mail is read anywhere."""
    return "" if due_at is None else f"{show_when(due_at, now)} ({name_zone(due_at)})"


def _choose(occasion: Occasion, card: Card) -> tuple[str, str]:
    is_timed = card.due_at is not None and card.due_at > card.now
    match occasion.kind:
        case "new" if occasion.by:
            return gettext("Handed on to you: %(title)s"), gettext("%(by)s handed this on to you:")
        case "new":
            if is_timed:
                return gettext("Due %(when)s: %(title)s"), gettext("please decide, it is due %(moment)s:")
            return gettext("Please decide: %(title)s"), gettext("please decide:")
        case "reminder":
            if card.due_at is not None and not is_timed:
                return gettext("Overdue: %(title)s"), gettext("this was due %(moment)s and still waits for you:")
            return gettext("Still waits for you: %(title)s"), gettext("this still waits for your decision:")
        case "nudge":
            return gettext("%(by)s asks for your decision: %(title)s"), gettext("%(by)s asks you to look at this:")
        case "escalation":
            return gettext("Now with you: %(title)s"), gettext("nobody has decided this so far, so it comes to you:")
        case "question":
            return gettext("%(by)s asks you: %(title)s"), gettext("%(by)s has a question about your request:")
        case "answer":
            return gettext("%(by)s answered: %(title)s"), gettext("%(by)s answered the question about this:")
        case "reopened":
            return (
                gettext("Not carried out, waits again: %(title)s"),
                gettext("this could not be carried out, so it waits again:"),
            )
        case "stranded":
            return (
                gettext("Nobody can decide this any more: %(title)s"),
                gettext("those asked have left or may not decide this. Ask for somebody else, or withdraw it:"),
            )
        case "edited":
            return (
                gettext("Changed by %(by)s, please decide again: %(title)s"),
                gettext("%(by)s filled in something else, so your answer no longer counts. Please decide again:"),
            )
        case "decided":
            return gettext("%(outcome)s: %(title)s"), gettext("this has been decided:")
    return gettext("No longer waits: %(title)s"), gettext("this no longer waits for a decision:")


def _note(occasion: Occasion, card: Card) -> str:
    if occasion.stands_in_for:
        return gettext("You stand in for %(name)s, who is away.") % {"name": occasion.stands_in_for}
    return ""
