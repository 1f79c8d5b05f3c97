"""What people decided, as authors of all three styles are handed it. Values only.

Lives here because every style can wait for people: it knows actors as text, and no user.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any, Generic

from typing_extensions import TypeVar

#: What the form was filled in with; Any where no schema says what that is.
Data = TypeVar("Data", default=Any, covariant=True)


@dataclass(frozen=True, slots=True)
class Decision:
    """One person's share in an answer.

    >>> answer.decisions[0].actor
    'user:7'
    """

    actor: str
    outcome: str
    reason: str = ""
    at: datetime | None = None
    on_behalf_of: str = ""
    automated: bool = False
    override: bool = False
    #: What they filled in, as the approval's schema types it.
    data: Any = None


@dataclass(frozen=True, slots=True)
class Answer(Generic[Data]):
    """What people decided.

    >>> answer.outcome, answer.reason
    ('reject', 'Not within budget')
    """

    outcome: str
    #: What the form was filled in with, as the approval's schema types it: everybody who gave this
    #: answer agreed to it. None where nobody filled it in.
    data: Data = None  # type: ignore[assignment]  # of an answer without a form
    reason: str = ""
    #: Whose decision made it complete: "user:7", or "time" where the ladder answered.
    actor: str = ""
    decisions: tuple[Decision, ...] = ()
