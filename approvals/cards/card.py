"""The one presentation of a review: link page, inbox, e-mail, REST and admin all show what stands here.

Lives here: putting a card together. What must not: how one part reads (`status`, `timeline`, `request_facts`, `diff`,
`precedents`) and what may be done (`permissions`, `rules`). Invariants owned: everything that comes from outside is
plain text with its hidden characters made visible; a button's obstacle is the sentence that the refusal would give;
the number of statements does not grow with votes, comments or candidates.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from django.utils.translation import gettext
from django.utils.translation import gettext_lazy as _

from approvals.cards.deadline_outlook import Ending, list_endings, tell_endings
from approvals.cards.edit_summary import Edit, find_edit, list_form
from approvals.cards.precedents import Similar, list_similar
from approvals.cards.rival_changes import Rival, list_rivals
from approvals.cards.status import (
    Progress,
    Status,
    describe_status,
    find_closed_at,
    find_status,
    is_late,
    measure_progress,
    name_voters,
)
from approvals.cards.timeline import Entry, list_entries, read_history
from approvals.display.values import MAX_BLOCK, MAX_NAME, ShownValue, show_text
from approvals.forms.edits import find_agreed
from approvals.forms.request_facts import Fact, list_evidence, list_facts
from approvals.forms.secret_fields import find_tree, hide_secrets
from approvals.models import Review, Vote
from approvals.people.person import Person
from approvals.reviews.answer import find_agreeing
from approvals.reviews.case import Case
from approvals.reviews.permissions import Permissions
from approvals.rules import Outcome, describe_four_eyes, find_obstacle, says_no
from approvals.subjects.diff import FieldDiff, compare, find_drift
from approvals.subjects.field_values import redact_json
from approvals.subjects.reference import Subject, digest, load_subject, snapshot_again
from approvals.subjects.related import find_link
from workflows.forms.form_fields import Field
from workflows.values.json_text import MISSING

#: Characters of raw data.
MAX_RAW = 20_000
RISK_LABELS = {"low": _("Low risk"), "medium": _("Medium risk"), "high": _("High risk")}


@dataclass(frozen=True, slots=True)
class OutcomeChoice:
    """One button: what it answers, and the sentence that says why this person can’t."""

    name: str
    label: str
    tone: str
    requires_reason: bool
    presets: tuple[str, ...]
    #: Empty: may.
    obstacle: str
    #: Whether nothing happens by it: then it takes neither a look nor a password, however high the risk.
    says_no: bool = False


@dataclass(frozen=True, slots=True)
class Answered:
    """The answer, once there is one."""

    outcome: str
    label: str
    tone: str
    reason: str
    #: Nobody, where time answered, or where those asked did not agree.
    by: str
    #: What everybody who gave it agreed to, without its secrets.
    data: Any = None


@dataclass(frozen=True, slots=True)
class Voted:
    """One vote that counts."""

    by: str
    outcome: str
    reason: str
    at: datetime
    door: str
    #: What was filled in, without its secrets.
    data: Any


@dataclass(frozen=True, slots=True)
class Card:
    """A review as one person sees it; text is in their language, moments are for the template to tell."""

    id: UUID
    title: str
    #: Why now, in the author's words; may be empty.
    why: str
    workflow: str
    step: str
    workspace: str
    status: Status
    #: How it stands, in a sentence.
    told: str
    requester: str
    #: Those who may decide.
    who: str
    risk: str
    risk_label: str
    #: The database's moment at which this was so.
    now: datetime
    asked_at: datetime
    due_at: datetime | None
    deadline: datetime | None
    effective_at: datetime | None
    decided_at: datetime | None
    #: What happens if nobody decides, in sentences; and one by one.
    what_then: str
    endings: tuple[Ending, ...]
    claimed_by: str
    rule: str
    four_eyes: str
    progress: tuple[Progress, ...]
    #: Those who have voted, where all of them gave the same answer.
    voters: str
    subject: ShownValue | None
    diff: tuple[FieldDiff, ...]
    drift: tuple[FieldDiff, ...]
    #: Fields of the subject that stay as they are; 0 where nothing is to change any more.
    unchanged: int
    #: What the form sets, by what is on the table; and who changed that.
    settings: tuple[FieldDiff, ...]
    edit: Edit | None
    #: What is on the table, as the form begins with it; `MISSING` where it begins with its own defaults.
    filled: Any
    facts: tuple[Fact, ...]
    evidence: tuple[dict[str, Any], ...]
    similar: tuple[Similar, ...]
    #: Other changes of the subject that wait.
    rivals: tuple[Rival, ...]
    schema: Any
    outcomes: tuple[OutcomeChoice, ...]
    actions: dict[str, str]
    timeline: tuple[Entry, ...]
    version: int
    #: The digest of the subject as it is shown here, for `Door(seen=…)`.
    seen: str
    answer: Answered | None
    #: When it was over without a decision.
    closed_at: datetime | None
    #: What was sent along and what is to change, as JSON without its secrets: the raw data behind one click.
    raw: dict[str, Any]
    #: The votes that count, in their order.
    decisions: tuple[Voted, ...]

    @property
    def may_decide(self) -> bool:
        """Whether any button is open to this person."""
        return any(not one.obstacle for one in self.outcomes)

    @property
    def counts(self) -> tuple[Progress, ...]:
        """How far the votes are, where there is something to count."""
        return tuple(one for one in self.progress if one.needed > 1 or one.votes or len(self.progress) > 1)

    @property
    def obstacle(self) -> str:
        """Why this person can’t decide; empty where they can."""
        return "" if self.may_decide or not self.outcomes else self.outcomes[0].obstacle

    @property
    def similar_say_why(self) -> bool:
        """Whether any of the decisions of the past came with a reason."""
        return any(one.reason for one in self.similar)

    @property
    def raw_request(self) -> str:
        """What was sent along, as text."""
        return _dump(self.raw["request"])

    @property
    def raw_change(self) -> str:
        """What is to change, as text."""
        return _dump(self.raw["change"])


def build_card(review: Review, user: Person | None, *, case: Case | None = None) -> Card:
    """The card of a review for one person; `None` is nobody in particular, who may do nothing with it.

    >>> card = build_card(review, ann)
    >>> card.title, card.told, [one.label for one in card.outcomes if not one.obstacle]
    ('Refund €1,240.00 to Acme GmbH', 'Waiting for Finance since Tuesday', ['Approve', 'Reject'])
    """
    case = case or Case(review)
    if user is not None:
        case.see_as(user)
    history = read_history(case)
    interaction = review.interaction
    later = [rung["principal"] for rung in review.rungs or () if rung.get("principal")]
    # Everybody at once, so that no part asks for a name of its own.
    names = case.read_names([*case.list_people(), *case.list_asked(), *later, *history.list_principals()])
    status = find_status(case)
    shown = _look_at_subject(case, user, status)
    permissions = None if user is None else Permissions(case, user)
    endings = list_endings(case) if status == "open" else ()
    tree = find_tree(interaction.schema)
    return Card(
        id=review.pk,
        title=show_text(review.title, MAX_BLOCK),
        why=show_text(review.why, MAX_BLOCK, lines=True) if review.why else "",
        workflow=show_text(review.workflow, MAX_NAME),
        step=show_text(review.step, MAX_NAME),
        workspace=interaction.workspace.slug,
        status=status,
        told=describe_status(review, user, case=case),
        requester=show_text(case.name(review.requester_id), MAX_NAME),
        who=show_text(case.who),
        risk=review.risk,
        risk_label=str(RISK_LABELS[review.risk]),
        now=case.now,
        asked_at=review.created_at,
        due_at=review.due_at,
        deadline=review.held_deadline or interaction.deadline,
        effective_at=review.effective_at if status == "grace" else None,
        decided_at=review.decided_at,
        what_then=tell_endings(endings, case.now),
        endings=endings,
        claimed_by=show_text(case.name(review.claimed_by_id), MAX_NAME),
        rule=case.quorum.describe(case.outcomes),
        four_eyes=show_text(describe_four_eyes(case.rules)),
        progress=measure_progress(case),
        voters=name_voters(case),
        subject=shown.subject,
        diff=compare(review.snapshot or {}, review.change or {}, model=review.subject_model or None, user=user),
        drift=shown.drift,
        unchanged=shown.unchanged,
        settings=list_form(case),
        edit=find_edit(case, user),
        filled=MISSING if (table := case.table).vote is None or table.data is None else table.data,
        facts=list_facts(interaction.request),
        evidence=list_evidence(review.evidence),
        similar=list_similar(case, user),
        rivals=list_rivals(case, user),
        schema=interaction.schema,
        outcomes=list_choices(case.outcomes, review.risk, _find_obstacle(case, permissions, status)),
        actions=_list_actions(case, permissions, status),
        timeline=list_entries(case, user, history=history, names=names),
        version=review.version,
        seen=shown.digest,
        answer=_find_answer(case, status, tree),
        closed_at=find_closed_at(case) if status == "closed" else None,
        raw={"request": redact_json(interaction.request), "change": review.change},
        decisions=tuple(_tell_vote(case, vote, tree) for vote in case.votes),
    )


@dataclass(frozen=True, slots=True)
class _Subject:
    subject: ShownValue | None
    digest: str
    drift: tuple[FieldDiff, ...] = ()
    unchanged: int = 0


def _dump(value: Any) -> str:
    if value is None:
        return ""
    return show_text(json.dumps(value, indent=2, ensure_ascii=False), MAX_RAW, lines=True)


def _look_at_subject(case: Case, user: Person | None, status: Status) -> _Subject:
    """The row as it is now; what changed since it was shown matters only while somebody may decide about it."""
    review = case.review
    if not review.subject_model:
        return _Subject(None, review.digest)
    label = show_text(review.subject_label, MAX_NAME)
    row = load_subject(Subject(review.subject_model, review.subject_pk, review.subject_label, review.subject_using))
    before = review.snapshot or {}
    is_waiting = status in ("open", "grace")
    if row is None:
        return _Subject(ShownValue(label, missing=True), "", find_drift(before, None) if is_waiting else ())
    named = ShownValue(label, url=find_link(user, row))
    if not is_waiting:
        return _Subject(named, review.digest)
    seen = digest(snapshot_again(row, before), review.change or {})
    fields = [one for one in row._meta.concrete_fields if one.editable and not one.primary_key]
    unchanged = sum(one.name not in review.change for one in fields) if review.change else 0
    drift = () if seen == review.digest else find_drift(before, row, user=user)
    return _Subject(named, seen, drift, unchanged)


def list_choices(outcomes: Sequence[Outcome], risk: str, obstacle: str = "") -> tuple[OutcomeChoice, ...]:
    """The buttons of a request, as they were frozen with it; `obstacle` is why a person can’t press them.

    >>> [one.label for one in list_choices(case.outcomes, "low")]
    ['Approve', 'Reject']
    """
    return tuple(
        OutcomeChoice(
            name=one.name,
            label=show_text(one.label, MAX_NAME),
            tone=one.tone,
            requires_reason=one.requires_reason or risk == "high",
            presets=tuple(show_text(preset, MAX_BLOCK) for preset in one.presets),
            obstacle=obstacle,
            says_no=says_no(one, outcomes),
        )
        for one in outcomes
    )


def may_decide(case: Case, user: Person) -> bool:
    """Whether any button would be open to this person: what `Card.may_decide` says, without a card.

    >>> may_decide(Case(review), ann)
    True
    """
    return not _find_obstacle(case, Permissions(case, user), find_status(case))


def _find_obstacle(case: Case, permissions: Permissions | None, status: Status) -> str:
    """Why nobody in particular, or this person, can decide; nobody in particular is told of what is over only."""
    if late := _find_lateness(case, status):
        return late
    if permissions is not None:
        found = permissions.deciding
    else:
        found = find_obstacle(case.rules, case.state)
        found = found if found is not None and found.rule in ("closed", "grace") else None
    return "" if found is None else show_text(found.message)


def _list_actions(case: Case, permissions: Permissions | None, status: Status) -> dict[str, str]:
    if permissions is None:
        return {}
    late = _find_lateness(case, status)
    shown: dict[str, str] = {"": ""}
    actions = {}
    for action, obstacle in permissions.list_obstacles().items():
        message = "" if obstacle is None else obstacle.message
        if message not in shown:  # many actions are forbidden by the same rule
            shown[message] = show_text(message)
        actions[action] = late if late and action != "comment" else shown[message]
    return actions


def _find_lateness(case: Case, status: Status) -> str:
    """Past its deadline nothing is taken any more, though the row still waits for the sweep."""
    if status == "closed" and case.review.open and is_late(case):
        return gettext("The time to decide is over.")
    return ""


def _find_answer(case: Case, status: Status, tree: Field | None) -> Answered | None:
    review = case.review
    if not review.outcome or status == "open":
        return None
    outcome = next((one for one in case.outcomes if one.name == review.outcome), None)
    said = find_agreeing(case.votes, review.outcome)
    return Answered(
        outcome=review.outcome,
        label=show_text(outcome.label, MAX_NAME) if outcome else gettext("Withdrawn"),
        tone=outcome.tone if outcome else "neutral",
        reason="" if said is None else show_text(said.reason, MAX_BLOCK, lines=True),
        by=show_text(case.decided.by, MAX_NAME),
        data=hide_secrets(tree, find_agreed(case.votes, review.outcome, case.outcomes)),
    )


def _tell_vote(case: Case, vote: Vote, tree: Field | None) -> Voted:
    return Voted(
        by=show_text(case.name(vote.user_id), MAX_NAME),
        outcome=vote.outcome,
        reason=show_text(vote.reason, MAX_BLOCK, lines=True),
        at=vote.at,
        door=vote.door,
        data=hide_secrets(tree, vote.data),
    )
