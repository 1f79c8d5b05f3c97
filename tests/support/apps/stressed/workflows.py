"""Workflows of the three styles that choose their outcomes at random, by their input alone."""

from __future__ import annotations

import random
from typing import Any

from workflows import (
    Await,
    Child,
    ChildFailed,
    Done,
    Machine,
    Next,
    Retry,
    SignalTimeoutError,
    Spawn,
    Stop,
    Workflow,
    action,
    durable,
    event,
    flow,
    step,
    wait_for,
)
from workflows.models import Workspace

#: The reason of everything that may fail.
TOLD = "told to fail"
EVENTS = ("stress.a", "stress.b", "stress.c")
MANY = 60


def pick_timeout(rng: random.Random) -> str:
    return "1h" if rng.random() < 0.15 else f"{rng.uniform(0.2, 1.5):.2f}s"


def write(n: int) -> int:
    Workspace.objects.filter(slug="default").update(name=f"default {n}")
    return n


class StressSteps(Workflow):
    name = "stress.steps"
    max_attempts = MANY

    @step
    def go(self, ctx: Any) -> Any:
        return self.choose(ctx)

    @step(atomic=True)
    def atomic(self, ctx: Any) -> Any:
        Workspace.objects.filter(slug="default").update(name=f"default {ctx.state['n']}")
        return self.choose(ctx)

    def choose(self, ctx: Any) -> Any:
        made = ctx.state["made"] = ctx.state.get("made", 0) + 1
        rng = random.Random(f"{ctx.state['seed']}:{ctx.state['n']}:{made}")
        then = rng.choice(["go", "go", "atomic"])
        if made > ctx.state["steps"]:
            return Stop(TOLD) if rng.random() < 0.05 else Done(made)
        match rng.choice(["next", "next", "later", "retry", "names", "event", "callback", "address", "spawn", "read"]):
            case "later":
                return Next(then, delay=rng.uniform(0.05, 0.4))
            case "retry":
                return Retry(delay=0.05)
            case "names":
                return Await({"a", "b"}, then=then, timeout=pick_timeout(rng))
            case "event":
                return Await(event(rng.choice(EVENTS)), then=then, timeout=pick_timeout(rng))
            case "callback":
                return Await(ctx.callback(f"ask-{made}"), then=then, timeout=pick_timeout(rng))
            case "address":
                asked = ctx.callback(f"told-{made}")
                assert asked.resume_token
                return Await(asked, then=then, timeout=pick_timeout(rng))
            case "spawn" if ctx.state["depth"] < 2:
                below = {"seed": ctx.state["seed"], "depth": ctx.state["depth"] + 1, "steps": 2}
                first = ctx.state["n"] * 100 + made * 10
                return Spawn(
                    [
                        Child(rng.choice([StressSteps, function]), {**below, "n": first + at})
                        for at in range(rng.randint(1, 3))
                    ],
                    then=then,
                )
            case "read":
                write(made)
                assert all(one.status for one in ctx.children)
        return Next(then)


@durable(name="stress.function", max_attempts=MANY)
def function(ctx: Any, seed: int, n: int, depth: int, steps: int) -> Any:
    rng = random.Random(f"{seed}:{n}")
    for at in range(steps):
        choice = rng.choice(["step", "atomic", "sleep", "signal", "event", "invoke", "emit", "callback"])
        timeout, which, name = pick_timeout(rng), rng.choice(EVENTS), f"{choice}-{at}"
        try:
            match choice:
                case "step":
                    ctx.step(name, write, at)
                case "atomic":
                    ctx.atomic(name, write, at)
                case "sleep":
                    ctx.sleep(name, 0.2)
                case "signal":
                    ctx.wait_for_signal(name, timeout=timeout)
                case "event":
                    ctx.wait_for_event(name, event=which, timeout=timeout)
                case "callback":
                    ctx.callback(name, timeout=timeout).wait()
                case "emit":
                    ctx.emit(name, which, {"n": n})
                case "invoke" if depth < 2:
                    ctx.invoke(name, StressSteps, {"seed": seed, "n": n * 100 + at, "depth": depth + 1, "steps": 2})
        except (SignalTimeoutError, ChildFailed):
            pass
    return n


class StressMachine(Machine):
    name = "stress.machine"
    max_attempts = MANY

    first = action(lambda ctx: write(1))
    asked = wait_for(callback=True, timeout="0.8s", on_timeout="late")
    written = action(lambda ctx: write(2), atomic=True)
    heard = wait_for(event=EVENTS[0], timeout="0.8s", on_timeout="late")
    late = flow(action(lambda ctx: {"late": True}))
