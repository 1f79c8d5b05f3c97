"""The JSON of the reviewers' addresses, as types: bodies are checked by them, the document is made of them.

Invariant owned: that of `workflows.rest.protocol.bodies`: a member that is not named here is refused.
"""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any, Literal
from uuid import UUID

from pydantic import AfterValidator, ConfigDict, Field

from approvals.models.vote import MAX_TEXT
from workflows.rest.protocol.bodies import SEEN, Body, Shape
from workflows.rest.protocol.response_bodies import ProblemOut

MAX_USERNAME = 254


def _want_seen(text: str) -> str:
    if not text.strip():
        raise ValueError("must not be empty")
    return text


Said = Annotated[
    str,
    Field(min_length=1, max_length=MAX_TEXT, json_schema_extra={"pattern": SEEN}),
    AfterValidator(_want_seen),
]
Reason = Annotated[str, Field(max_length=MAX_TEXT, description="Kept with the decision and shown to all who see it.")]


class DecideBody(Body):
    """A decision."""

    model_config = ConfigDict(
        json_schema_extra={"examples": [{"outcome": "reject", "reason": "Not within budget", "version": 1}]}
    )

    outcome: Annotated[str, Field(min_length=1, max_length=64, description="The name of one of its `outcomes`.")]
    reason: Reason = ""
    data: Annotated[
        Any,
        Field(
            description="What its form asks for, as its `schema` says; left out where it has none. Left out beside "
            "`version` it agrees to what others have filled in. Other data than theirs put these in their place: they "
            "are asked again."
        ),
    ] = None
    version: Annotated[
        int | None,
        Field(
            description="The version that you have looked at: another one is refused with 409. High risk takes it, "
            "because it says that what changes has been seen."
        ),
    ] = None


class DelegateBody(Body):
    """Whom it is handed on to."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"to": "ben", "reason": "On the road today"}]})

    to: Annotated[
        str,
        Field(
            min_length=1,
            max_length=MAX_USERNAME,
            description="The username of somebody of this workspace.",
            json_schema_extra={"pattern": SEEN},
        ),
        AfterValidator(_want_seen),
    ]
    reason: Reason = ""


class SayBody(Body):
    """What is said."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"text": "Which account is this for?"}]})

    text: Annotated[Said, Field(description="Plain text.")]


class NothingBody(Body):
    """Nothing has to be said."""


class DecisionOut(Shape):
    """A decision that was recorded."""

    model_config = ConfigDict(title="Decision")

    id: Annotated[UUID, Field(description="The approval's.")]
    instance: Annotated[UUID, Field(description="The instance that asked.")]
    vote: Annotated[UUID, Field(description="Your vote's own.")]
    status: Annotated[
        Literal["open", "decided"], Field(description="open: more votes are needed. decided: the instance goes on.")
    ]
    outcome: Annotated[str | None, Field(description="The answer; null while more votes are needed.")]
    version: Annotated[int, Field(description="The approval's.")]


class CommentOut(Shape):
    """Something that was said."""

    model_config = ConfigDict(title="Comment")

    id: Annotated[UUID, Field(description="Its own.")]
    approval: Annotated[UUID, Field(description="What it is about.")]
    kind: Annotated[Literal["comment", "question", "answer"], Field(description="A question is for the requester.")]
    text: Annotated[str, Field(description="What was said.")]
    at: Annotated[datetime, Field(description="When.")]


class RefusalProblemOut(ProblemOut):
    """A refusal, with what a program needs to go on."""

    model_config = ConfigDict(title="Refusal", extra="allow")

    rule: Annotated[str | None, Field(description="The rule that forbids it, or stands in the way.")] = None
    by: Annotated[str | None, Field(description="Who is at it, or is deciding it.")] = None
    until: Annotated[datetime | None, Field(description="Until when it stands in the way.")] = None
    difference: Annotated[
        dict[str, list[str]] | None, Field(description="Of what was shown, per field: as it was, and as it is.")
    ] = None
    outcome: Annotated[str | None, Field(description="What was decided.")] = None
    decided_by: Annotated[str | None, Field(description="By whom.")] = None
    decided_at: Annotated[datetime | None, Field(description="When.")] = None
