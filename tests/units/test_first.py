import pytest

import workflows
from workflows import durable
from workflows.models import AwaitUnit, Interaction, LedgerEvent
from workflows.testing import advance, assert_awaiting, assert_done, assert_failed, drain

pytestmark = pytest.mark.django_db


@durable(name="units.first")
def first(ctx, n, **more):
    return ctx.wait_for_each("pay", [{"n": i} for i in range(n)], "api", **more)


def test_three() -> None:
    one = workflows.start("units.first", {"n": 3})
    drain()
    assert_awaiting(one, "pay")
    for i in (2, 0, 1):
        workflows.complete(f"pay.{i}-{one.pk}", i * 10)
    drain()
    assert_done(one, [0, 10, 20])
    unit = AwaitUnit.objects.get()


def test_empty() -> None:
    one = workflows.start("units.first", {"n": 0})
    drain()
    assert_done(one, [])


def test_concurrency() -> None:
    one = workflows.start("units.first", {"n": 7, "concurrency": 2})
    drain()
    for i in range(7):
        assert Interaction.objects.filter(status="pending", queued=False).count() == min(2, 7 - i)
        workflows.complete(f"pay.{i}-{one.pk}", i)
    drain()
    assert_done(one, list(range(7)))
    unit = AwaitUnit.objects.get()


def test_timeout() -> None:
    one = workflows.start("units.first", {"n": 7, "concurrency": 2, "timeout": "1h"})
    drain()
    advance("2h")
    assert_failed(one, "item 0 of 'pay' was not answered")
    two = workflows.start("units.first", {"n": 3, "concurrency": 2, "timeout": "1h", "on_item": "partial"})
    drain()
    workflows.complete(f"pay.1-{two.pk}", 1)
    advance("3h")
        list(
            LedgerEvent.objects.filter(instance_id=AwaitUnit.objects.get(instance=two).pk).values_list(
                "seq", "kind", "data"
            )
        )
    )
