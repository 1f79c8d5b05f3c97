"""Steps that wait for several questions at once: `any_of`, `all_of`, `ctx.answers`, `ctx.withdraw`."""

from typing import Any

import pytest
from django.db import connections

import workflows
from tests.support.races import forget, play, settle, take
from workflows import (
    Await,
    Done,
    InvalidCall,
    InvalidOutcome,
    Next,
    Stop,
    Workflow,
    all_of,
    any_of,
    callback,
    child,
    durable,
    event,
    instance,
    question,
    received,
    sleep,
    step,
    store,
)
from workflows.models import Checkpoint, Instance, Interaction, Signal
from workflows.testing import advance, assert_awaiting, assert_done, assert_failed, drain

pytestmark = pytest.mark.django_db


@durable(name="several.pack")
def pack(ctx: Any, box: int) -> Any:
    if box < 0:
        raise ValueError("no such box")
    return {"packed": box}


def run(workflow: Any, input: Any = None, **options: Any) -> Instance:
    one = workflows.start(workflow, {} if input is None else input, **options)
    drain()
    one.refresh_from_db()
    return one


def pending(step_name: str) -> Interaction:
    return Interaction.objects.get(status="pending", unit__step=step_name)


def describe(value: Any) -> Any:
    return [value.name, value.payload] if hasattr(value, "payload") else value


class Gate(Workflow):
    """Waits for one of three, and says which."""

    name = "several.gate"

    @step
    def ask(self, ctx: Any) -> Any:
        return Await(
            any_of(ok=question("chat", schema={"yes": bool}), paid="paid", packed=child(pack, {"box": 7})),
            then="tell",
            timeout="1d",
        )

    @step
    def tell(self, ctx: Any) -> Any:
        return Done([ctx.timed_out, {id: describe(value) for id, value in ctx.answers.items()}])


class Held(Gate):
    """Asks several questions, but no child: a child is over at once."""

    name = "several.held"

    @step
    def ask(self, ctx: Any) -> Any:
        return Await(any_of(ok=question("chat"), paid=received("paid", "given")), then="tell", timeout="1d")


# --- the first of several ------------------------------------------------------------------------


def test_a_step_runs_with_the_first_answer_and_the_end_closes_the_others() -> None:
    one = run(Held)
    assert str(one.status) == "awaiting"
    workflows.signal(one, "given", 5)
    drain()
    assert_done(one, [False, {"paid": ["given", 5]}])
    assert str(Interaction.objects.get().status) == "cancelled"


def test_a_child_that_ends_is_an_answer() -> None:
    one = run(Gate)
    assert_done(one, [False, {"packed": {"packed": 7}}])


def test_the_time_of_the_wait_itself_runs_the_step_without_an_answer() -> None:
    one = run(Held)
    advance("1d")
    assert_done(one, [True, {}])


def test_what_came_before_the_wait_began_is_found() -> None:
    one = workflows.start(Held)
    workflows.signal(one, "paid", 3)
    drain()
    assert_done(one, [False, {"paid": ["paid", 3]}])


class Kinds(Workflow):
    """One wait for each kind of question."""

    name = "several.kinds"

    @step
    def ask(self, ctx: Any) -> Any:
        other = ctx.input["other"]
        return Await(
            all_of(
                told=question("chat", schema={"n": int}),
                partner=ctx.callback("partner"),
                second=callback(),
                came=event("came", {"n": 1}, schema={"n": int}),
                plain="plain",
                packed=child(pack, {"box": 1}),
                other=instance(workflows.models.Instance.objects.get(pk=other)),
                late=sleep("1h"),
            ),
            then="tell",
        )

    @step
    def tell(self, ctx: Any) -> Any:
        return Done({id: describe(value) for id, value in ctx.answers.items()})


def test_all_of_waits_for_each_kind_of_question() -> None:
    other = run(Held)
    one = run(Kinds, {"other": str(other.pk)})
    assert_awaiting(one)
    workflows.complete(pending("told"), {"n": 3})
    workflows.complete(pending("partner"), "p")
    workflows.complete(pending("second"), "s")
    workflows.emit("came", {"n": 1})
    workflows.signal(one, "plain", "x")
    workflows.signal(other, "paid", 1)
    drain()
    assert_awaiting(one)
    advance("1h")
    result = assert_done(one).result
    assert result == {
        "told": {"n": 3},
        "partner": "p",
        "second": "s",
        "came": {"n": 1},
        "plain": ["plain", "x"],
        "packed": {"packed": 1},
        "other": [False, {"paid": ["paid", 1]}],
        "late": None,
    }


# --- what stays open, and what is withdrawn ---------------------------------------------------------


