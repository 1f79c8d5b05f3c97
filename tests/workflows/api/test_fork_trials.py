"""A fork at any point of a finished run, left to itself with the same answers, ends like the run itself.

Programs are made by hypothesis, which prints the one that fails and how to run it again; the seed of a whole test
is printed with it.
"""

from __future__ import annotations

import itertools
import re
from typing import Any

import pytest
from django.db import transaction
from django.db.models import Q
from hypothesis import given, settings
from hypothesis import strategies as st

import workflows
from workflows import (
    Await,
    Child,
    Done,
    Machine,
    Next,
    Retry,
    SignalTimeoutError,
    Spawn,
    Workflow,
    action,
    all_of,
    any_of,
    callback,
    child,
    collect,
    durable,
    event,
    expand,
    parallel,
    question,
    received,
    sleep,
    step,
    wait_for,
)
from workflows.api.lineage.fork_points import list_points
from workflows.models import EventWait, Instance, Interaction
from workflows.testing import advance, drain

pytestmark = pytest.mark.django_db

TRIALS = settings(max_examples=2, print_blob=True)
_names = itertools.count()
#: What was run, in its order: of a fork nothing that lies before its point.
made: list[str] = []


def make(what: str) -> str:
    made.append(what)
    return f"made {what}"


class Twice(Workflow):
    name = "trials.twice"

    @step
    def run(self, ctx):
        return Done(2 * ctx.input["n"])


def play(instance: Instance) -> Instance:
    """Answer whatever is asked, always alike, until the instance has ended."""
    for _ in range(60):
        drain(max_steps=1_000)
        instance.refresh_from_db()
        if instance.ended:
            return instance
        if instance.status == "sleeping":
            advance("1h")
            continue
        mine = Q(instance=instance) | Q(instance__parent=instance)  # of the lines of its items and branches, too
        asked = Interaction.objects.filter(mine, status="pending", queued=False).order_by("id")
        waits = EventWait.objects.filter(instance=instance, closed_at=None)
        names = [name for name in instance.names or () if not name.startswith("holdpoint:")]
        if not (asked or waits or names):
            advance("1h")  # there is nothing to wait for but time
        for one in asked:
            workflows.complete(one, {"answer": f"{one.unit.step} {one.request}"})
        for wait in waits:
            workflows.emit(wait.event, {"news": wait.event})
        for name in names:
            workflows.signal(instance, name, f"payload of {name}")
    raise AssertionError(f"{instance!r} is {instance.status} at {instance.step!r} and gets no further")


def read_row(instance: Instance) -> dict[str, Any]:
    """Everything that is known of an instance: its row, and what stands beside it."""
    return {
        "row": Instance.objects.filter(pk=instance.pk).values().get(),
        **{
            name: list(getattr(instance, name).order_by("pk").values())
            for name in ("signals", "checkpoints", "units", "interactions", "events", "event_waits", "kept_states")
        },
    }


def is_before(what: str, at: str | None, input: Any) -> bool:
    """Whether a call of the program was made before another one."""
    place = {f"{kind}{n}": n for n, kind in enumerate(input.get("program", []))}
    if at is None:
        return False
    return place[what] < place.get(re.split("[:,/]", at)[0], len(place))


def check_every_fork(workflow: Any, input: Any, *, twice: bool = False) -> None:
    with transaction.atomic():
        made.clear()
        first = play(workflows.start(workflow, input))
        whole = list(made)
        before = read_row(first)
        for at in [None, *list_points(first)]:
            made.clear()
            forked = play(workflows.fork(first, at=at))
            if at is None or workflow is function:
                assert made == whole[sum(is_before(one, at, input) for one in whole) :], at
            assert (forked.status, forked.result, forked.error) == (first.status, first.result, first.error), at
            if twice:
                again = play(workflows.fork(forked, at=at))
                assert (again.status, again.result) == (first.status, first.result), f"{at}, twice"
        assert read_row(first) == before
        transaction.set_rollback(True)


# --- functions ------------------------------------------------------------------------------------

CALLS = (
    "step",
    "atomic",
    "signal",
    "channel",
    "event",
    "callback",
    "invoke",
    "sleep",
    "each",
    "launch",
    "caught",
    "asks",
    "received",
    "any",
    "first",
    "late",
    "gone",
    "timed",
    "gather",
)


#: Those of several open questions.
SEVERAL = ("any", "first", "late", "gone", "timed")


def fail(what: str) -> None:
    raise LookupError(what)


def ask_all(ctx: Any, id: str, n: int) -> list[Any]:
    """One question of each kind."""
    asked = {
        "a": question("desk", input=n),
        "b": event(f"trials.{id}"),
        "c": received(f"go.{id}"),
        "d": child(asking, {"n": n}),
        "e": callback(),
    }
    return [ctx.ask(f"{id}:{name}", what) for name, what in asked.items()]


def read(answer: Any) -> Any:
    return getattr(answer, "payload", answer)


@durable(name="trials.asking")
def asking(ctx, n):
    return ctx.wait_for("asked", "desk", input=n)


