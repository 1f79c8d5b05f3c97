"""Bad flow control is an error where it is written, and says what to write instead."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from django.core.exceptions import ImproperlyConfigured
from django.test import override_settings

import workflows
from workflows import (
    Concurrency,
    Done,
    InvalidCall,
    InvalidDefinition,
    Machine,
    Rate,
    UnknownLimit,
    UnknownWorkflow,
    Workflow,
    action,
    durable,
    step,
)
from workflows.api.flow_control import (
    change_limit,
    change_queue,
    list_limits,
    list_paused,
    list_queues,
    read_rate,
    write_rate,
)
from workflows.conf.settings import find_problems
from workflows.definitions.flow.known_limits import may_make
from workflows.models import Limit, Queue
from workflows.store import Tokens
from workflows.testing import drain


class DefinedKeyed(Workflow):
    name = "defined.keyed"
    queue = "defined-queue"
    concurrency = Concurrency("defined:{tenant}", 5)
    rate = Rate("defined-rate", 100, per="1m", weight=10)

    @step
    def a(self, ctx):
        return Done()


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Concurrency("k", 0), "the limit of a Concurrency must be a whole number from 1 to 32000, not 0"),
        (lambda: Concurrency("k", True), "not True"),
        (lambda: Concurrency("k", 40_000), "from 1 to 32000"),
        (lambda: Concurrency("k", 1, hold="run"), 'is "step" or "instance", not \'run\''),  # type: ignore[arg-type]
        (lambda: Concurrency("{}", 1), "is no field of an input"),
        (lambda: Concurrency("{tenant", 1), "cannot be read"),
        (lambda: Concurrency("{tenant!r}", 1), "is no field of an input"),
        (lambda: Concurrency("{a b}", 1), "is no field of an input"),
        (lambda: Concurrency("", 1), "must not be empty"),
        (lambda: Rate("r", 0, per="1m"), "count of Rate 'r' must be a whole number"),
        (lambda: Rate("r", 1, per=0), "a timeout must be longer than zero"),
        (lambda: Rate("r", 10, per="1m", weight=11), "weight 11 of Rate 'r' is above its burst of 10"),
        (lambda: Rate("r", 10, per="1m", burst=3, weight=4), "above its burst of 3"),
        (lambda: Rate("queue:r", 10, per="1m"), "must not begin with 'queue:'"),
        (lambda: Rate("r", 10, per="367d"), "is too long for a rate: 366 days at most"),
    ],
)
def test_a_limit_that_could_let_nothing_through_or_cannot_be_read_is_refused(
    make: Callable[[], Any], message: str
) -> None:
    with pytest.raises(InvalidDefinition, match=message):
        make()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"queue": "a b"}, "is no name of a queue"),
        ({"queue": ""}, "must not be empty"),
        ({"priority": 101}, "from -100 to 100"),
        ({"priority": "high"}, "not 'high'"),
        ({"concurrency": 5}, r"takes a Concurrency\(key, limit\), not 5"),
        ({"rate": "100/m"}, "takes a Rate"),
        ({"fair_by": 7}, "fair_by= 7 cannot be read"),
    ],
)
def test_an_option_that_cannot_be_used_is_refused_by_every_style(options: dict[str, Any], message: str) -> None:
    def one(ctx: Any) -> Done:
        return Done()

    for make in (
        lambda: type("DefinedStep", (Workflow,), {"a": step(lambda self, ctx: Done()), **options}),
        lambda: durable(**options)(one),
        lambda: type("DefinedMachine", (Machine,), {"a": action(lambda ctx: {}), **options}),
    ):
        with pytest.raises(InvalidDefinition, match=message):
            make()


def test_a_template_that_names_a_field_which_the_input_cannot_have_is_refused_at_definition() -> None:
    with pytest.raises(InvalidDefinition, match=r"concurrency= names the field 'tennant'.*it has order, tenant"):

        @durable(concurrency=Concurrency("{tennant}", 1))
        def by_signature(ctx, tenant, order=None): ...

    with pytest.raises(InvalidDefinition, match="fair_by= names the field 'customer'"):

        class ByAccepts(Machine):
            accepts = {"order": int}
            fair_by = "{customer.id}"
            a = action(lambda ctx: {})

    @durable(concurrency=Concurrency("{anything}", 1), name="defined.any")
    def takes_all(ctx, **more): ...


def test_workflows_that_share_a_rate_share_its_size() -> None:
    with pytest.raises(InvalidDefinition, match="'defined-rate' has another count, per or burst"):

        class Other(Workflow):
            rate = Rate("defined-rate", 50, per="1m")

            @step
            def a(self, ctx):
                return Done()


def test_a_yaml_machine_takes_the_same_options() -> None:
    text = """
        name: defined.yaml
        queue: defined-queue
        priority: 7
        concurrency: {key: "yaml:{tenant}", limit: 2, hold: instance}
        rate: {name: defined-yaml, count: 5, per: 1m}
        fair_by: "{tenant}"
        stages:
          - only: {action: one}
    """
    flow = Machine.from_yaml(text, functions={"one": lambda ctx: {}}).definition.flow
    assert flow is not None
    assert (flow.queue, flow.priority) == ("defined-queue", 7)
    assert flow.concurrency is not None
    assert (flow.concurrency.name, flow.concurrency.limit, flow.concurrency.hold) == ("yaml:{tenant}", 2, "instance")
    with pytest.raises(InvalidDefinition, match="line 3: concurrency: the limit of a Concurrency"):
        Machine.from_yaml(
            "name: bad\nstages: [{only: {action: one}}]\nconcurrency: {key: k, limit: 0}", functions={"one": dict}
        )


@pytest.mark.parametrize(
    ("given", "rate"),
    [("100/m", (100, 60.0, 100)), ("5/30s", (5, 30.0, 5)), ({"count": 1, "per": "1h", "burst": 9}, (1, 3600.0, 9))],
)
def test_a_rate_is_written_in_words_or_parts(given: Any, rate: Any) -> None:
    assert read_rate(given) == Tokens(*rate)


@pytest.mark.parametrize("text", ["9/h", "100/m", "5/30s", "9/1h30m", "1/1d12h", "3/0.5s", "2/11m", "7/d"])
def test_a_rate_is_shown_as_people_write_it(text: str) -> None:
    assert write_rate(read_rate(text)) == text


@pytest.mark.parametrize(
    "given",
    [
        *("fast", "0/m", "5/", 7, {"count": 5}, {"count": 0, "per": 1}, {"count": 1, "per": 0}),
        {"count": 10, "per": 1e-307},  # no number holds its pace
        "1/" + 500_000 * "1",  # is refused at once
    ],
    ids=lambda given: str(given)[:30],
)
def test_a_rate_that_cannot_be_read_is_refused(given: Any) -> None:
    with pytest.raises(InvalidCall):
        read_rate(given)


@pytest.mark.django_db
def test_a_limit_is_set_only_in_place_of_one_that_is_declared() -> None:
    for kind, name in (("rate", "defined-nothing"), ("concurrency", "nobody:7")):
        with pytest.raises(UnknownLimit, match="no workflow has a"):
            change_limit(kind, name, 5)  # type: ignore[arg-type]
    with pytest.raises(InvalidCall, match='a "concurrency" or a "rate"'):
        change_limit("speed", "defined-rate", 5)  # type: ignore[arg-type]
    with pytest.raises(InvalidCall, match="from 1 to 32000, not 0; to let nothing through, pause it"):
        change_limit("concurrency", "defined:{tenant}", 0)
    with pytest.raises(InvalidCall, match="a burst of at least 10"):
        change_limit("rate", "defined-rate", "9/m")
    with pytest.raises(InvalidCall, match="from 1 to 32000"):
        change_queue("defined-queue", limit=0)
    assert not Limit.objects.exists()
    assert not Queue.objects.exists()


@pytest.mark.django_db
def test_what_is_set_is_listed_beside_what_the_code_says() -> None:
    change_queue("defined-queue", limit=4, rate="10/s", actor="ada")
    change_limit("concurrency", "defined:7", 9)
    [queue] = [one for one in list_queues() if one.name == "defined-queue"]
    assert (queue.limit, queue.default_limit, queue.rate, queue.paused) == (4, None, Tokens(10, 1.0, 10), False)
    assert Queue.objects.get().changed_by == "ada"
    limits = {(one.kind, one.name): (one.limit, one.default_limit, one.overridden) for one in list_limits()}
    assert limits["concurrency", "defined:7"] == (9, 5, True)
    assert limits["concurrency", "defined:{tenant}"] == (5, 5, False)
    assert change_queue("defined-queue", limit=None).rate == Tokens(10, 1.0, 10)


@pytest.mark.django_db
def test_pausing_names_one_thing_that_exists_and_holds_in_its_workspace_only() -> None:
    for call in (workflows.pause, workflows.unpause):
        with pytest.raises(InvalidCall, match="one of the two"):
            call()
        with pytest.raises(InvalidCall, match="one of the two"):
            call(DefinedKeyed, queue="defined-queue")
        with pytest.raises(UnknownWorkflow):
            call("nobody")
    workflows.workspace.create("paused")
    workflows.pause(DefinedKeyed, workspace="paused")
    assert (list_paused(), list_paused(workspace="paused")) == ([], ["defined.keyed"])
    here = workflows.start(DefinedKeyed, {"tenant": 1})
    there = workflows.start(DefinedKeyed, {"tenant": 1}, workspace="paused")
    drain()
    here.refresh_from_db()
    there.refresh_from_db()
    assert (here.status, there.status) == ("done", "runnable")


@pytest.mark.django_db
def test_the_setting_declares_queues_with_limits_of_their_own() -> None:
    with override_settings(WORKFLOWS={"QUEUES": {"declared": {"limit": 1, "rate": "2/h"}}}):
        assert list(find_problems()) == []
        for _ in range(3):
            workflows.start(DefinedKeyed, {"tenant": 1}, queue="declared")
        assert drain() == {"done": 2}
        [queue] = [one for one in list_queues() if one.name == "declared"]
        assert (queue.limit, queue.rate, queue.waiting) == (1, Tokens(2, 3600.0, 2), 1)


@pytest.mark.parametrize(
    "given", [{"a b": {}}, {"a": 5}, {"a": {"limit": 0}}, {"a": {"speed": 1}}, {"a": {"rate": "fast"}}, ["a"]]
)
def test_a_setting_that_cannot_be_read_is_told_by_the_checks_and_never_means_no_limit(given: Any) -> None:
    with override_settings(WORKFLOWS={"QUEUES": given}):
        assert [one.name for one in find_problems()] == ["QUEUES"]
        with pytest.raises(ImproperlyConfigured):
            _ = workflows.conf.conf.queues  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("template", "key", "fits"),
    [
        ("a:{x}", "a:7", True),
        ("a:{x}", "a:", False),
        ("{x}:{y}", "7:8", True),
        ("{x}:{y}", ":8", False),
        ("{x}:{y}", "7:", False),
        ("{x}{y}", "78", True),
        ("{x}{y}", "7", False),
        ("a{x}b{y}c", "abbbc", True),
        ("a{x}b{y}c", "abc", False),
        ("plain", "plain", True),
        ("plain", "plainer", False),
    ],
)
def test_a_name_is_that_of_a_key_where_each_field_has_something_to_say(template: str, key: str, fits: bool) -> None:
    assert may_make(Concurrency(template, 1), key) is fits
