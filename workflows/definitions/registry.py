"""Which workflows there are: (name, version) -> definition.

Invariant owned: one definition per name and version in a process. A second one is refused where it is
defined, except when a module is loaded again, or when both live inside functions (tests define the same
little workflow over and over; a deployed one is always importable).
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from workflows.exceptions import DuplicateWorkflow, InvalidData, InvalidDefinition, InvalidInput, UnknownWorkflow

if TYPE_CHECKING:
    from workflows.definitions.flow.flow_options import FlowOptions
    from workflows.definitions.outcomes import Outcome
    from workflows.engine.context import Context
    from workflows.schemas.schema import Schema
    from workflows.values.schedule_options import ScheduleOptions

DEFAULT_MAX_ATTEMPTS = 5

#: Ends the name of what continues single items of a workflow. See `Definition.lines`.
LINES = ":items"

#: A signal that comes while the last step runs is closed with the instance; or that step runs again.
CLOSE, RERUN = "close", "rerun"


@dataclass(frozen=True, slots=True)
class StepOptions:
    """How one step runs."""

    atomic: bool = False
    step_timeout: float | None = None


@dataclass(frozen=True, slots=True)
class Definition:
    """What the engine needs to know of a workflow; every style makes one of these."""

    name: str
    version: int
    max_attempts: int
    step_timeout: float | None
    initial: str
    steps: Mapping[str, StepOptions]
    #: The one protocol: run the step that `ctx.step` names and return what happens next.
    run: Callable[[Context], Outcome]
    #: What happens after an exception.
    handle: Callable[[Exception, Context], Outcome]
    #: module.qualname, for messages and to recognise a reload.
    source: str
    #: What an input must look like; None takes anything.
    accepts: Schema | None = None
    #: For a function: its signature, which the input must fit.
    signature: inspect.Signature | None = None
    #: The named event that starts an instance.
    on_event: str | None = None
    #: The schedule that its code declares.
    schedule: ScheduleOptions | None = None
    #: Tells a definition that changed from one that did not; 0 is unknown. See `fingerprint`.
    fingerprint: int = 0
    #: What becomes of a signal that comes while the last step runs: `CLOSE` or `RERUN`.
    late_signals: str = CLOSE
    #: The class of a workflow in step style, for checks that read its text.
    workflow: type | None = None
    #: Whether it can read a signal that is sent by name.
    reads_signals: bool = False
    #: How many states an instance keeps, so that a fork can begin where one of them was.
    keep_states: int = 0
    #: Of a machine: whether a state that a caller made can be one of its instances'. Its stages ask and take the answer
    #: themselves, so that a fork begins with the asking.
    read_state: Callable[[Any], Any] | None = None
    #: The style's own kind of ctx.
    make_context: Callable[[Any, Any], Context] | None = None
    #: The code for the lines of its items: instances named `<name>:items`, which nobody starts but the store. It is a
    #: part of this workflow, and not listed by itself.
    lines: Definition | None = None
    #: Its place in the order of things; None where nothing distinguishes it.
    flow: FlowOptions | None = None

    @property
    def style(self) -> str:
        """How it is written: as "steps", a "function" or a "machine"."""
        if self.signature is not None:
            return "function"
        return "machine" if self.workflow is None else "steps"


class NotDeployed(Exception):
    """What the instance is about is not known to this process: for a built-in workflow to raise, and the engine to see.

    The instance is put back for a process that knows it, as where its workflow itself is unknown.
    """


_definitions: dict[tuple[str, int], Definition] = {}
_latest: dict[str, Definition] = {}
#: What no signal reaches, as "name:version", of these definitions: read at every signal, so it is not made each time.
_deaf: tuple[dict[tuple[str, int], Definition], tuple[str, ...]] | None = None


def register(definition: Definition) -> None:
    """Make a definition known; refuse a second owner of the same name and version."""
    global _deaf
    if definition.name.endswith(LINES):
        raise InvalidDefinition(
            f"workflow {definition.source}: its name ends with {LINES!r}, as those of the lines of items do; name it "
            "otherwise"
        )
    at = (definition.name, definition.version)
    known = _definitions.get(at)
    if known is not None and not may_replace(known.source, definition.source):
        raise DuplicateWorkflow(definition.name, definition.version, known.source, definition.source)
    if definition.flow is not None:
        definition.flow.check(definition.source, definition.accepts, definition.signature)
        _check_rate(definition)
    _definitions[at], _deaf = definition, None
    latest = _latest.get(definition.name)
    if latest is None or latest.version <= definition.version or latest is known:
        _latest[definition.name] = definition


def _check_rate(definition: Definition) -> None:
    """Refuse another size of a rate that workflows share: its buckets can have one only."""
    rate = None if definition.flow is None else definition.flow.rate
    if rate is None:
        return
    for other in _definitions.values():
        known = None if other.flow is None else other.flow.rate
        if known is None or known.name != rate.name or other.name == definition.name:
            continue
        sizes = [(one.count, one.per, one.burst) for one in (known, rate)]
        if sizes[0] != sizes[1] and not may_replace(other.source, definition.source):
            raise InvalidDefinition(
                f"workflow {definition.source}: Rate {rate.name!r} has another count, per or burst in {other.source}; "
                "workflows that share a rate share its size: name one of them otherwise, or write it once"
            )


def find(name: str, version: int) -> Definition | None:
    """The definition an instance was started with, if this process has it."""
    found = _definitions.get((name, version))
    if found is None and name.endswith(LINES):
        parent = _definitions.get((name.removesuffix(LINES), version))
        return None if parent is None else parent.lines
    return found


def resolve(workflow: object) -> Definition:
    """What a caller of `start` means: a workflow class or function, or a name (its highest version)."""
    definition = getattr(workflow, "definition", None)
    if isinstance(definition, Definition):
        return definition
    if isinstance(workflow, str) and workflow in _latest:
        return _latest[workflow]
    raise UnknownWorkflow(workflow, sorted(_latest))


def list_deaf() -> tuple[str, ...]:
    """The workflows that never read a signal sent by name, as "name:version"; of others this process knows nothing."""
    global _deaf
    if _deaf is None or _deaf[0] is not _definitions:
        whole = [one for one in _definitions.values() if not one.reads_signals]
        lines = [one.lines for one in _definitions.values() if one.lines is not None and not one.lines.reads_signals]
        names = tuple(f"{one.name}:{one.version}" for one in (*whole, *lines))
        _deaf = (_definitions, names)
    return _deaf[1]


def list_definitions() -> list[Definition]:
    """All definitions, by name and version."""
    return [_definitions[at] for at in sorted(_definitions)]


def list_latest() -> list[Definition]:
    """Each workflow in its highest version, by name."""
    return [_latest[name] for name in sorted(_latest)]


def list_names() -> list[str]:
    """The names that an instance may have in its row: of workflows, and of the lines of their items."""
    known = _definitions.values()
    return sorted({one.name for one in known} | {one.lines.name for one in known if one.lines is not None})


def check_input(definition: Definition, input: Any) -> None:
    """Refuse an input that the workflow cannot take: its `accepts`, or a function's parameters."""
    if definition.signature is not None:
        if not isinstance(input, dict):
            raise InvalidInput(definition.name, {"": "must be an object with the function's parameters"})
        ctx, *parameters = definition.signature.parameters.values()
        known = {one.name for one in parameters if one.kind in (one.POSITIONAL_OR_KEYWORD, one.KEYWORD_ONLY)}
        takes_any = any(one.kind is one.VAR_KEYWORD for one in parameters)
        errors = {
            one.name: "is required"
            for one in parameters
            if one.name in known and one.default is one.empty and one.name not in input
        }
        if takes_any and ctx.name in input:
            errors[ctx.name] = "is the function's own first parameter"
        if not takes_any:
            errors |= {name: "is no parameter of the function" for name in input if name not in known}
        if errors:
            raise InvalidInput(definition.name, errors)
    if definition.accepts is not None:
        try:
            definition.accepts.check(input)
        except InvalidData as error:
            raise InvalidInput(definition.name, error.errors) from error


def check_count(source: str, option: str, value: object) -> None:
    """`version` and `max_attempts` are small whole numbers."""
    if not isinstance(value, int) or isinstance(value, bool) or not 1 <= value <= 32_000:
        raise InvalidDefinition(f"workflow {source}: {option} must be a whole number from 1 to 32000, not {value!r}")


def check_kept(source: str, value: object) -> None:
    """`keep_states` is a whole number, too."""
    if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value <= 1_000:
        raise InvalidDefinition(f"workflow {source}: keep_states must be a whole number from 0 to 1000, not {value!r}")


def may_replace(known: str, new: str) -> bool:
    """Whether the second of two owners of a name is the first one loaded again, or both live inside functions."""
    if known == new:
        return True
    scope, local = known.rpartition(".<locals>.")[:2]
    other, other_local = new.rpartition(".<locals>.")[:2]
    return bool(local and other_local and scope != other)
