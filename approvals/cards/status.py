"""How a review stands, in one word for programs and one sentence for people.

Lives here: the words. Must not live here: what may be done about it (`actions`). Invariant owned: tag, card, list and
the requester's page say the same about the same review, because they ask here.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal

from django.utils.translation import gettext, ngettext

from approvals.cards.edit_summary import find_edit
from approvals.display.times import show_since, show_when
from approvals.display.values import MAX_NAME, show_text
from approvals.models import Review
from approvals.people.person import Person
from approvals.people.principals import PERMISSION, name_user
from approvals.reviews.answer import find_answerer
from approvals.reviews.case import MAX_NAMED, Case
from approvals.reviews.electorate import are_all_gone, count_votes, is_stranded, may_be_stranded
from approvals.rules import KnownOutcome, Outcome, VoteTally, count_fixed
from approvals.rules.outcomes import WITHDRAWN
from workflows.lifecycle import InteractionStatus
from workflows.wording.punctuation import join_clauses, join_list

Status = Literal["open", "grace", "decided", "closed"]


@dataclass(frozen=True, slots=True)
class Progress:
    """How far the votes are: of everybody, or of one group of the rule."""

    #: The group; empty where everybody counts alike.
    label: str
    #: Votes for the answer that has most of them.
    votes: int
    needed: int
    outcome: str
    #: "2 of 3 approved"
    text: str


def describe_status(review: Review, user: Person | None = None, *, case: Case | None = None) -> str:
    """How it stands, as a sentence to this person.

    >>> describe_status(review, ben)
    'Waiting for Finance since Tuesday, 2 of 3 approved'
    """
    case = case or Case(review)
    match find_status(case):
        case "open":
            return _tell_open(case, user)
        case "grace":
            return _tell_grace(case, user)
        case "decided":
            return _tell_decided(case, user)
    return _tell_closed(case, user)


def find_status(case: Case) -> Status:
    """How it stands, in a word.

    >>> find_status(Case(review))
    'open'
    """
    review = case.review
    if review.open:
        if review.effective_at is not None:
            return "grace"
        return "closed" if is_late(case) else "open"
    return "decided" if review.outcome and review.outcome not in WITHDRAWN else "closed"


def is_late(case: Case) -> bool:
    """Whether the wait is over, though the sweep has not come by yet."""
    deadline = case.review.interaction.deadline
    return deadline is not None and deadline <= case.now


def find_closed_at(case: Case) -> datetime | None:
    """When it was over."""
    interaction = case.review.interaction
    found: datetime | None = case.review.decided_at or interaction.closed_at or interaction.deadline
    return found


def measure_progress(case: Case) -> tuple[Progress, ...]:
    """How many votes there are of those that it takes, for everybody or group by group.

    >>> measure_progress(Case(review))[0].text
    '2 of 3 approved'
    """
    names = [outcome.name for outcome in case.outcomes]
    fixed = count_fixed(case.quorum, [vote.outcome for vote in case.votes], names)
    tallies = count_votes(case, case.votes).tallies if fixed is None else (fixed,)
    return tuple(_tell_tally(case, tally) for tally in tallies)


def name_voters(case: Case) -> str:
    """Those whose votes a single count is made of, in the order in which they voted; nothing where votes differ.

    >>> name_voters(Case(review))
    'Ana Ruiz, Tom Becker'
    """
    if len({vote.outcome for vote in case.votes}) != 1 or len(case.votes) > MAX_NAMED:
        return ""
    return join_list(show_text(case.name(vote.user_id), MAX_NAME) for vote in case.votes)


def tell_outcome(case: Case, name: str) -> str:
    """An outcome as votes for it are called: "approved"; any other by its label in quotes.

    >>> tell_outcome(case, "approve"), tell_outcome(case, "send_back")
    ('approved', '“Send back”')
    """
    known = find_known(case, name)
    return str(known.votes) if known else quote_outcome(case, name)


def tell_decision(case: Case, name: str) -> str:
    """The same of a request that it has decided: a vote is not called so in every language.

    >>> tell_decision(case, "approve"), tell_decision(case, "send_back")
    ('approved', '“Send back”')
    """
    known = find_known(case, name)
    return str(known.request) if known and known.request else tell_outcome(case, name)


def quote_outcome(case: Case, name: str) -> str:
    """An outcome by its label, in quotes.

    >>> quote_outcome(case, "approve")
    '“Approve”'
    """
    return gettext("“%(label)s”") % {"label": show_text(_find_outcome(case, name).label, MAX_NAME)}


def find_known(case: Case, name: str) -> KnownOutcome | None:
    """The words of a well-known outcome; None where its author wrote a label: no word of ours would do.

    >>> find_known(case, "approve").is_refusal
    False
    """
    return _find_outcome(case, name).known


def is_user(user: Person | None, key: Any) -> bool:
    """Whether this person is the one with that key."""
    return user is not None and key is not None and getattr(user, "pk", None) == key


def _find_outcome(case: Case, name: str) -> Outcome:
    return next((one for one in case.outcomes if one.name == name), None) or Outcome(name)


def _tell_tally(case: Case, tally: VoteTally) -> Progress:
    leading, votes = tally.leading, tally.most
    group = show_text(tally.group, MAX_NAME)
    given = {"votes": votes, "needed": tally.needed, "group": group, "outcome": tell_outcome(case, leading)}
    if tally.group:
        text = gettext("%(group)s: %(votes)d of %(needed)d %(outcome)s") % given
    else:
        text = gettext("%(votes)d of %(needed)d %(outcome)s") % given
    for name, count in tally.counts.items():
        if name != leading and count:
            other = {"votes": count, "outcome": tell_outcome(case, name)}
            text += gettext(", %(votes)d %(outcome)s") % other
    return Progress(group, votes, tally.needed, leading, text)


def _tell_open(case: Case, user: Person | None) -> str:
    review = case.review
    if may_be_stranded(case) and is_stranded(case):
        return _tell_stranded(case)
    since = show_since(review.created_at, case.now)
    principals = [one.principal for one in case.candidates]
    if user is not None and getattr(user, "pk", None) is not None and principals == [name_user(user)]:
        told = gettext("Waiting for you %(since)s") % {"since": since}
    elif principals and not all(one.startswith(f"{PERMISSION}:") for one in principals):
        told = gettext("Waiting for %(who)s %(since)s") % {"who": show_text(case.who), "since": since}
    else:
        told = gettext("Waiting for a decision %(since)s") % {"since": since}
    progress = measure_progress(case)
    if case.votes or any(one.needed > 1 for one in progress):
        votes = join_clauses(one.text for one in progress)
        told = gettext("%(told)s, %(progress)s") % {"told": told, "progress": votes}
    if (edit := find_edit(case)) is not None:
        given = {"told": told, "who": edit.by}
        told = (
            gettext("%(told)s, changed by %(who)s") if edit.is_change else gettext("%(told)s, filled in by %(who)s")
        ) % given
    return told


def _tell_stranded(case: Case) -> str:
    """Why, and what to do."""
    if are_all_gone(case):
        return gettext("Nobody can decide this any more, because those asked have left: reassign it, or withdraw it")
    return gettext(
        "Nobody can decide this any more, because too few of those asked are left who may: reassign it, or withdraw it"
    )


def _tell_grace(case: Case, user: Person | None) -> str:
    review = case.review
    until = review.effective_at
    assert until is not None
    seconds = max(1, round((until - case.now).total_seconds()))
    given = {
        "by": show_text(case.name(review.decided_by_id), MAX_NAME),
        "outcome": quote_outcome(case, review.outcome),
        "seconds": seconds,
    }
    if find_answerer(review, case.votes) is None:
        return (
            ngettext(
                "Those asked did not agree: it becomes %(outcome)s in one second unless that is undone",
                "Those asked did not agree: it becomes %(outcome)s in %(seconds)d seconds unless that is undone",
                seconds,
            )
            % given
        )
    if until <= case.now:
        return gettext("%(by)s answered %(outcome)s; it takes effect now") % given
    if is_user(user, review.decided_by_id):
        return (
            ngettext(
                "You answered %(outcome)s; you can undo it for one more second",
                "You answered %(outcome)s; you can undo it for %(seconds)d more seconds",
                seconds,
            )
            % given
        )
    return (
        ngettext(
            "%(by)s answered %(outcome)s; it takes effect in one second unless it is undone",
            "%(by)s answered %(outcome)s; it takes effect in %(seconds)d seconds unless it is undone",
            seconds,
        )
        % given
    )


def _tell_decided(case: Case, user: Person | None) -> str:
    review = case.review
    at = find_closed_at(case)
    given = {
        "by": show_text(case.decided.by, MAX_NAME),
        "outcome": quote_outcome(case, review.outcome),
        "when": show_when(at, case.now) if at else "",
    }
    if case.decided.is_divided:
        return gettext("Answered %(outcome)s %(when)s, because those asked did not agree") % given
    if find_answerer(review, case.votes) is None:
        return gettext("Answered %(outcome)s automatically %(when)s") % given
    known = find_known(case, review.outcome)
    if is_user(user, review.decided_by_id):
        return str((known and known.by_reader) or gettext("You answered %(outcome)s %(when)s")) % given
    return str((known and known.by_other) or gettext("%(by)s answered %(outcome)s %(when)s")) % given


def _tell_closed(case: Case, user: Person | None) -> str:
    review, interaction = case.review, case.review.interaction
    at = find_closed_at(case)
    given = {
        "by": show_text(case.name(review.decided_by_id), MAX_NAME),
        "when": show_when(at, case.now) if at else "",
    }
    if review.outcome in WITHDRAWN:
        if is_user(user, review.decided_by_id):
            return gettext("You withdrew this %(when)s") % given
        return gettext("%(by)s withdrew this %(when)s") % given
    if review.open or interaction.status is InteractionStatus.EXPIRED:
        return gettext("The time to decide ended %(when)s without a decision") % given
    return gettext("Cancelled %(when)s, before it was decided") % given
