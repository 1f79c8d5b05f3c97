"""Two small workflows in the step style, one of a YAML file, and the place where Django finds the other modules' own.

workflows.start("demo.ship", {"order": 7}, key="order-7")
workflows.signal("order-7", "payment_confirmed", {"amount": 120})
"""

from pathlib import Path
from typing import Any

from examples import (  # noqa: F401  # which registers theirs
    access,
    articles,
    builds,
    contracts,
    discounts,
    identity,
    orders,
    packs,
    payments,
    quotes,
    rabbitmq,
    refunds,
    releases,
    suppliers,
)
from examples.csv_payments import machine as csv_payments  # noqa: F401
from examples.demo import processes  # noqa: F401
from workflows import Await, Done, Machine, MachineContext, Next, StepContext, Stop, Workflow, step


class ShipOrder(Workflow):
    """Ship an order when it is paid, and give up after a day."""

    name = "demo.ship"

    @step
    def ask(self, ctx: StepContext) -> Await:
        return Await("payment_confirmed", then="ship", timeout="24h")

    @step
    def ship(self, ctx: StepContext) -> Done | Stop:
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
    def remind(self, ctx: StepContext) -> Await:
        sent = ctx.state.get("sent", 0) + 1
        pause = ctx.input.get("every", "1h")
        return Await("done", then="check", state={**ctx.state, "sent": sent}, timeout=pause)

    @step
    def check(self, ctx: StepContext) -> Next | Done | Stop:
        if ctx.awaited:
            return Done({"reminders": ctx.state["sent"]})
        if ctx.state["sent"] >= ctx.input["times"]:
            return Stop("nobody reacted")
        return Next("remind")


# --- a machine in YAML: its functions, and below them the file ----------------------------------------

#: Stands for the partner: number of the repair -> the address that the serial number of the part is posted to.
parts_ordered: dict[str, str] = {}


def book_repair(ctx: MachineContext) -> dict[str, Any]:
    return {"number": f"R-{ctx.input['order']}"}


def match_parcel(ctx: MachineContext) -> dict[str, Any]:
    return {"number": ctx.steps.book.number}


def describe_fault(ctx: MachineContext) -> dict[str, Any]:
    return {"number": ctx.steps.book.number, "fault": ctx.input["fault"]}


def decide_repair(ctx: MachineContext) -> str:
    return "order_part" if ctx.steps.quote.price <= 50 else "scrap"


def order_part(ctx: MachineContext) -> None:
    # A stage may run twice, so the order has a key: the same number twice is one order.
    parts_ordered[ctx.steps.book.number] = ctx.steps.part._resume_url


def tell_repaired(ctx: MachineContext) -> dict[str, Any]:
    return {"repaired": True, "serial": ctx.steps.part.serial}


def tell_scrapped(ctx: MachineContext) -> dict[str, Any]:
    return {"repaired": False}


def tell_lost(ctx: MachineContext) -> dict[str, Any]:
    return {"repaired": None}


# The file names the functions above, so they have to be there when it is read.
Repair = Machine.from_yaml(Path(__file__).with_name("repair.yaml"))
