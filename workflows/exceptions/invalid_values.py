"""Arguments, answers and outcomes that cannot be used as they are.

Lives here: `InvalidCall` and the errors under it. Must not live here: reading or checking a value. Invariant owned:
nothing was stored when one of these is raised.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from django.utils.translation import gettext

from workflows.exceptions.base import WorkflowError, show
from workflows.wording.messages import Placed, Reason, make_sentence
from workflows.wording.messages import gettext_noop as _


def _tell_places(errors: Mapping[str, Any]) -> str:
    """Places with their reasons, in one line; what is wrong with the whole has no place."""
    told = []
    for place, given in list(errors.items())[:20]:
        reasons = ", ".join(map(str, given)) if isinstance(given, list | tuple) else str(given)
        told.append(f"{place:.200}: {reasons}" if place else reasons)
    if len(errors) > 20:
        told.append(f"and {len(errors) - 20} more")
    return "; ".join(told)


class InvalidCall(WorkflowError, ValueError):
    """An argument is wrong; the message says what to write instead. Nothing was stored."""

    #: What is wrong, where it can be somebody's who typed it.
    reason: str = ""

    def __init__(self, message: str, *, reason: str = "") -> None:
        if reason:
            self.reason = reason
        super().__init__(message)

    def tell(self) -> str:
        """A sentence for whoever typed it, in the language that is spoken now."""
        return make_sentence(self.reason) if self.reason else gettext("This cannot be used as it is.")


class NotSerializable(InvalidCall):
    """A value that cannot be kept as JSON in PostgreSQL."""

    def __init__(self, what: str, path: str, problem: str) -> None:
        self.what, self.path, self.problem = what, path, problem
        self.reason = Reason(
            _("this cannot be kept as it is: at %(place)s, %(problem)s"), {"place": path, "problem": problem}
        )
        super().__init__(f"{what} cannot be stored: at {path}, {problem}")


class TooLarge(InvalidCall):
    """A value above its limit."""

    def __init__(self, what: str, size: int, limit: int) -> None:
        self.what, self.size, self.limit = what, size, limit
        told = _("This answer is too large: %(size)s bytes, and %(limit)s at most.")
        self.reason = Reason(told, {"size": str(size), "limit": str(limit)})
        super().__init__(
            f"{what} is {size} bytes as JSON, the limit is {limit}. "
            "Keep the large part elsewhere and pass a reference to it."
        )


class TooMany(InvalidCall):
    """A list has more items than a unit may have."""

    def __init__(self, what: str, limit: int, setting: str) -> None:
        self.limit = limit
        super().__init__(
            f'{what} has more than {limit} items: split it into several waits, or raise WORKFLOWS["{setting}"]'
        )


class InvalidDuration(InvalidCall):
    """A duration that is not positive or not readable."""

    def __init__(self, value: object, problem: str) -> None:
        self.value = value
        super().__init__(
            f"{show(value)} is not a usable duration: {problem}. "
            'Write "30m", "24h", "7d", "1h30m", ISO 8601 such as "PT24H", seconds, or a timedelta.'
        )


class InvalidSchedule(InvalidCall):
    """A schedule that cannot be kept as it is written."""

    def __init__(self, problem: str) -> None:
        super().__init__(f"this is no usable schedule: {problem}")


class InvalidInput(InvalidCall):
    """The workflow does not accept this input; `.errors` maps a field to what is wrong with it."""

    def __init__(self, workflow: str, errors: Mapping[str, Any]) -> None:
        self.workflow, self.errors = workflow, dict(errors)
        super().__init__(f"workflow {workflow!r} does not accept this input: {_tell_places(self.errors)}")


class InvalidData(InvalidCall):
    """Data that its schema refuses; `.errors` maps a place ("amount", "lines.0.price", "" for all of it) to reasons."""

    def __init__(self, errors: Mapping[str, list[str]]) -> None:
        self.errors = dict(errors)
        self.reason = Placed(self.errors)
        super().__init__(f"the data does not fit its schema: {_tell_places(self.errors)}")


class TooComplex(InvalidData):
    """Data that takes more work to be checked than one answer may cost, right or wrong."""

    def __init__(self) -> None:
        super().__init__({"": [Reason(_("takes too much work to be checked: send less at once, or a simpler form"))]})


class InvalidSchema(InvalidCall):
    """A schema that cannot be used as it is written."""

    def __init__(self, schema: object, problem: str) -> None:
        super().__init__(
            f"{show(schema)} cannot be used as a schema: {problem}. Pass a JSON Schema, a dataclass, a pydantic model, "
            "a DRF serializer, a Django form, or a dict of field to type."
        )


class InvalidSignalId(InvalidCall):
    """A signal id that cannot be an address."""

    def __init__(self, signal_id: object) -> None:
        super().__init__(
            f"{show(signal_id)} is no signal id: use 1 to 200 characters, no control characters, and not . or .."
        )


class InvalidOutcome(InvalidCall):
    """A step returned something the engine cannot commit."""


class UnknownStep(InvalidOutcome):
    """An outcome leads to a step that does not exist."""

    def __init__(self, workflow: str, step: object, known: list[str]) -> None:
        self.workflow, self.step = workflow, step
        super().__init__(f"workflow {workflow!r} has no step {show(step)}; it has {', '.join(known)}")
