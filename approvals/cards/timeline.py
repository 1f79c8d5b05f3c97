"""What happened to a review, in words: votes, what was said, and what was done, the newest first.

Lives here: merging and wording. Must not live here: a query. Invariants owned: one statement, and those that name
people, however long it is; what was taken back stays there; what people wrote is text of theirs and never part of a
sentence of ours.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from django.utils.dateparse import parse_datetime
from django.utils.translation import gettext, ngettext, pgettext

from approvals.cards.case_query import fill
from approvals.cards.edit_summary import list_changes
from approvals.cards.refusal_history import tell_refusal
from approvals.cards.status import find_closed_at, find_known, find_status, quote_outcome
from approvals.deciding.effects import TIME
from approvals.display.times import show_when
from approvals.display.values import MAX_BLOCK, MAX_NAME, show_text
from approvals.models import Comment, Vote
from approvals.people.person import Person
from approvals.people.principals import name_user
from approvals.reviews.case import MAX_ROWS, Case
from approvals.rules.action_kinds import EVENT_KINDS
from approvals.rules.escalation import RungAction, describe_action, name_target
from approvals.rules.outcomes import WITHDRAWN
from approvals.subjects.diff import FieldDiff
from workflows.lifecycle import Event, InteractionStatus
from workflows.models import LedgerEvent
from workflows.wording.punctuation import join_list

MAX_ENTRIES = MAX_ROWS
#: Events beside actions that the votes show.
_SHOWN_AS_VOTES = ("grace", "undo")


@dataclass(frozen=True, slots=True)
class Entry:
    """One thing that happened. `what` follows `who`; where nobody did it, `who` is empty and `what` says all.

    `kind` is asked, vote, undo, comment, question, answer, handled, time, refused, closed or more.
    """

    at: datetime
    who: str
    what: str
    #: What somebody wrote.
    text: str
    kind: str
    #: How it came: "page", "api", "link", "admin", "mcp", "python" or "time"; empty where that is not known.
    door: str
    #: For a vote and what took it back: the outcome's name.
    outcome: str = ""
    #: What who did it is called, also where that is the viewer; for the letters in the place of a face.
    name: str = ""
    is_viewer: bool = False
    #: What a vote, or what took it back, changed of what is filled in.
    changes: tuple[FieldDiff, ...] = ()
    #: Whether it is a vote that counted once and does not any more, because something else was put in its place.
    is_void: bool = False


@dataclass(frozen=True, slots=True)
class History:
    """The rows of a timeline, read but not yet worded."""

    comments: tuple[Comment, ...]
    events: tuple[LedgerEvent, ...]
    #: How many more there are at least.
    has_more: bool = False

    def list_principals(self) -> list[str]:
        """Everybody whom these rows name."""
        named: list[Any] = [one.actor for one in self.comments]
        for event in self.events:
            data = event.data or {}
            to = data.get("to")
            named += [event.actor, *(to if isinstance(to, list) else [to]), data.get("of")]
        return [one for one in dict.fromkeys(named) if _is_principal(one)]


def read_history(case: Case) -> History:
    """What was said and done, read with all else that a card shows."""
    fill(case)
    comments, events = case.said or [], case.told or []
    has_more = len(comments) > MAX_ENTRIES or len(events) > MAX_ENTRIES
    return History(tuple(comments[:MAX_ENTRIES]), tuple(events[:MAX_ENTRIES]), has_more)


def list_entries(
    case: Case, user: Person | None = None, *, history: History | None = None, names: Mapping[str, str] | None = None
) -> tuple[Entry, ...]:
    """The timeline as this person reads it, the newest first.

    >>> [(entry.who, entry.what) for entry in list_entries(Case(review), ann)]
    [('You', 'approved'), ('Ben Okafor', 'asked for this')]
    """
    history = history or read_history(case)
    if names is None:
        principals = [*case.list_people(), *history.list_principals()]
        names = case.read_names(principals)
    teller = _Teller(case, user, names)
    entries = [teller.tell_request(), *teller.tell_votes(), *map(teller.tell_comment, history.comments)]
    entries += [told for event in history.events if (told := teller.tell_event(event)) is not None]
    entries += teller.tell_end()
    entries.sort(key=lambda entry: entry.at, reverse=True)  # stable: at one moment the order above, backwards
    if len(entries) > MAX_ENTRIES or history.has_more:
        kept = entries[:MAX_ENTRIES]
        count = max(1, len(entries) - len(kept))
        what = ngettext("%(count)d earlier entry", "%(count)d earlier entries and more", count) % {"count": count}
        return (*kept, Entry(kept[-1].at, "", what, "", "more", ""))
    return tuple(entries)


@dataclass(frozen=True, slots=True)
class _Teller:
    case: Case
    user: Person | None
    names: Mapping[str, str]

    def tell_request(self) -> Entry:
        review = self.case.review
        what = gettext("asked for this") if review.requester_id is not None else gettext("Asked for")
        return self._make(review.created_at, self._name_user(review.requester_id), what, "", "asked")

    def tell_votes(self) -> Iterator[Entry]:
        taken_back = {vote.reverses_id for vote in self.case.all_votes}
        for vote in reversed(self.case.all_votes):
            kind = "vote" if vote.reverses_id is None else "undo"
            changes = list_changes(self.case, vote)
            what = self._tell_vote(vote, changes) if kind == "vote" else self._tell_reversal(vote)
            told = self._make(
                vote.at, self._name_user(vote.user_id), what, vote.reason, kind, door=vote.door, outcome=vote.outcome
            )
            is_void = kind == "vote" and not vote.standing and vote.pk not in taken_back
            yield replace(told, changes=changes, is_void=is_void)

    def _tell_vote(self, vote: Vote, changes: Sequence[FieldDiff]) -> str:
        given = {"what": self._tell_outcome(vote.outcome), "whom": self._mention(self._name_user(vote.on_behalf_of_id))}
        if any(not one.before.empty for one in changes):
            given["what"] = gettext("%(what)s with changes") % given
        if vote.override:
            given["what"] = gettext("overrode the rule: %(what)s") % given
        if vote.automated:
            given["what"] = gettext("%(what)s, by a program") % given
        if given["whom"]:
            given["what"] = gettext("%(what)s in place of %(whom)s") % given
        return given["what"]

    def _tell_outcome(self, name: str) -> str:
        if (known := find_known(self.case, name)) is not None:
            return str(known.person)
        return gettext("answered %(outcome)s") % {"outcome": quote_outcome(self.case, name)}

    def _tell_reversal(self, vote: Vote) -> str:
        given = {"outcome": quote_outcome(self.case, vote.outcome)}
        if vote.user_id is not None:
            return gettext("took back %(outcome)s") % given
        return gettext("%(outcome)s could not be carried out, so it waits again") % given

    def tell_comment(self, comment: Comment) -> Entry:
        what = {
            "question": pgettext("what somebody did", "asked"),
            "answer": pgettext("what somebody did", "answered"),
        }.get(comment.kind, gettext("commented"))
        return self._make(comment.at, comment.actor, what, comment.text, comment.kind)

    def tell_event(self, event: LedgerEvent) -> Entry | None:
        data, actor = event.data or {}, event.actor
        door, deed = str(data.get("door", "")), str(data.get("what", ""))
        if event.kind is Event.REFUSED:
            what = tell_refusal(self.case, data)
            return self._make(event.at, actor, what, "", "refused", door=door)
        if deed in _SHOWN_AS_VOTES or (deed in EVENT_KINDS and not EVENT_KINDS[deed].done):
            return None
        kind = "time" if actor == TIME else "handled"
        return self._make(event.at, actor, self._tell_deed(deed, data), data.get("reason"), kind, door=door)

    def _tell_deed(self, deed: str, data: Mapping[str, Any]) -> str:
        to = data.get("to")
        given = {
            "to": self._list_names(to if isinstance(to, list) else [to]),
            "of": self._list_names([data.get("of")]),
            "due": self._show_moment(data.get("due")),
            "kept": data.get("kept"),
            "deed": show_text(deed, MAX_NAME),
        }
        if deed in EVENT_KINDS:
            return EVENT_KINDS[deed].describe(given)
        match deed:
            case "shown anew":
                return self._tell_shown_anew(data)
            case "judged anew":
                if data.get("state") == "lost":
                    return gettext("Those who may still decide can no longer agree")
                return gettext("Those who may still decide have agreed")
            case "stranded":
                return gettext("Those asked have left or may not decide it")
            case "escalated":
                return self._tell_rung(data, str(given["to"]))
        return gettext("did something: %(deed)s") % given

    def _tell_shown_anew(self, data: Mapping[str, Any]) -> str:
        fallen = data.get("fallen")
        if not isinstance(fallen, int) or not fallen:
            return gettext("What it is about has changed; it is shown as it is now")
        return ngettext(
            "What it is about has changed; it is shown as it is now, and one vote no longer counts",
            "What it is about has changed; it is shown as it is now, and %(fallen)d votes no longer count",
            fallen,
        ) % {"fallen": fallen}

    def _tell_rung(self, data: Mapping[str, Any], to: str) -> str:
        match data.get("do"):
            case "reassign" | "add" as do if to:
                return describe_action(name_target(do, str(data.get("to") or ""), to))
            case "outcome":
                return describe_action(RungAction("outcome", outcome=str(data.get("outcome", ""))), self.case.outcomes)
        return gettext("A reminder was sent")

    def tell_end(self) -> Iterator[Entry]:
        """How it was over, where no person's deed says so."""
        review, interaction = self.case.review, self.case.review.interaction
        at = find_closed_at(self.case)
        if at is None or find_status(self.case) != "closed" or review.outcome in WITHDRAWN:
            return
        if review.open or interaction.status is InteractionStatus.EXPIRED:
            yield self._make(at, "", gettext("The time to decide was over"), "", "closed", door=TIME)
        else:
            yield self._make(interaction.closed_at or at, "", gettext("Cancelled"), "", "closed")

    # --- names --------------------------------------------------------------------------------------------

    def _make(
        self, at: datetime, actor: str, what: str, text: Any, kind: str, *, door: str = "", outcome: str = ""
    ) -> Entry:
        said = show_text(text, MAX_BLOCK, lines=True) if isinstance(text, str) else ""
        who = self._call(actor)
        return Entry(at, who, what, said, kind, door, outcome, self._name(actor), self._is_viewer(actor))

    def _name_user(self, key: Any) -> str:
        """A user as an actor."""
        return "" if key is None else f"user:{key}"

    def _call(self, actor: str) -> str:
        return gettext("You") if self._is_viewer(actor) else self._name(actor)

    def _mention(self, actor: str) -> str:
        """The same within a sentence."""
        return pgettext("within a sentence", "you") if self._is_viewer(actor) else self._name(actor)

    def _name(self, actor: str) -> str:
        """Nobody for time and for the engine itself; a program is called what it called itself."""
        if actor in ("", TIME, "holdpoint"):
            return ""
        return show_text(self.names.get(actor) or actor, MAX_NAME)

    def _list_names(self, principals: Iterable[Any]) -> str:
        return join_list(self._mention(one) for one in principals if isinstance(one, str) and one)

    def _is_viewer(self, actor: str) -> bool:
        return self.user is not None and self.user.pk is not None and actor == name_user(self.user)

    def _show_moment(self, given: Any) -> str:
        at = parse_datetime(given) if isinstance(given, str) else None
        return show_when(at, self.case.now) if at is not None else ""


def _is_principal(given: Any) -> bool:
    return isinstance(given, str) and given.partition(":")[0] in ("user", "group", "permission", "rule")
