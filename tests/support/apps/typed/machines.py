"""Declarative style."""

from typing import Any, assert_type
from uuid import UUID

from workflows import END, Machine, MachineContext, action, branch, flow, launch, sleep, wait_for

from .functions import outreach
from .values import Payment


def charge(ctx: MachineContext) -> dict[str, str]:
    assert_type(ctx.id, UUID)
    assert_type(ctx.key, str | None)
    print(ctx.inbox)  # E: attr-defined reportAttributeAccessIssue
    return {"address": ctx.steps.payment._resume_url}


def counts_wrongly(ctx: MachineContext, more: int) -> int:
    return more


class PaymentMachine(Machine):
    accepts = {"amount": int}

    charge = action(charge)
    payment = wait_for(callback=True, timeout="24h", on_timeout="give_up", schema=Payment)
    receipt = action(lambda ctx: {"payment_id": ctx.steps.payment.reference, "at": ctx.now.isoformat()}, then=END)
    which = branch(lambda ctx: "later" if ctx.attempt else "outreach", to=["later", "outreach"])
    later = sleep("1h")
    outreach = launch(outreach, lambda ctx: {"contact": ctx.key})
    give_up = flow(action(lambda ctx: {"payment_status": "timed_out"}))

    misspelt = action(lambda ctx: ctx.stpes)  # E: attr-defined reportAttributeAccessIssue
    wrong = action(counts_wrongly)  # E: arg-type reportArgumentType
    branching = branch(lambda ctx: 5)  # E: arg-type,return-value reportArgumentType,reportReturnType
    few = wait_for(channel="api", cardinality="FEW")  # E: arg-type reportArgumentType
    waits = wait_for(evnt="paid")  # E: call-arg reportCallIssue
    soon = sleep(["1h"])  # E: arg-type reportArgumentType


def tell(value: Any) -> None: ...


tell(PaymentMachine.receipt)