@durable(name="trials.function", signals=True)
def function(ctx, program):
    out = []
    callbacks = {}
    late, gone = [], []
    for n, kind in enumerate(program):
        id = f"{kind}{n}"
        match kind:
            case "step":
                out.append(ctx.step(id, make, id))
            case "atomic":
                out.append(ctx.atomic(id, make, id))
            case "signal":
                out.append(ctx.wait_for_signal(id, timeout="1d"))
            case "channel":
                out.append(ctx.wait_for(id, "desk", input=n))
            case "event":
                out.append(ctx.wait_for_event(id, event=f"trials.{id}", timeout="1d"))
            case "callback":
                callbacks[id] = ctx.callback(id, timeout="1d")
            case "invoke":
                out.append(ctx.invoke(id, Twice, {"n": n}))
            case "sleep":
                ctx.sleep(id, "1m")
            case "each":
                out.append(ctx.wait_for_each(id, [n, n + 1], "desk"))
            case "launch":
                out.append(type(ctx.launch(id, Twice, {"n": n})).__name__)
            case "asks":
                both = [ctx.ask(f"{id}:a", question("desk", input=n)), ctx.ask(f"{id}:b", event(f"trials.{id}"))]
                out.append([one.result() for one in ctx.wait_all(both)])
            case "any":
                waiting, told = ask_all(ctx, id, n), []
                while waiting:
                    over = ctx.wait_any(waiting)
                    waiting.remove(over)
                    told.append([over.id, read(over.answer), [one.id for one in waiting if one.over]])
                out.append(sorted(told)[:: len(told)])
            case "first":
                both = [ctx.ask(f"{id}:{name}", question("desk")) for name in "ab"]
                over = ctx.wait_any(both)
                out.append([over.id, [one.answered for one in both]])
                for one in both:
                    one.withdraw()
            case "late":
                late += ask_all(ctx, id, n)
            case "gone":
                gone += ask_all(ctx, id, n)
            case "timed":
                try:
                    ctx.wait_all(ctx.ask(f"{id}:a", sleep("3d")), timeout="1m")
                except SignalTimeoutError as error:
                    out.append(str(error))
            case "gather":
                out.append(ctx.gather(id, {"a": (str, n), "b": (int, n)}))
            case "received":
                out.append(ctx.wait_for(id, received(f"go{n}"), timeout="1d").payload)
            case "caught":
                try:
                    ctx.step(id, fail, id)
                except LookupError as error:
                    out.append(str(error))
    for id, partner in callbacks.items():
        out.append([id, partner.wait()])
    for one in gone:
        one.withdraw()
    out += [read(one.result()) for one in ctx.wait_all(late)] if late else []
    return out


@TRIALS
@given(st.lists(st.sampled_from(CALLS), min_size=1, max_size=5))
def check_functions(program):
    check_every_fork(function, {"program": program})


def test_a_fork_of_a_function_at_any_call_ends_like_the_run_itself():
    check_functions()
    check_every_fork(function, {"program": [kind for kind in CALLS if kind not in SEVERAL]}, twice=True)


@pytest.mark.parametrize("kind", SEVERAL)
def test_a_fork_of_a_function_with_several_questions_ends_like_the_run_itself(kind):
    check_every_fork(function, {"program": [kind, "signal", "step"]}, twice=True)


# --- steps ----------------------------------------------------------------------------------------

ACTS = ("next", "await", "two", "question", "callback", "event", "spawn", "retry", "delay", "again", "any", "all")


def act(self: Any, ctx: Any, place: int) -> Any:
    """One step of a program: note what was handed in, then do what the program says, towards the next step."""
    state = {**ctx.state} if "out" in ctx.state else {"out": []}
    answers = {id: read(ctx.answers[id]) for id in sorted(ctx.answers)}
    handed = [answers] if answers else [[one.name if ":" not in one.name else "", one.payload] for one in ctx.awaited]
    ready = [child.result for child in ctx.children] if state.get("spawned") == place - 1 else []
    program = ctx.input["program"]
    kind = program[place] if place < len(program) else "done"
    after = f"s{place + 1}"
    if kind == "again" and len(ctx.awaited) < 3:
        return (
            Await(f"again{place}", then=f"s{place}")
            if state.get("parked") == place
            else Await(f"again{place}", then=f"s{place}", state=state | {"parked": place})
        )
    state = state | {"out": [*state["out"], [place, sorted(map(str, handed)), sorted(ready), ctx.attempt > 0]]}
    match kind:
        case "next" | "again":
            make(after)
            return Next(after, state)
        case "await":
            return Await(f"go{place}", then=after, state=state)
        case "two":
            return Await([f"go{place}", f"stop{place}"], then=after, state=state)
        case "question":
            from workflows.definitions.question import Question

            return Await(Question(f"q{place}", channel="desk", request=place), then=after, state=state)
        case "callback":
            return Await(ctx.callback(f"c{place}"), then=after, state=state, timeout="1d")
        case "event":
            return Await(event(f"trials.s{place}"), then=after, state=state)
        case "any" | "all":
            asked = {"ok": question("desk", input=place), "go": received(f"any{place}")}
            if kind == "all":
                asked |= {"child": child(Twice, {"n": place}), "late": sleep("1m")}
            return Await((any_of if kind == "any" else all_of)(asked), then=after, state=state)
        case "spawn":
            children = [Child(Twice, {"n": n}) for n in range(2)]
            return Spawn(children, then=after, state=state | {"spawned": place})
        case "retry":
            return Retry(delay=0) if ctx.attempt < 2 else Next(after, state)
        case "delay":
            return Next(after, state, delay="1m")
    return Done(state["out"])


