"""A payment that its provider confirms later, in each of the three styles.

All three do the same: ask the provider to charge, tell it where to answer, wait for a day, and end. They differ in
what you read first: the states it can stand in (steps), what happens (function), or the parts it has (machine).
"""

from typing import Any

from workflows import (
    Await,
    Done,
    FunctionContext,
    Machine,
    SignalTimeoutError,
    StepContext,
    Workflow,
    action,
    durable,
    flow,
    step,
    wait_for,
)

#: What an answer has to be. Another one is refused to the provider's face, and the payment goes on waiting.
PAYMENT = {"payment_id": str, "amount": int}

#: Stands for the provider: idempotency key -> what it was asked.
charges: dict[str, dict[str, Any]] = {}


def request_charge(amount: int, reply_to: str, key: str) -> str:
    """Ask the provider to charge. A step may run twice, so it gets a key: the same key twice is one charge."""
    charges.setdefault(key, {"amount": amount, "reply_to": reply_to})
    return key


class PayInSteps(Workflow):
    """Step style: each state by its name, and what leads from one to the next."""

    name = "demo.pay_in_steps"

    @step
    def charge(self, ctx: StepContext) -> Await:
        payment = ctx.callback("payment", schema=PAYMENT)
        # The address is good from here on: an answer that comes before the wait has begun is kept.
        request_charge(ctx.input["amount"], payment.resume_url, str(ctx.id))
        return Await(payment, then="receipt", timeout="24h")

    @step
    def receipt(self, ctx: StepContext) -> Done:
        if not ctx.answered:
            return Done({"payment_status": "timed_out"})
        return Done({"payment_id": ctx.answer["payment_id"]})


@durable(name="demo.pay_in_a_function")
def pay(ctx: FunctionContext, amount: int) -> dict[str, Any]:
    """Function style: ordinary code from top to bottom, that may pause for a day in the middle."""
    payment = ctx.callback("payment", timeout="24h", schema=PAYMENT)
    ctx.step("charge", request_charge, amount, payment.resume_url, str(ctx.id))
    try:
        answer = payment.wait()
    except SignalTimeoutError:
        return {"payment_status": "timed_out"}
    return {"payment_id": answer["payment_id"]}


class PayByMachine(Machine):
    """Declarative style: the parts in their order; a timeout leaves the main line for a flow."""

    name = "demo.pay_by_machine"
    accepts = {"amount": int}

    charge = action(lambda ctx: request_charge(ctx.input["amount"], ctx.steps.payment._resume_url, str(ctx.id)))
    payment = wait_for(callback=True, timeout="24h", on_timeout="give_up", schema=PAYMENT)
    receipt = action(lambda ctx: {"payment_id": ctx.steps.payment.payment_id})
    give_up = flow(action(lambda ctx: {"payment_status": "timed_out"}))
