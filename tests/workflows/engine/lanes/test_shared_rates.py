"""A rate that workflows of different weights share, or whose burst is below what a run takes."""

from __future__ import annotations

import pytest
from django.db import connection

import workflows
from workflows import Done, Rate, Workflow, step
from workflows.api.flow_control import change_limit, list_limits
from workflows.definitions import registry
from workflows.engine.lanes import flow_claims
from workflows.models import Instance, TokenBucket
from workflows.testing import advance, drain

pytestmark = pytest.mark.django_db


@pytest.fixture
def _own_registry(monkeypatch: pytest.MonkeyPatch) -> None:
    """What a test deploys is forgotten with it."""
    monkeypatch.setattr(registry, "_definitions", dict(registry._definitions))
    monkeypatch.setattr(registry, "_latest", dict(registry._latest))


#: Four parts of 80 tokens each: a heavy run finds too little in a part that another one has drawn from.
BURST = 320


class SharedLight(Workflow):
    name = "shared.light"
    rate = Rate("shared-rate", BURST, per="1000h")

    @step
    def a(self, ctx):
        return Done()


class SharedHeavy(Workflow):
    name = "shared.heavy"
    rate = Rate("shared-rate", BURST, per="1000h", weight=64)

    @step
    def a(self, ctx):
        return Done()


class SharedKeyed(Workflow):
    name = "shared.keyed"
    rate = Rate("shared-keyed", 5, per="1h", key="{tenant}")

    @step
    def a(self, ctx):
        return Done()


class SharedWhole(Workflow):
    name = "shared.whole"
    rate = Rate("shared-odd", 1_001, per="1h", weight=1_001)

    @step
    def a(self, ctx):
        return Done()


def count_done(workflow: type[Workflow]) -> int:
    return Instance.objects.filter(workflow=workflow.name, status="done").count()


@pytest.mark.parametrize("first", ["light", "heavy"])
def test_workflows_of_different_weights_share_one_bucket(first: str) -> None:
    for one in (SharedLight, SharedHeavy) if first == "light" else (SharedHeavy, SharedLight):
        workflows.start_many(one, [{}] * (BURST // one.rate.weight + 60))
        drain()
    assert count_done(SharedLight) + 64 * count_done(SharedHeavy) == BURST


def test_a_heavy_run_takes_its_tokens_of_several_parts_of_a_bucket() -> None:
    workflows.start_many(SharedLight, [{}] * (BURST - 64))
    workflows.start(SharedHeavy)
    drain()
    assert (count_done(SharedLight), count_done(SharedHeavy)) == (BURST - 64, 1)
    assert sum(one.tokens for one in TokenBucket.objects.all()) < 1


def test_a_run_that_takes_all_that_a_bucket_holds_begins_whenever_that_is_full() -> None:
    workflows.start_many(SharedWhole, [{}] * 2)
    drain()
    assert count_done(SharedWhole) == 1
    advance("59m")
    assert count_done(SharedWhole) == 1
    advance("61s")
    assert count_done(SharedWhole) == 2


def deploy(number: int, takes: int) -> None:
    class Outgrown(Workflow):
        name = "shared.outgrown"
        version = number
        rate = Rate("shared-outgrown", 100, per="1h", weight=takes)

        @step
        def a(self, ctx):
            return Done()


@pytest.mark.usefixtures("_own_registry")
def test_a_deploy_whose_runs_take_more_than_the_burst_that_was_set_keeps_its_pace_and_is_told() -> None:
    deploy(1, 5)
    change_limit("rate", "shared-outgrown", "10/h")
    [before] = [one for one in list_limits() if one.name == "shared-outgrown"]
    assert (before.weight, before.is_outgrown) == (5, False)
    deploy(2, 50)
    workflows.start_many("shared.outgrown", [{}] * 3)
    drain()
    done = Instance.objects.filter(workflow="shared.outgrown", status="done")
    assert done.count() == 1
    advance("4h59m")
    assert done.count() == 1
    advance("2m")
    assert done.count() == 2
    [after] = [one for one in list_limits() if one.name == "shared-outgrown"]
    assert (after.weight, after.is_outgrown) == (50, True)


def test_a_pump_remembers_so_many_buckets_and_goes_on_without_more(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(flow_claims, "MOST_PROVIDED", 3)
    flow = flow_claims.FlowClaims()
    for tenant in range(9):
        workflows.start(SharedKeyed, {"tenant": tenant})
        flow.refresh(connection, patience=0.0)
        assert len(flow.take(connection, flow.look(connection), 500)) == 1
        assert len(flow._provided) <= 4