class Again(Workflow):
    """Waits again until it has been answered twice, or told to stop."""

    name = "several.again"

    @step
    def ask(self, ctx: Any) -> Any:
        return Await(any_of(a=question("chat"), b="b", stop="stop"), then="more")

    @step
    def more(self, ctx: Any) -> Any:
        if "stop" in ctx.answers:
            return Done([one for one in ctx.answers if one != "stop"])
        if len(ctx.answers) == 2:
            return Done(list(ctx.answers))
        return Await(any_of(a=question("chat"), b="b", stop="stop"), then="more")


def test_the_others_stay_open_across_the_next_await_of_their_ids() -> None:
    one = run(Again)
    asked = pending("a")
    workflows.signal(one, "b", 1)
    drain()
    assert_awaiting(one)
    assert pending("a").pk == asked.pk
    workflows.complete(asked, "yes")
    drain()
    assert_done(one, ["b", "a"])
    assert Interaction.objects.count() == 1


def test_an_answer_is_handed_out_until_next_uses_it_up_and_a_second_signal_waits_its_turn() -> None:
    one = run(Again)
    workflows.signal(one, "b", 1)
    workflows.signal(one, "b", 2)  # the question has taken the first; nobody waits for another one
    drain()
    assert_awaiting(one)
    workflows.signal(one, "stop")
    drain()
    assert_done(one, ["b"])


class Messages(Workflow):
    """Reads messages one by one, while a question stays open."""

    name = "several.messages"

    @step
    def listen(self, ctx: Any) -> Any:
        return Await(any_of(message="message", over=question("chat")), then="read")

    @step
    def read(self, ctx: Any) -> Any:
        if "over" in ctx.answers:
            return Done(ctx.state)
        return Next("listen", {"read": [*ctx.state.get("read", []), ctx.answers["message"].payload]})


def test_next_uses_the_answers_up_and_leaves_the_others_open() -> None:
    one = run(Messages)
    asked = pending("over")
    for n in (1, 2):
        workflows.signal(one, "message", n)
    drain()
    workflows.signal(one, "message", 3)
    drain()
    assert_awaiting(one)
    assert pending("over").pk == asked.pk
    assert not Signal.objects.filter(consumed_at=None).exists()
    assert Checkpoint.objects.filter(instance=one).count() == 2
    workflows.complete(asked, True)
    drain()
    assert_done(one, {"read": [1, 2, 3]})


class Leaves(Workflow):
    """Leaves a question out, or withdraws it by name."""

    name = "several.leaves"

    @step
    def ask(self, ctx: Any) -> Any:
        return Await(any_of(a=question("chat"), b="b", c="c"), then="more")

    @step
    def more(self, ctx: Any) -> Any:
        if "c" in ctx.answers:
            return Done(sorted(ctx.answers))
        if ctx.input.get("named"):
            ctx.withdraw("a")
            return Next("last")
        return Await(any_of(c="c"), then="more")

    @step
    def last(self, ctx: Any) -> Any:
        return Await("d", then="end")

    @step
    def end(self, ctx: Any) -> Any:
        return Done("ended")


@pytest.mark.parametrize("named", [True, False])
def test_a_question_is_withdrawn_by_name_or_by_leaving_it_out(named: bool) -> None:
    one = run(Leaves, {"named": named})
    asked = pending("a")
    workflows.signal(one, "b")
    drain()
    assert_awaiting(one)
    asked.refresh_from_db()
    assert str(asked.status) == "cancelled"
    with pytest.raises(workflows.UnknownInteraction):
        workflows.complete(asked, "late")
    workflows.signal(one, "d" if named else "c")
    drain()
    assert_done(one, "ended" if named else ["c"])


def test_a_withdrawn_question_may_be_asked_anew_at_once() -> None:
    class Anew(Workflow):
        name = "several.anew"

        @step
        def ask(self, ctx: Any) -> Any:
            return Await(any_of(a=question("chat"), b="b"), then="more")

        @step
        def more(self, ctx: Any) -> Any:
            if "a" in ctx.answers:
                return Done([ctx.answers["a"], sorted(ctx.answers)])
            ctx.withdraw()
            return Await(any_of(a=question("chat"), b="b"), then="more")

    one = run(Anew)
    first = pending("a")
    workflows.signal(one, "b")
    drain()
    assert_awaiting(one)
    assert pending("a").pk != first.pk
    workflows.complete(pending("a"), "yes")
    drain()
    assert_done(one, ["yes", ["a"]])


# --- what goes wrong ------------------------------------------------------------------------------------


class Fails(Workflow):
    name = "several.fails"

    @step
    def ask(self, ctx: Any) -> Any:
        return Await(any_of(packed=child(pack, {"box": -1}), ok=question("chat")), then="tell")

    @step
    def tell(self, ctx: Any) -> Any:
        assert "packed" in ctx.answers
        return Done(ctx.answers["packed"])

    def handle(self, error: Exception, ctx: Any) -> Any:
        return Stop(f"caught {error}")


