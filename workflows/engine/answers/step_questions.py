"""Several open questions of an instance whose code does not repeat: of a step, or of a machine's stage.

Lives here: which questions are open, what came for them, parking on them, what becomes of them with an outcome. Must
not live here: how one of them stands (`open_questions`), and the author's values. Invariants owned:

* A question is found by its id. What is open under an id stays open while waits name it; a crash between any two
  statements leaves rows that the next run finds.
* An answer is handed out until an outcome uses it up: its row goes in the transaction of that outcome.
* A run of the author's code begins when as many questions are over as its wait wants, or when that wait's time is over.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import TYPE_CHECKING, Any
from uuid import UUID

from workflows.definitions.awaited_event import EVENT, EventSpec
from workflows.definitions.awaited_kinds import ASKED, AskSpec, Several
from workflows.definitions.outcomes import Await, Next, Outcome, Spawn, Suspend
from workflows.definitions.question import UNIT
from workflows.engine.answers.open_questions import OpenQuestions, find_names
from workflows.engine.event_loop import at_home
from workflows.exceptions import InvalidCall, InvalidOutcome, show
from workflows.lifecycle import ASKS, Call
from workflows.store import Saved
from workflows.values.json_text import RESERVED, read_back

if TYPE_CHECKING:
    from workflows.engine.context import StepContext
    from workflows.engine.journals.journal import Journal

#: Writes a question; of the end of an instance that is named, with its id.
Opening = Callable[[UUID | None], Saved]


class Answers(Mapping[str, Any]):
    """What has come for several questions, by their ids, the first one first: `ctx.answers["paid"]`.

    Reading one that failed raises what a single wait would have raised: `UnitFailed`, `ChildFailed`, `ChildCancelled`.
    """

    __slots__ = ("_over", "_questions", "_read")

    def __init__(self, questions: StepQuestions, over: Iterable[Saved]) -> None:
        self._questions, self._over = questions, {one.name: one for one in over}
        self._read: dict[str, Any] = {}

    def __getitem__(self, id: str) -> Any:
        if id not in self._over:
            raise KeyError(f"nothing has come for {show(id)}; there are answers to {', '.join(self._over) or 'none'}")
        if id not in self._read:
            self._read[id] = self._questions.read_typed(self._over[id])
        return self._read[id]

    def __iter__(self) -> Iterator[str]:
        return iter(self._over)

    def __len__(self) -> int:
        return len(self._over)

    def __contains__(self, id: object) -> bool:
        return id in self._over

    def __repr__(self) -> str:
        return f"<answers to {', '.join(self._over) or 'none'}>"


class StepQuestions:
    """The open questions of one run. Belongs to its `ctx`."""

    def __init__(self, ctx: StepContext, left: Journal) -> None:
        self._ctx, self._left = ctx, left
        self._how = OpenQuestions(ctx, left)
        listed = [one for one in left.load() if one.call in ASKS and one.position >= 0] if ctx.claim.asked else []
        #: Rows of questions that were withdrawn by a run that died before its outcome: they go with the next one.
        self._used: dict[int, Saved] = {one.position: one for one in listed if _is_withdrawn(one)}
        self._rows: dict[str, Saved] = {}
        #: Asked anew by a run that died before its outcome, while the answer of the earlier one is still handed out.
        self._later: dict[str, Saved] = {}
        for one in listed:
            if one.position not in self._used:
                (self._later if one.name in self._rows else self._rows).setdefault(one.name, one)
        self._next = 1 + max((one.position for one in listed), default=-1)
        self._how.look(self._rows.values())
        over = self._how.list_over(one for one in self._rows.values() if not self._how.find_closed_by_failure(one))
        self._over: dict[str, Saved] = {one.name: one for one in over}
        #: Whether the author's code of this run has been told of what is over.
        self._is_told = False
        #: Signals that questions have taken, and that the next run is to be handed.
        self._fresh: dict[int, str] = {}
        self._gone: set[str] = set()

    @property
    def answers(self) -> Answers:
        """What has come and was not withdrawn, typed."""
        return Answers(self, (one for one in self.hand_out().values() if one.name not in self._gone))

    def hand_out(self) -> dict[str, Saved]:
        """What is over, the first one first; from now on it is up to the outcome what becomes of it."""
        self._is_told = True
        return self._over

    @property
    def is_enough(self) -> bool:
        """Whether as many are over as the wait wants."""
        mark = _read_mark(self._ctx.claim.names)
        return mark is None or len(self._over) >= mark[0]

    @property
    def is_late(self) -> bool:
        """Whether the time of the wait itself is over."""
        mark = _read_mark(self._ctx.claim.names)
        return mark is not None and mark[1] is not None and mark[1] <= self._ctx.claim.at.timestamp() + 0.001

    def park_again(self) -> Suspend | None:
        """Go on waiting, where a run was woken for too little; None where the author's code has something to do."""
        mark = _read_mark(self._ctx.claim.names)
        if mark is None or self.is_enough or self.is_late:
            self.hand_out()
            return None
        return self._park(mark[0], mark[1], self._over)

    def withdraw(self, ids: Iterable[str]) -> None:
        """Close these with the outcome of this run, and hand out what came for them no more; all without ids."""
        listed = list(ids)
        known = {one.name for one in (*self._rows.values(), *self._used.values())}
        for id in listed:
            if id not in known:
                raise InvalidCall(
                    f"there is no question {show(id)}; there are {', '.join(sorted(self._rows)) or 'none'}"
                )
        self._gone |= set(listed or self._rows)

    def open(self, outcome: Await, now: float) -> Suspend:
        """Ask what is not open yet, withdraw what the wait leaves out, and park."""
        what = outcome.what
        assert isinstance(what, Several)
        left_out = {id for id in self._rows if id not in what.specs}
        self._drop(self._gone | left_out)
        self._gone = set()  # what is asked anew from here on is wanted
        with self._left.joining():
            asked = {id: self._prepare(id, spec) for id, spec in what.specs.items()}
            new = {id: one for id, one in asked.items() if not isinstance(one, Saved)}
            self._rows |= {id: one for id, one in asked.items() if isinstance(one, Saved)}
            named = self._left.hold([what.specs[id] for id in new]) if new else {}
            # In one transaction rows of channels come last. One by one: a held row has the rest of them asked again.
            for id in sorted(new, key=lambda id: _find_turn(what.specs[id])) if self._left.is_joined else new:
                self._rows[id] = new[id](named.get(id))
            self._rows = {id: self._rows[id] for id in what.specs}
        handed = [id for id, one in self._rows.items() if self._is_told and self._over.get(id) is one]
        if len(handed) == len(self._rows):
            raise InvalidOutcome(
                f"nothing is left to wait for, as there is an answer to {', '.join(handed)}. Go on with Next, which "
                "uses the answers up, or ask one anew after ctx.withdraw(id)"
            )
        until = outcome.timeout
        moment = until.timestamp() if isinstance(until, datetime) else None if until is None else now + until
        park = self._park(len(self._rows) if what.all else len(handed) + 1, moment, handed)
        return Suspend(park.names, until=park.until, then=outcome.then, state=outcome.state)

    def end_withdrawn(self, event: EventSpec | None = None) -> None:
        """Close at once what the author has withdrawn: with an outcome whose transaction can tell no channel of it.

        `event` is waited for from then on.
        """
        self._drop(self._gone)
        with self._left.joining():
            if event is not None and self._used:
                self._left.hold([AskSpec(Call.ASK_EVENT, "", event=event)])
            for one in self._used.values():
                self._end(one)

    def list_used(self, outcome: Outcome) -> tuple[int, ...]:
        """The places of the rows that go with an outcome: of what was withdrawn, and of answers that are used up."""
        self._drop(self._gone)
        used = set(self._used)
        if isinstance(outcome, Next | Spawn) and self._is_told:
            used |= {one.position for one in self._over.values()}
        return tuple(sorted(used))

    def list_numbers(self, more: frozenset[str]) -> list[int]:
        """The signals that an outcome uses up: what questions have taken, and nothing that is still waited for."""
        self._drop(self._gone)
        rows = [*self._rows.values(), *self._used.values()]
        taken = {one.signal for one in (*rows, *self._over.values()) if one.signal is not None}
        taken -= self._fresh.keys()
        open_names = {name for one in self._rows.values() if not self._how.is_over(one) for name in find_names(one)}
        open_names |= set(self._fresh.values())
        awaited = self._ctx.claim.names or [ASKED]
        names = {name for name in awaited if name.startswith(RESERVED)} | more
        names = (names | {f"{UNIT}{one.unit}" for one in self._over.values() if one.unit is not None}) - open_names
        if awaited[0] != ASKED:
            names |= set(awaited)  # a plain wait: what it was handed has been used, whoever looked at answers, too
        carried = self._ctx.claim.signals
        if carried is not None:
            return [row[0] for row in carried if row[1] in names or row[0] in taken]
        by_name = set(self._left.count(sorted(names))) if names else set()
        return [n for n in self._left.count(None) if n in by_name or n in taken]

    @at_home
    def read_json(self, saved: Saved) -> Any:
        """What came for a question, as JSON; raises how it ended otherwise."""
        if saved.unit is not None:
            return self._how.read_output(saved)
        match saved.call:
            case Call.ASK_SIGNAL:
                return read_back(saved.value or "")["payload"]
            case Call.ASK_EVENT:
                return read_back(saved.value or "")["data"]
            case Call.ASK_SLEEP:
                return None
        return self._how.read_end(saved)

    def read_typed(self, saved: Saved) -> Any:
        """What came for a question, as an author reads it: typed by its schema, and a signal as a whole."""
        from workflows.engine.context import Signal
        from workflows.engine.journals.handed_rows import cast_answer

        value = self.read_json(saved)
        with self._ctx.at_work():
            if saved.unit is not None:
                return cast_answer(f"{UNIT}{saved.unit}", value)
            if saved.call is Call.ASK_EVENT:
                return cast_answer(f"{EVENT}{self._find_wait(saved)}", value)
        if saved.call is Call.ASK_SIGNAL:
            kept = read_back(saved.value or "")
            return Signal([kept["n"], kept["name"], value, kept["received"], kept["source"]])
        return value

    @at_home
    def _find_wait(self, saved: Saved) -> Any:
        from workflows.models import EventWait

        rows = EventWait.objects.using(self._left.host.alias).filter(instance=self._ctx.id, slot=saved.position + 1)
        return rows.order_by("-pk").values_list("pk", flat=True).first()

    def _park(self, need: int, moment: float | None, handed: Collection[str]) -> Suspend:
        """The park on what is open, with what it wants as its second name; what came meanwhile wakes it at once."""
        until = None if moment is None else datetime.fromtimestamp(0, UTC) + timedelta(seconds=moment)
        fresh = [one for id, one in self._rows.items() if id not in handed and self._how.is_over(one)]
        if any(one.call is Call.ASK_SLEEP for one in fresh):
            until = self._ctx.claim.at  # until a moment that has passed already
        park = self._how.plan_park(list(self._rows.values()), more=until)
        # What has come and was not handed out stays in the inbox, and so wakes the next run at once.
        numbers = {one.signal for one in fresh if one.signal is not None}
        self._fresh = {one.n: one.name for one in self._ctx.list_inbox() if one.n in numbers} if numbers else {}
        answered = {f"{UNIT}{one.unit}" for one in fresh if one.unit is not None}
        names = {*park.names[1:], *answered, *self._fresh.values()}
        mark = f"{ASKED}:{need}:{'' if moment is None else repr(moment)}"
        return Suspend((ASKED, mark, *sorted(names)), until=park.until)

    def _drop(self, ids: Iterable[str]) -> None:
        """Nobody wants an answer to these any more; they are closed, and their rows go, with the outcome."""
        for id in ids:
            for one in (self._rows.pop(id, None), None if id in self._gone else self._later.pop(id, None)):
                if one is not None:
                    self._used[one.position] = one

    def _end(self, one: Saved) -> None:
        if not self._how.is_over(one):
            self._left.end_ask(one, expired=False)

    def _prepare(self, id: str, spec: AskSpec) -> Saved | Opening:
        """The question under an id: the one that is open, or how a new one is written once the locks are held."""
        found = self._rows.get(id)
        if found is not None and found.call is not spec.call:
            self._drop([id])
            found = None
        if found is None and (later := self._later.get(id)) is not None and later.call is spec.call:
            found = later
        if found is None:
            before = [one for one in self._used.values() if one.name == id]
            self._next += 1
            return partial(self._write, self._plan(spec, self._next - 1, anew=bool(before)), before, None)
        if not self._how.find_closed_by_failure(found):
            return found
        plan = self._plan(spec, found.position, anew=True, has_child=found.child is not None)
        return partial(self._write, plan, (), found.child)

    def _plan(self, spec: AskSpec, position: int, *, anew: bool, has_child: bool = False) -> Opening:
        """What the project's own code has a say in."""
        if spec.question is not None:
            return self._left.plan_question(spec, position, anew=anew)
        child = None
        if spec.child is not None and not has_child:
            from workflows.engine.planning import plan_spawned

            child = plan_spawned(spec.child)
        return self._left.plan_ask(spec, None, position, child=child)

    def _write(self, plan: Opening, before: Sequence[Saved], child: UUID | None, named: UUID | None) -> Saved:
        for one in before:
            self._end(one)  # its address is to be free
        return plan(named if child is None else child)


@at_home
def find_questions(ctx: StepContext, left: Journal) -> StepQuestions:
    """The several questions of an instance, as they stand."""
    return StepQuestions(ctx, left)


def _find_turn(spec: AskSpec) -> tuple[bool, str]:
    """When one of several is written: those whose channels have rows of their own come last."""
    asked = spec.question
    return asked is not None and asked.opener is not None, "" if asked is None else asked.signal_id or ""


def _is_withdrawn(one: Saved) -> bool:
    return one.settled and one.signal is None and not one.expired


def _read_mark(names: Iterable[str] | None) -> tuple[int, float | None] | None:
    """How many have to be over, and the moment at which the wait ends; None of another wait."""
    first, mark, *_ = [*(names or ()), "", ""]
    if first != ASKED or not mark.startswith(f"{ASKED}:"):
        return None
    need, moment = mark.removeprefix(f"{ASKED}:").split(":")
    return int(need), float(moment) if moment else None
