"""A question on its way out, and what became of sending it: values that need no database.

Invariant owned: whatever a transport has to know to send a question is in here, so that it can be sent on any thread
and outside of every transaction.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any
from uuid import UUID


@dataclass(frozen=True, slots=True)
class Outgoing:
    """One question that is to be sent."""

    #: The interaction.
    id: UUID
    unit: UUID
    instance: UUID
    #: The slug of its workspace, and the number of that row.
    workspace: str
    workspace_id: int
    workflow: str
    #: The name of the wait.
    step: str
    channel: str
    signal_id: str
    #: Which item of the unit, from 0, and of how many.
    index: int
    total: int
    cardinality: str
    #: Whether it is one of a unit of items.
    item: bool
    #: Which visit of the wait.
    visit: int
    #: Which try this is, from 1.
    tries: int
    created_at: datetime
    deadline: datetime | None
    #: Whether the deadline had passed when it was taken up: then it is not sent any more.
    late: bool
    correlation_id: str | None
    assignee: str | None
    group: str | None
    #: The id of the key that signs its resume URL; none, where it has no such URL.
    token_key: str | None = field(repr=False)
    request: Any
    schema: Any
    #: What the channel wrote down for itself.
    config: Mapping[str, Any]

    @property
    def key(self) -> str:
        """The idempotency key: the same at every try, and another one for each visit of the wait.

        >>> question.key
        '01995c0e-6d8a-7c3e-9a51-0f6f0b7d2c11-1'
        """
        return f"{self.id}-{self.visit}"

    @property
    def traceparent(self) -> str | None:
        """The trace that it was asked in, if there was one."""
        found: str | None = self.config.get("traceparent")
        return found

    @property
    def resume_url(self) -> str | None:
        """Where the answer is posted; derived here, because the token is stored nowhere."""
        if self.token_key is None:
            return None
        from workflows.definitions.callback_tokens import make_token, resume_url

        token, _ = make_token(self.id, workspace=self.workspace_id, visit=self.visit, key_id=self.token_key)
        return resume_url(token)

    def write_envelope(self) -> dict[str, Any]:
        """What every transport says of a question, as JSON; members without a value are left out.

        >>> question.write_envelope()["interaction"]
        '01995c0e-6d8a-7c3e-9a51-0f6f0b7d2c11'
        """
        envelope = {
            "interaction": str(self.id),
            "signal_id": self.signal_id,
            "workspace": self.workspace,
            "workflow": self.workflow,
            "instance": str(self.instance),
            "unit": str(self.unit),
            "step": self.step,
            "index": self.index,
            "total": self.total,
            "cardinality": self.cardinality,
            "visit": self.visit,
            "correlation_id": self.correlation_id,
            "assignee": self.assignee,
            "group": self.group,
            "created_at": _write_moment(self.created_at),
            "deadline": None if self.deadline is None else _write_moment(self.deadline),
            "request": self.request,
            "schema": self.schema,
            "resume_url": self.resume_url,
            "traceparent": self.traceparent,
        }
        return {name: value for name, value in envelope.items() if value is not None}


@dataclass(frozen=True, slots=True)
class Sent:
    """What is told of a try: kept in the delivery log, where the channel keeps one."""

    #: Of HTTP: the code of the answer.
    status: int | None = None
    ms: int | None = None
    #: The beginning of what came back.
    response: str = ""


def _write_moment(moment: datetime) -> str:
    return moment.astimezone(UTC).isoformat(timespec="microseconds").replace("+00:00", "Z")