def test_reading_an_answer_raises_what_a_single_wait_would_have_raised() -> None:
    one = run(Fails)
    advance("1h")
    assert_failed(one, "no such box")


def test_a_question_that_failed_is_over_and_raises_when_it_is_read() -> None:
    one = run(Held)
    workflows.fail(pending("ok"), "nobody is there")
    drain()
    assert_failed(one, "nobody is there")


def test_a_retry_asks_anew_what_the_failure_closed_and_keeps_the_answers() -> None:
    class Mended(Workflow):
        name = "several.mended"

        @step
        def ask(self, ctx: Any) -> Any:
            return Await(any_of(a=question("chat"), b="b", e=event("e"), p=child(pack, {"box": 1})), then="more")

        @step
        def more(self, ctx: Any) -> Any:
            if not broken:
                return Stop("broken")
            if len(ctx.answers) == 4:
                return Done({id: describe(value) for id, value in ctx.answers.items()})
            return Await(all_of(a=question("chat"), b="b", e=event("e"), p=child(pack, {"box": 1})), then="more")

    broken: list[int] = []
    one = run(Mended)
    assert_failed(one, "broken")
    broken.append(1)
    workflows.retry(one)
    drain()
    workflows.complete(pending("a"), "yes")
    workflows.signal(one, "b", 2)
    workflows.emit("e", {"x": 1})
    drain()
    assert assert_done(one).result == {"a": "yes", "b": ["b", 2], "e": {"x": 1}, "p": {"packed": 1}}


WRONG: dict[str, tuple[Any, str]] = {
    "nothing": (lambda: any_of(), "any_of needs at least one question"),
    "nothing in all_of": (lambda: all_of({}), "all_of needs at least one question"),
    "an id twice": (lambda: any_of({"a": "x"}, a="y"), "any_of has 'a' twice"),
    "a word of ours": (lambda: any_of({"holdpoint:asked": "x"}), "an id in any_of"),
    "an unknown kind": (lambda: any_of(a=7), "'a' is about 7: write a channel"),
    "no ids": (lambda: any_of(["paid"]), "takes questions by their ids"),
    "nested": (lambda: any_of(a=any_of(b="x")), "several questions within 'a'"),
    "an empty name": (lambda: any_of(a=""), "a name in received"),
}


@pytest.mark.parametrize("case", WRONG)
def test_what_cannot_be_asked_is_refused_where_it_is_written(case: str) -> None:
    make, message = WRONG[case]
    with pytest.raises(workflows.WorkflowError, match=message):
        make()


def test_waiting_for_what_is_answered_and_withdrawing_what_is_not_there_are_errors() -> None:
    class Waits(Workflow):
        name = "several.waits"

        @step
        def ask(self, ctx: Any) -> Any:
            return Await(any_of(a="a"), then="more")

        @step
        def more(self, ctx: Any) -> Any:
            with pytest.raises(InvalidCall, match=r"there is no question 'z'; there are a"):
                ctx.withdraw("z")
            with pytest.raises(KeyError, match="nothing has come for 'z'; there are answers to a"):
                ctx.answers["z"]
            return Await(any_of(a="a"), then="more")

        def handle(self, error: Exception, ctx: Any) -> Any:
            assert isinstance(error, InvalidOutcome)
            return Stop(str(error))

    one = run(Waits)
    workflows.signal(one, "a")
    drain()
    assert_failed(one, "nothing is left to wait for, as there is an answer to a")


# --- crashes ---------------------------------------------------------------------------------------------


def run_dying() -> None:
    """Each run dies once before its outcome is committed; the next worker finds what it has left behind."""
    died = set[str]()
    while claims := take():
        [claim] = claims
        result = play(claim)
        if claim.id in died:
            died.remove(claim.id)
            settle(result)
        else:
            died.add(claim.id)
            forget(claim)
            store.reclaim(connections["default"])


@pytest.mark.parametrize("order", [("a", "b"), ("b", "a")])
def test_a_crash_before_every_commit_asks_nothing_twice_and_loses_no_answer(order: tuple[str, str]) -> None:
    one = workflows.start(Again)
    run_dying()
    for name in order:
        if name == "a":
            workflows.complete(pending("a"), "yes")
        else:
            workflows.signal(one, "b", 1)
        run_dying()
    assert_done(one, list(order))
    assert Interaction.objects.count() == 1


def test_a_crash_while_messages_are_read_reads_each_once() -> None:
    one = workflows.start(Messages)
    for n in range(3):
        workflows.signal(one, "message", n)
        run_dying()
    workflows.complete(pending("over"), True)
    run_dying()
    assert_done(one, {"read": [0, 1, 2]})
    assert Interaction.objects.count() == 1
