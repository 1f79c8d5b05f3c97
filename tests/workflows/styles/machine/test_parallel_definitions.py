"""Branches that cannot be, refused by the class statement; and the words of `parallel` in a YAML file."""

from typing import Any

import pytest

import workflows
from workflows import (
    END,
    InvalidDefinition,
    Machine,
    action,
    branch,
    collect,
    expand,
    flow,
    parallel,
    wait_for,
)
from workflows.models import Interaction
from workflows.testing import assert_done, drain

pytestmark = pytest.mark.django_db


def nothing(ctx: Any) -> Any:
    return None


def define(**members: Any) -> type[Machine]:
    return type("BranchesDefined", (Machine,), members)


shared = action(nothing)

WRONG: dict[str, tuple[dict[str, Any], str]] = {
    "no branch": ({"wrong": parallel()}, "stage 'wrong': parallel needs a branch"),
    "an empty branch": ({"wrong": parallel(a=[])}, "branch 'a' needs at least one stage"),
    "no stages": ({"wrong": parallel(a=nothing)}, "branch 'a' is a stage or a list of stages"),
    "a name of ours": ({"wrong": parallel(END=action(nothing))}, "'END' cannot be the name of a branch"),
    "an underscore": ({"wrong": parallel(_a=action(nothing))}, "'_a' cannot be the name of a branch"),
    "no name": ({"wrong": parallel(**{"a b": action(nothing)})}, "'a b' cannot be the name of a branch"),
    "nested": ({"wrong": parallel(a=parallel(b=action(nothing)))}, "a branch holds no parallel; make that a machine"),
    "a stream": ({"wrong": parallel(a=[expand(nothing), collect(nothing)])}, "a branch holds no stream"),
    "in a flow": ({"a": action(nothing), "side": flow(parallel(b=action(nothing)))}, "a flow holds no parallel"),
    "in a stream": (
        {"a": expand(nothing), "wrong": parallel(b=action(nothing))},
        "'wrong': it would run once per item of the stream that 'a' opens",
    ),
    "one stage in two branches": (
        {"a": shared, "wrong": parallel(b=shared, c=shared)},
        "'a': it stands in 'wrong.b' and again in 'wrong.c'; make another one",
    ),
    "one stage in a branch and a flow": (
        {"a": shared, "wrong": parallel(b=shared), "side": flow(shared)},
        "'a': it stands in 'side' and again in 'wrong.b'",
    ),
    "out of a branch": (
        {"wrong": parallel(a=action(nothing, then="last")), "last": action(nothing)},
        "'wrong.a': it leads to 'last', out of branch 'a' of 'wrong'; it may be led to wrong.a, END or a flow",
    ),
    "into another branch": (
        {"a": action(nothing), "wrong": parallel(b=a_, c=action(nothing, then="first")), "first": a_}
        if (a_ := action(nothing))
        else {},
        "'wrong.c': it leads to 'first', out of branch 'c' of 'wrong'",
    ),
    "into a branch": (
        {"a": branch(nothing, to=["in"]), "in": a_, "wrong": parallel(b=a_)},
        "'a': it leads to 'in', which stands in branch 'b' of 'wrong'",
    ),
    "a stage that cannot be": ({"wrong": parallel(a=wait_for())}, "stage 'wrong.a': wait_for takes one of"),
    "a signal in a stream": (
        {"a": expand(nothing), "wrong": wait_for(signal="x")},
        "addressed to the machine's instance",
    ),
    "a signal with a schema": ({"wrong": wait_for(signal="x", schema={"a": int})}, "schema= is of what is asked"),
    "a signal and a channel": ({"wrong": wait_for(signal="x", channel="api")}, "here it has signal and channel"),
    "no signal": ({"wrong": wait_for(signal=[])}, "needs at least one name"),
    "a flow for signals in a stream": (
        {
            "a": expand(nothing),
            "b": wait_for(channel="api", timeout="1h", on_timeout="side"),
            "side": flow(wait_for(signal="x")),
        },
        r"'side.0': a signal is addressed to the machine's instance",
    ),
}


@pytest.mark.parametrize("case", WRONG)
def test_branches_that_cannot_be_are_refused_when_the_class_is_made(case: str) -> None:
    members, message = WRONG[case]
    with pytest.raises(InvalidDefinition, match=message):
        define(**members)


def test_the_steps_of_a_machine_are_its_own_and_those_of_its_branches_its_lines() -> None:
    made = define(
        a=action(nothing),
        both=parallel(b=[action(nothing), branch(nothing, to=["both.b.0", "side", END])], c=action(nothing)),
        side=flow(action(nothing)),
    )
    assert list(made.definition.steps) == ["a", "both", "side.0"]
    assert made.definition.lines is not None
    assert list(made.definition.lines.steps) == ["both", "both.b.0", "both.b.1", "both.c", "side.0", "END"]


def test_another_order_or_another_stage_of_a_branch_is_another_machine() -> None:
    prints = {
        define(both=parallel(**branches)).definition.fingerprint
        for branches in (
            {"a": action(nothing), "b": wait_for(event="x")},
            {"a": action(nothing), "c": wait_for(event="x")},
            {"a": action(nothing), "b": action(nothing)},
            {"a": [action(nothing), action(nothing)], "b": wait_for(event="x")},
        )
    }
    assert len(prints) == 4


def test_branches_are_written_with_the_same_words_in_yaml() -> None:
    machine = Machine.from_yaml(
        """
name: parallel.yaml
stages:
  - checks:
      parallel:
        legal: {wait for: {channel: chat}}
        money:
          - offer: {action: offer}
          - paid: {wait for: {signal: paid}}
  - last: {action: last}
""",
        functions={"offer": lambda ctx: ctx.input["n"], "last": lambda ctx: [ctx.steps.checks.legal, ctx.steps.offer]},
    )
    one = workflows.start(machine, {"n": 7})
    drain()
    workflows.signal(one, "paid")
    workflows.complete(Interaction.objects.get(status="pending"), "yes")
    drain()
    assert_done(one, ["yes", 7])


WRONG_TEXT = {
    "a list": ("parallel: [a, b]", "line 3: parallel of stage 'a' is written as `key: value`"),
    "no stage": ("parallel: {b: nothing}", "branch 'b' is a list"),
    "more beside": ("{parallel: {b: {action: f}}, then: END}", "stage 'a' knows no 'then'"),
    "a bad name": ("parallel: {END: {action: f}}", "line 3, stage 'a': 'END' cannot be the name of a branch"),
}


@pytest.mark.parametrize("case", WRONG_TEXT)
def test_a_mistake_in_yaml_is_told_with_its_line(case: str) -> None:
    text, message = WRONG_TEXT[case]
    body = text if text.startswith("{") else f"{{{text}}}"
    with pytest.raises(InvalidDefinition, match=message):
        Machine.from_yaml(f"name: parallel.wrong\nstages:\n  - a: {body}\n", functions={"f": nothing})
