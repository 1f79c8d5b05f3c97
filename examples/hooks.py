"""A payment service that posts its own shape to /hooks/payments, and a workflow that waits for what it posts.

intent = workflows.start("demo.collect", {"amount": 120})
"""

from typing import Any

from django.conf import settings

import workflows
from workflows import FunctionContext, durable, hook
from workflows.hooks import HookMessage, stripe

#: What the service calls the end of a payment, and what that is called here.
ENDINGS = {"payment_intent.succeeded": "paid", "payment_intent.payment_failed": "refused"}

#: Stands for the service: idempotency key -> the payment that it was asked to collect.
intents: dict[str, dict[str, Any]] = {}


def create_intent(amount: int, key: str) -> str:
    """Ask the service to collect; it posts the end later. The same key twice is one payment."""
    intent: dict[str, Any] = intents.setdefault(key, {"id": f"pi_{key}", "amount": amount})
    return str(intent["id"])


@hook("payments", verify=stripe(lambda: settings.PAYMENTS_SECRETS))
def take_payment(message: HookMessage) -> None:
    """The end of a payment is news for whoever waits for it; whatever else the service tells is taken and left."""
    status = ENDINGS.get(message.data["type"])
    if status is not None:
        intent = message.data["data"]["object"]
        workflows.emit("payment.ended", {"intent": intent["id"], "status": status})


@durable(name="demo.collect")
def collect(ctx: FunctionContext, amount: int) -> dict[str, Any]:
    """Collect a payment; the service may tell of its end before anybody waits for it."""
    intent = ctx.step("intent", create_intent, amount, str(ctx.id))
    ended = ctx.wait_for_event("ended", event="payment.ended", match={"intent": intent}, timeout="3d")
    return {"intent": intent, "status": "unknown" if ended is None else ended["status"]}
