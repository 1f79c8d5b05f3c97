"""Two small workflows in the step style, and the place where Django finds those of the other modules.

workflows.start("demo.ship", {"order": 7}, key="order-7")
workflows.signal("order-7", "payment_confirmed", {"amount": 120})
"""

from typing import Any

from examples import builds, discounts, identity, orders, packs, payments  # noqa: F401  # which registers theirs
from workflows import Await, Done, Next, Stop, Workflow, step


class ShipOrder(Workflow):
    """Ship an order when it is paid, and give up after a day."""

    name = "demo.ship"

    @step
    def ask(self, ctx: Any) -> Await:
        return Await("payment_confirmed", then="ship", timeout="24h")

    @step
    def ship(self, ctx: Any) -> Done | Stop:
        if not ctx.awaited:
            return Stop("payment never came")
        return Done({"paid": ctx.awaited[0].payload})


class RemindUntilDone(Workflow):
    """Remind a person until they say that it is done, at most so many times.

    Every reminder is a step of its own, so a crash between two of them repeats none that was sent
    and committed. A `done` that arrives early is kept until the wait looks for it.
    """

    name = "demo.remind"

    @step
    def remind(self, ctx: Any) -> Await:
        sent = ctx.state.get("sent", 0) + 1
        pause = ctx.input.get("every", "1h")
        return Await("done", then="check", state={**ctx.state, "sent": sent}, timeout=pause)

    @step
    def check(self, ctx: Any) -> Next | Done | Stop:
        if ctx.awaited:
            return Done({"reminders": ctx.state["sent"]})
        if ctx.state["sent"] >= ctx.input["times"]:
            return Stop("nobody reacted")
        return Next("remind")
