"""Questions that could not be sent, and completions that were refused.

Lives here: the errors of a question's way out and of its answer's way in. Must not live here: the HTTP status of each.
Invariant owned: a refused completion has changed nothing, and no message holds a token.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from workflows.exceptions.base import WorkflowError, show

if TYPE_CHECKING:
    from workflows.channels.outgoing import Sent


class DispatchFailed(WorkflowError):
    """A question could not be sent. The text is kept on the question, so it must name no secret.

    >>> DispatchFailed("hooks.example answered 503", retry_after=30).final
    False
    """

    def __init__(
        self,
        message: str,
        *,
        final: bool = False,
        away: bool = False,
        retry_after: float | None = None,
        sent: Sent | None = None,
    ) -> None:
        #: Whether trying again leads nowhere.
        self.final = final
        #: Whether the transport itself was not there, for this question or any other: then it does not count as a try.
        self.away = away
        #: Seconds that the other side asks to be left alone.
        self.retry_after = retry_after
        #: What the delivery log is told.
        self.sent = sent
        super().__init__(message)


class InteractionRefused(WorkflowError):
    """A completion was refused; nothing has changed by it."""


class UnknownInteraction(InteractionRefused, LookupError):
    """Unknown, cancelled, or of another workspace: told alike."""

    def __init__(self) -> None:
        super().__init__(
            "there is no such interaction here: check the id and the workspace. The id is the signal id of the "
            "question, or that of its Interaction; the id or the key of an instance is neither. Perhaps its wait has "
            "not begun, and it was not asked yet. Where an answer may come before its wait, emit an event, or hand out "
            "a callback first"
        )


class StaleVersion(InteractionRefused):
    """The caller decided on something that has changed."""

    def __init__(self, shown: object, current: int) -> None:
        self.shown, self.current = shown, current
        super().__init__(f"the interaction is at version {current}, not {shown!r}: look at it again, then answer")


class AnswerElsewhere(InteractionRefused):
    """The channel of this interaction takes its answers itself."""

    def __init__(self, channel: str, door: str) -> None:
        self.channel, self.door = channel, door
        super().__init__(f"an interaction of channel {channel!r} is answered {door}, not here")


class IdempotencyConflict(InteractionRefused):
    """An idempotency key came again, with other data."""

    def __init__(self, key: str) -> None:
        self.key = key
        super().__init__(f"idempotency key {key!r} was used with other data; use a new key for another call")


class InteractionResolved(InteractionRefused):
    """It has been answered, or its deadline has passed."""

    def __init__(self, how: str) -> None:
        self.how = how
        super().__init__(f"the interaction is {how} already; an answer can no longer be taken")


class ProjectionFailed(InteractionRefused):
    """The projector raised; the interaction stays pending."""

    def __init__(self, projector: str, error: Exception) -> None:
        self.projector = projector
        super().__init__(
            f"no output could be made of this answer: {projector} raised {type(error).__name__}: {show(error)}"
        )


class PolicyRefused(InteractionRefused):
    """The project's policy said no."""

    def __init__(self, operation: str, reason: str = "") -> None:
        self.operation, self.reason = operation, reason
        super().__init__(f'WORKFLOWS["POLICY"] refused {operation!r}{f": {reason}" if reason else ""}')


class InvalidToken(WorkflowError, LookupError):
    """Not a token that this site made with one of its keys. The message never holds the token."""

    def __init__(self) -> None:
        super().__init__(
            'this is no token of this site: it was not copied in full, or its key is gone from WORKFLOWS["TOKEN_KEYS"]'
        )
