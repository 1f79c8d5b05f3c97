"""A review as the document describes it: a row of a list, and the whole card. `review_rows` writes what stands here."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any, Literal
from uuid import UUID

from pydantic import ConfigDict, Field

from workflows.rest.protocol.bodies import Shape
from workflows.rest.protocol.response_bodies import ListOut


class OutcomeOut(Shape):
    """One possible answer."""

    model_config = ConfigDict(title="Outcome")

    name: Annotated[str, Field(description="For `decide`.")]
    label: Annotated[str, Field(description="What its button says, in your language.")]
    tone: Annotated[Literal["neutral", "positive", "negative", "warning"], Field(description="How it is shown.")]
    requires_reason: Annotated[bool, Field(description="Whether it takes a reason.")]
    presets: Annotated[list[str], Field(description="Ready reasons.")]


class ChoiceOut(OutcomeOut):
    """One possible answer, and whether it is yours to give."""

    model_config = ConfigDict(title="Choice")

    obstacle: Annotated[str | None, Field(description="Why you cannot give it; null: you can.")]


class SubjectOut(Shape):
    """What is decided about."""

    model_config = ConfigDict(title="Subject")

    model: Annotated[str, Field(description="Its model, such as shop.order.")]
    id: Annotated[str, Field(description="Its key.")]
    label: Annotated[str, Field(description="Its name when it was asked.")]


class ApprovalOut(Shape):
    """Something that people decide."""

    model_config = ConfigDict(title="Approval")

    id: Annotated[UUID, Field(description="Its own, and that of its interaction.")]
    title: Annotated[str, Field(description="What will happen, in a sentence.")]
    why: Annotated[str, Field(description="Why it is asked now, in the author's words.")]
    status: Annotated[
        Literal["open", "grace", "decided", "closed"],
        Field(description="grace: decided, and can still be undone. closed: withdrawn, cancelled or out of time."),
    ]
    outcome: Annotated[str | None, Field(description="The answer, once there is one.")]
    workflow: Annotated[str, Field(description="The workflow that asks.")]
    step: Annotated[str, Field(description="The wait that asks.")]
    instance: Annotated[UUID, Field(description="The instance that asks.")]
    risk: Annotated[Literal["low", "medium", "high"], Field(description="How carefully it is decided.")]
    requester: Annotated[str | None, Field(description="The username of who asked; null where no person did.")]
    requester_name: Annotated[str | None, Field(description="The same as people call them.")]
    claimed_by: Annotated[str | None, Field(description="The username of who is at it.")]
    claimed_by_name: Annotated[str | None, Field(description="The same as people call them.")]
    decided_by: Annotated[
        str | None,
        Field(
            description="The username of whose vote was the last one it took. Where votes differed they may have said "
            "otherwise: the detail's `answer.by` names who gave the answer."
        ),
    ]
    decided_by_name: Annotated[str | None, Field(description="The same as people call them.")]
    created_at: Annotated[datetime, Field(description="When it was asked.")]
    due_at: Annotated[datetime | None, Field(description="When an answer is due.")]
    deadline: Annotated[datetime | None, Field(description="When the wait ends.")]
    effective_at: Annotated[datetime | None, Field(description="Until when it can be undone.")]
    decided_at: Annotated[datetime | None, Field(description="When it was decided.")]
    stranded_at: Annotated[
        datetime | None,
        Field(description="Since when nobody can decide it any more, because those asked have left or may not."),
    ]
    four_eyes: Annotated[bool, Field(description="Neither the requester nor an earlier decider can decide.")]
    version: Annotated[int, Field(description="Raised by whatever changes the thing to be decided.")]
    subject: Annotated[SubjectOut | None, Field(description="What it is about, where that is a row.")]
    schema_: Annotated[Any, Field(alias="schema", description="The JSON Schema of the data that goes with an answer.")]
    outcomes: Annotated[list[OutcomeOut], Field(description="What can be answered.")]


class ApprovalList(ListOut):
    """A page of approvals."""

    model_config = ConfigDict(title="Approvals")

    results: Annotated[list[ApprovalOut], Field(description="In the order of the list.")]


class ProgressOut(Shape):
    """How far the votes are."""

    model_config = ConfigDict(title="Progress")

    label: Annotated[str, Field(description="The group; empty where everybody counts alike.")]
    votes: Annotated[int, Field(description="Votes for the outcome that has most of them.")]
    needed: Annotated[int, Field(description="Votes that it takes.")]
    outcome: Annotated[str, Field(description="That outcome.")]
    text: Annotated[str, Field(description="All of that in words.")]


class ChangeOut(Shape):
    """One row of a difference."""

    model_config = ConfigDict(title="Change")

    name: Annotated[str, Field(description="The field.")]
    label: Annotated[str, Field(description="What people call it.")]
    kind: Annotated[str, Field(description="text, money, date, relation, secret …")]
    before: Annotated[str, Field(description="As people read it.")]
    after: Annotated[str, Field(description="As people read it.")]
    url: Annotated[str | None, Field(description="Where you can look at what it points to.")]


class FactOut(Shape):
    """Something that the workflow sent along."""

    model_config = ConfigDict(title="Fact")

    label: Annotated[str, Field(description="What it is.")]
    value: Annotated[str, Field(description="As people read it.")]
    url: Annotated[str | None, Field(description="Where it leads.")]


class EvidenceOut(Shape):
    """A link, a file or a fact that bears on it."""

    model_config = ConfigDict(title="Evidence")

    kind: Annotated[str, Field(description="link, file or fact.")]
    label: Annotated[str, Field(description="What it is.")]
    text: Annotated[str, Field(description="As people read it.")]
    url: Annotated[str | None, Field(description="Where it leads.")]


class SimilarOut(Shape):
    """A decision of the past."""

    model_config = ConfigDict(title="Similar")

    id: Annotated[UUID, Field(description="Its own.")]
    title: Annotated[str, Field(description="What it was about.")]
    outcome: Annotated[str, Field(description="What was decided, in words.")]
    reason: Annotated[str, Field(description="Why, as whoever decided it wrote; may be empty.")]
    at: Annotated[datetime | None, Field(description="When.")]


class RivalOut(Shape):
    """Another change of the same row."""

    model_config = ConfigDict(title="Rival")

    id: Annotated[UUID, Field(description="Its own.")]
    title: Annotated[str, Field(description="What would happen.")]


class VotedOut(Shape):
    """One vote that counted."""

    model_config = ConfigDict(title="Voted")

    at: Annotated[datetime, Field(description="When.")]
    by: Annotated[str, Field(description="Who.")]
    outcome: Annotated[str, Field(description="What they answered.")]
    reason: Annotated[str, Field(description="Why; may be empty.")]
    door: Annotated[str, Field(description="How: page, api, link, admin, mcp or python.")]
    data: Annotated[Any, Field(description="What they filled in, without secrets.")]


class AnswerOut(Shape):
    """What was decided."""

    model_config = ConfigDict(title="Answer")

    outcome: Annotated[str, Field(description="Its name.")]
    label: Annotated[str, Field(description="Its label.")]
    tone: Annotated[str, Field(description="How it is shown.")]
    reason: Annotated[str, Field(description="Why.")]
    by: Annotated[str, Field(description="Who; empty where time answered.")]
    data: Annotated[
        Any, Field(description="What was filled in, without secrets: all who gave this answer agreed to it.")
    ]
    decisions: Annotated[list[VotedOut], Field(description="The votes that counted, in their order.")]


class EditOut(Shape):
    """A vote that changed what is filled in."""

    model_config = ConfigDict(title="Edit")

    at: Annotated[datetime, Field(description="When.")]
    by: Annotated[str, Field(description="Who.")]
    reason: Annotated[str, Field(description="Why; may be empty.")]
    fallen: Annotated[str, Field(description="Whose approvals no longer count since; may be empty.")]
    changes: Annotated[list[ChangeOut], Field(description="What it changed.")]


class EntryOut(Shape):
    """Something that happened."""

    model_config = ConfigDict(title="Entry")

    at: Annotated[datetime, Field(description="When.")]
    who: Annotated[str, Field(description="Who did it; empty where nobody did.")]
    what: Annotated[str, Field(description="What, in words.")]
    text: Annotated[str, Field(description="What they wrote.")]
    kind: Annotated[str, Field(description="asked, vote, undo, comment, question, answer, handled, time, refused …")]
    door: Annotated[str, Field(description="How: page, api, link, admin, mcp, python or time.")]
    outcome: Annotated[str, Field(description="Of a vote: its outcome.")]
    changes: Annotated[list[ChangeOut], Field(description="What it changed of what is filled in.")]
    void: Annotated[bool, Field(description="Whether it is a vote that something else has put out of force.")]


class ApprovalDetail(ApprovalOut):
    """All of an approval, as its card shows it to you."""

    model_config = ConfigDict(title="Approval in full")

    outcomes: Annotated[list[ChoiceOut], Field(description="What can be answered, and whether you may.")]  # type: ignore[assignment]
    workspace: Annotated[str, Field(description="The slug of its workspace.")]
    told: Annotated[str, Field(description="How it stands, in a sentence.")]
    who: Annotated[str, Field(description="Those who may decide.")]
    why: Annotated[str, Field(description="Why it is asked now, in the author's words; may be empty.")]
    what_then: Annotated[str, Field(description="What happens when nobody decides.")]
    rule: Annotated[str, Field(description="How many votes decide.")]
    four_eyes_told: Annotated[str, Field(description="What four eyes means here.")]
    progress: Annotated[list[ProgressOut], Field(description="How far the votes are.")]
    diff: Annotated[list[ChangeOut], Field(description="What the requested change makes of the subject.")]
    drift: Annotated[list[ChangeOut], Field(description="What has changed about the subject since it was asked.")]
    facts: Annotated[list[FactOut], Field(description="What the workflow sent along, as people read it.")]
    request: Annotated[Any, Field(description="The same as it was sent.")]
    evidence: Annotated[list[EvidenceOut], Field(description="What bears on it.")]
    similar: Annotated[list[SimilarOut], Field(description="What was decided before in cases like this.")]
    rivals: Annotated[list[RivalOut], Field(description="Other changes of its subject that wait.")]
    actions: Annotated[
        dict[str, str | None], Field(description="What else there is to do, and why you cannot; null: you can.")
    ]
    settings: Annotated[
        list[ChangeOut],
        Field(description="What an answer sets by its form; `before` is what it was asked with."),
    ]
    data: Annotated[
        Any,
        Field(
            description="What those who agreed so far filled in, without secrets; null as long as nobody did. Agree "
            "to it with this `version` and without `data`; send other `data`, and they are asked again."
        ),
    ]
    edit: Annotated[EditOut | None, Field(description="Who changed what is filled in, where somebody did.")]
    answer: Annotated[AnswerOut | None, Field(description="What was decided.")]
    timeline: Annotated[list[EntryOut], Field(description="What happened, the newest first.")]
