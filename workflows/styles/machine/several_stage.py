"""The stage that waits for several questions at once: `wait_for(any_of={…})` and `wait_for(all_of={…})`.

Lives here: reading its questions, asking them, and what their answers read as. Must not live here: how a
question stands (`engine.step_questions`). Invariant owned: a stage that is left has no question open.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import MISSING, dataclass, field, fields, replace
from typing import TYPE_CHECKING, Any
from uuid import UUID

from workflows.definitions.awaited_event import EventSpec
from workflows.definitions.awaited_kinds import AskSpec, AwaitedSignal, Several, list_asked, read_one
from workflows.definitions.outcomes import Outcome, Stop
from workflows.engine.journals.handed_rows import find_owner
from workflows.exceptions import (
    ChildCancelled,
    ChildFailed,
    InvalidDefinition,
    InvalidOutcome,
    UnitFailed,
    describe_error,
    show,
)
from workflows.styles.machine.stage_values import View, read_typed, wrap_value
from workflows.styles.machine.stages import END, FAIL, Stage, WaitFor, check_function, is_function

if TYPE_CHECKING:
    from workflows.styles.machine.machine_context import MachineContext
    from workflows.styles.machine.stage_plan import PlanNode
    from workflows.styles.machine.stage_run import StageRun

#: What belongs to the wait, and not to one of its questions.
_OWN = frozenset({"atomic", "line", "timeout", "until", "on_timeout", "any_of", "all_of", "asks"})


@dataclass(frozen=True, eq=False)
class WaitForSeveral(WaitFor):
    any_of: Any = None
    all_of: Any = None
    #: The questions by their ids, read; or the function of ctx that makes one.
    asks: Mapping[str, Any] = field(default_factory=dict)

    def read(self) -> Stage:
        for one in fields(self):
            if one.name not in _OWN and getattr(self, one.name) != (None if one.default is MISSING else one.default):
                raise InvalidDefinition(
                    f"{one.name}= does not stand beside {self.word}=: it belongs to one of the questions, as in "
                    f'{self.word}={{"ok": question("chat", schema=…)}}'
                )
        if self.any_of is not None and self.all_of is not None:
            raise InvalidDefinition("wait_for has any_of= and all_of=: leave one of them out")
        self._check_time()
        listed = list_asked(self.word, self.any_of if self.all_of is None else self.all_of, {})
        return replace(self, asks={id: self._read_one(id, what) for id, what in listed.items()})

    def _read_one(self, id: str, what: object) -> Any:
        if not id.isidentifier() or id.startswith("_") or id in (END, FAIL):
            raise InvalidDefinition(
                f"{show(id)} cannot be an id in {self.word}: use letters, digits and _ (not first), not {END} or {FAIL}"
            )
        return check_function(what) if is_function(what) else read_one(self.word, id, what)

    @property
    def word(self) -> str:
        """How it is written."""
        return "any_of" if self.all_of is None else "all_of"

    def list_signals(self) -> tuple[str, ...]:
        return tuple(name for one in self.asks.values() if isinstance(one, AskSpec) for name in one.names)

    def is_enough(self, over: int) -> bool:
        """Whether so many questions that are over end the wait."""
        return over >= (1 if self.all_of is None else len(self.asks))

    def make_several(self, name: str, call: Callable[[Any], Any]) -> Several:
        """The questions as a run of the stage `name` asks them; `call` asks a function for its value."""
        specs = {}
        for id, one in self.asks.items():
            listed = (self.any_of if self.all_of is None else self.all_of)[id]
            if not isinstance(one, AskSpec):
                listed = call(one)
                if isinstance(listed, AwaitedSignal | str):
                    raise InvalidOutcome(
                        f"the function of {id!r} in stage {name!r} returned {show(listed)}: which signals a machine "
                        "reads has to be known beforehand; write received(…) itself"
                    )
            specs[f"{name}.{id}"] = read_one(self.word, id, listed, f"{name}.")
        return Several(specs, all=self.all_of is not None)

    def read_answers(self, ctx: MachineContext, name: str, stored: Mapping[str, Any], asker: UUID | None) -> View:
        """The answers by the ids of the questions, each as its question types it."""
        return View(
            {id: self._read_answer(ctx, name, id, value, asker) for id, value in stored.items()}, f"steps.{name}"
        )

    def _read_answer(self, ctx: MachineContext, name: str, id: str, stored: object, asker: UUID | None) -> Any:
        spec, place = self.asks.get(id), f"steps.{name}.{id}"
        if isinstance(spec, AskSpec):
            question, schema = spec.question, spec.event.schema if isinstance(spec.event, EventSpec) else None
            if question is not None and question.projector is None:
                if question.opener is not None and question.opener.owns_answers:
                    return type(question.opener).read_answer(stored, question.schema)
                schema = question.schema
            return wrap_value(stored, place) if schema is None else read_typed(schema, stored, place)
        owner = find_owner(ctx._ctx.id if asker is None else asker, f"{name}.{id}")
        return wrap_value(stored, place) if owner is None else owner[0].read_answer(stored, owner[1])


def take_answers(run: StageRun, node: PlanNode, stage: WaitForSeveral) -> dict[str, Any] | Outcome | None:
    """What has come, by the ids of the questions; None while that is not enough.

    What failed fails the instance; after a retry it is asked anew.
    """
    over, prefix = run.ctx.questions.hand_out(), f"{node.name}."
    retried = run.kept.get("failed") == node.name
    answers = {}
    for name, saved in over.items():
        try:
            answers[name.removeprefix(prefix)] = run.ctx.questions.read_json(saved)
        except (UnitFailed, ChildFailed, ChildCancelled) as error:
            if not retried:
                run.ctx.state = run.kept | {"failed": node.name}
                return Stop(describe_error(error))
            run.ctx.withdraw(name)
    if not stage.is_enough(len(answers)):
        return None
    run.ctx.withdraw()
    return answers
