"""Streams that cannot be, refused by the class statement: it names the stage and says what to do."""

from typing import Any

import pytest

from workflows import (
    END,
    FAIL,
    InvalidDefinition,
    Machine,
    Workflow,
    action,
    branch,
    collect,
    expand,
    flow,
    step,
    wait_for,
)
from workflows.definitions import registry


def nothing(ctx: Any) -> Any:
    return None


def define(**members: Any) -> type[Machine]:
    return type("LinesDefined", (Machine,), members)


ask = {"channel": "api", "timeout": "1h"}

WRONG: dict[str, tuple[dict[str, Any], str]] = {
    "expand in a stream": (
        {"a": expand(nothing), "b": action(nothing), "wrong": expand(nothing)},
        "would open a stream inside the one that 'a' opens; collect",
    ),
    "a list asked for in a stream": (
        {"a": expand(nothing), "wrong": wait_for(channel="api", cardinality="ONE_TO_MANY")},
        "would open a stream inside the one that 'a' opens",
    ),
    "a stream in a flow": (
        {"a": action(nothing), "side": flow(expand(nothing))},
        "a flow holds no stream; make that a machine of its own",
    ),
    "each in a flow": (
        {"a": action(nothing), "side": flow(wait_for(channel="api", each=True))},
        "a flow holds no stream",
    ),
    "into a stream": (
        {"wrong": action(nothing, then="b"), "a": expand(nothing), "b": action(nothing)},
        "'wrong': it leads to 'b', which runs once per item of the stream that 'a' opens",
    ),
    "out of a stream": (
        {"a": expand(nothing), "wrong": action(nothing, then="c"), "b": collect(nothing), "c": action(nothing)},
        "'wrong': it leads to 'c', out of the stream that 'a' opens; an item may be led to wrong, END or a flow",
    ),
    "to the end of its stream": (
        {"a": expand(nothing), "wrong": branch(nothing, to=["b", END]), "b": collect(nothing)},
        "it leads to 'b', out of the stream",
    ),
    "out of a stream through a flow": (
        {
            "a": expand(nothing),
            "b": wait_for(channel="api", timeout="1h", on_timeout="side"),
            "c": collect(nothing),
            "d": action(nothing),
            "side": flow(action(nothing, then="d")),
        },
        r"'side\.0': it leads to 'd', out of the stream that 'a' opens",
    ),
    "a policy inside a stream": (
        {"a": expand(nothing), "b": action(nothing), "wrong": wait_for(channel="api", each=True, on_item="partial")},
        "on_item= and concurrency= stand at the stage that opens a stream",
    ),
    "a policy where a stream ends": (
        {"a": expand(nothing), "wrong": wait_for(channel="api", cardinality="MANY_TO_ONE", concurrency=3)},
        "stand at the stage that opens a stream",
    ),
    "collect without a function": ({"a": expand(nothing), "wrong": collect(None)}, "a function of ctx"),
}


@pytest.mark.parametrize("case", WRONG)
def test_a_stream_that_cannot_be_is_refused_when_the_class_is_made(case: str) -> None:
    members, message = WRONG[case]
    with pytest.raises(
        InvalidDefinition,
        match=rf"machine tests\.workflows\.styles\.machine\.test_stream_definitions.*stage.*{message}",
    ):
        define(**members)


def test_targets_inside_a_stream_may_be_its_stages_the_end_and_flows() -> None:
    made = define(
        a=expand(nothing),
        b=branch(nothing, to=["c", "d", END, FAIL, "side"]),
        c=action(nothing, then="b"),
        d=wait_for(**ask, on_timeout="side"),
        e=collect(nothing),
        f=action(nothing, then="a"),
        side=flow(action(nothing, then=END)),
    )
    assert list(made.definition.steps) == ["a", "e", "f", "side.0"]
    assert made.definition.lines is not None
    assert list(made.definition.lines.steps) == ["b", "c", "d", "side.0", "END"]


def test_what_lines_run_is_found_beside_the_machine_and_not_listed_with_the_workflows() -> None:
    made = define(name="lines.found", a=expand(nothing), b=action(nothing))
    found = registry.find("lines.found:items", 1)
    assert found is made.definition.lines
    assert found is not None
    assert (found.name, found.version, found.fingerprint) == ("lines.found:items", 1, made.definition.fingerprint)
    assert "lines.found:items" in registry.list_names()
    assert "lines.found:items" not in [one.name for one in registry.list_definitions()]
    assert "lines.found:items:1" in registry.list_deaf()
    assert define(name="lines.none", a=action(nothing)).definition.lines is None
    assert registry.find("lines.none:items", 1) is None
    assert registry.find("lines.nowhere:items", 1) is None


def test_no_workflow_is_called_like_the_lines_of_another_one() -> None:
    with pytest.raises(InvalidDefinition, match="its name ends with ':items'"):

        class Taken(Workflow):
            name = "lines.taken:items"

            @step
            def go(self, ctx: Any) -> Any: ...