def make_step(place: int) -> Any:
    return step(lambda self, ctx: act(self, ctx, place))


Steps = type(
    "Steps",
    (Workflow,),
    {
        "name": "trials.steps",
        "keep_states": 50,
        **{f"s{place}": make_step(place) for place in range(len(ACTS) + 1)},
    },
)


@TRIALS
@given(st.lists(st.sampled_from([kind for kind in ACTS if kind not in ("any", "all")]), min_size=1, max_size=5))
def check_steps(program):
    check_every_fork(Steps, {"program": program})


def test_a_fork_of_steps_at_any_step_ends_like_the_run_itself():
    check_steps()
    check_every_fork(Steps, {"program": [kind for kind in ACTS if kind not in ("any", "all")]}, twice=True)


@pytest.mark.parametrize("kind", ["any", "all"])
def test_a_fork_of_steps_with_several_questions_ends_like_the_run_itself(kind):
    check_every_fork(Steps, {"program": ["await", kind, "next"]}, twice=True)


def test_a_step_that_looks_at_answers_parks_on_a_signal_that_it_was_handed_without_spinning():
    with transaction.atomic():
        assert play(workflows.start(Steps, {"program": ["any", "again"]})).status == "done"
        transaction.set_rollback(True)


# --- machines -------------------------------------------------------------------------------------

STAGES = ("action", "channel", "callback", "event", "signal", "sleep", "asked", "lines", "expand", "parallel")
STAGES += ("any", "all")


def make_stages(kind: str, n: int) -> dict[str, Any]:
    name = f"{kind}{n}"
    match kind:
        case "action":
            return {name: action(lambda ctx: [make(name), len(ctx.steps)])}
        case "channel":
            return {name: wait_for(channel="desk", input=n)}
        case "callback":
            return {name: wait_for(callback=True, timeout="1d")}
        case "event":
            return {name: wait_for(event=f"trials.m{n}")}
        case "signal":
            return {name: wait_for(signal=f"go{n}")}
        case "sleep":
            return {name: sleep("1m")}
        case "any":
            return {name: wait_for(any_of={"ok": question("desk", input=n), "go": received(f"any{n}")})}
        case "all":
            asked = {"ok": question("desk", input=n), "go": received(f"all{n}"), "news": event(f"trials.all{n}")}
            return {name: wait_for(all_of=asked | {"child": child(Twice, {"n": n}), "late": sleep("1m")})}
        case "parallel":
            return {name: parallel(made=action(lambda ctx: make(name)), asked=wait_for(channel="desk", input=n))}
        case "asked":
            return {
                f"open{n}": expand(lambda ctx: [n, n + 1]),
                name: wait_for(channel="desk", each=True),
                f"close{n}": collect(lambda ctx, items: [str(one) for one in items]),
            }
        case "lines":
            return {
                f"open{n}": expand(lambda ctx: [n, n + 1]),
                f"ask{n}": wait_for(channel="desk", each=True),
                name: action(lambda ctx: [ctx.item, str(ctx.steps[f"ask{n}"])]),
                f"close{n}": collect(lambda ctx, items: [str(one) for one in items]),
            }
        case _:
            return {
                f"open{n}": expand(lambda ctx: [n, n + 1]),
                name: action(lambda ctx: ctx.item * 2),
                f"close{n}": collect(lambda ctx, items: [str(one) for one in items]),
            }


@TRIALS
@given(st.lists(st.sampled_from(STAGES), min_size=1, max_size=4))
def check_machines(program):
    check_machine(program)


def check_machine(program: list[str], *, twice: bool = False) -> None:
    stages: dict[str, Any] = {}
    for n, kind in enumerate(program):
        stages |= make_stages(kind, n)
    stages["last"] = action(lambda ctx: {name: str(ctx.steps[name]) for name in stages if name in ctx.steps})
    members = {"name": f"trials.machine{next(_names)}", "keep_states": 50, **stages}
    machine = type("Trial", (Machine,), members)
    check_every_fork(machine, {}, twice=twice)


def test_a_fork_of_a_machine_at_any_stage_ends_like_the_run_itself():
    check_machines()
    check_machine([kind for kind in STAGES if kind not in ("any", "all")], twice=True)


@pytest.mark.parametrize("kind", ["any", "all"])
def test_a_fork_of_a_machine_with_several_questions_ends_like_the_run_itself(kind):
    check_machine(["action", kind, "parallel"], twice=True)
