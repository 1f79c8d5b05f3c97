"""A rate that workflows of different weights share, or whose burst is below what a run takes."""

from __future__ import annotations

import pytest

import workflows
from workflows import Done, Rate, Workflow, step
from workflows.models import Instance, TokenBucket
from workflows.testing import advance, drain

pytestmark = pytest.mark.django_db

BURST = 640


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
        workflows.start_many(one, [{}] * (BURST + 60))
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
