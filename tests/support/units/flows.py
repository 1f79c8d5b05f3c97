"""The workflow whose processes are killed: a unit of three, and a state that follows it."""

from typing import Any

from workflows import durable


@durable(name="units.killed")
def killed(ctx: Any, **more: Any) -> Any:
    """Ask for three payments, two at a time; then take note of them once."""
    paid = ctx.wait_for_each("pay", [10, 20, 30], "api", concurrency=2, **more)
    return ctx.step("note", note, paid)


def note(paid: list[Any]) -> list[Any]:
    """What follows the release."""
    return paid
