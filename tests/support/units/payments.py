"""A wait for each of several payments, for tests: asking, answering, and which are asked."""

from typing import Any

import workflows
from workflows import ItemResult, durable
from workflows.models import Instance, Interaction
from workflows.testing import drain


@durable(name="items.pay")
def pay(ctx: Any, n: int, **more: Any) -> Any:
    """Ask for as many payments."""
    paid = ctx.wait_for_each("pay", [{"n": i} for i in range(n)], "api", **more)
    return [vars_of(one) for one in paid]


def vars_of(one: Any) -> Any:
    return [one.status, one.output, one.error] if isinstance(one, ItemResult) else one


def begin(n: int, **more: Any) -> Instance:
    instance = workflows.start(pay, {"n": n, **more})
    drain()
    return instance


def answer(instance: Instance, index: int, data: Any = None) -> None:
    workflows.complete(f"pay.{index}-{instance.pk}", index if data is None else data)


def asked(instance: Instance) -> list[int]:
    rows = Interaction.objects.filter(instance=instance, status="pending", queued=False)
    return sorted(rows.values_list("index", flat=True))
