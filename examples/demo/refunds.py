"""`order_refund` and `small_refund`: the amount decides how many people it takes and how long they have."""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal
from typing import Literal

from approvals import Approval, Outcome
from examples.demo.papers import link_row, list_papers, list_warnings, show_amount
from examples.models import Invoice
from examples.refunds import REASONS, pay_back
from workflows import Await, Done, Next, StepContext, Workflow, step

APPROVE = Outcome("approve", presets=("Parcel lost, claim accepted", "Goodwill for a good customer", "Our mistake"))
REJECT = Outcome("reject", requires_reason=True, presets=(*REASONS, "The carrier pays this one"))

#: Why the many small ones are asked: a rule, always the same words.
SMALL_WHY = "The parcel came late and it is the first claim of this customer. Our rule pays the postage back."


#: From this amount on a refund is no small one.
SMALL = Decimal(50)


@dataclass(frozen=True, slots=True)
class Care:
    """How carefully an amount is looked at."""

    risk: Literal["low", "medium", "high"]
    people: int
    due: str
    remind: tuple[str, ...]


def name_refund(amount: str | Decimal) -> str:
    """Which workflow pays it back: small ones are a kind of their own, so that they are listed and decided together.

    >>> name_refund("49.99")
    'small_refund'
    """
    return RefundSmall.name if Decimal(amount) < SMALL else RefundOrder.name


def choose_care(amount: Decimal) -> Care:
    """Small ones are many and alike; big ones are few, and three people sign for them.

    >>> choose_care(Decimal(1240)).people
    3
    """
    if amount < SMALL:
        return Care("low", 1, "8h", ())
    if amount <= 500:
        return Care("low", 1, "1d", ("8h",))
    return Care("medium", 3, "2d", ("1d",))


class RefundOrder(Workflow):
    """Asked for by whoever talked to the customer: `start("order_refund", {…}, actor=request.user)`."""

    name = "order_refund"

    @step
    def ask(self, ctx: StepContext) -> Await:
        invoice = Invoice.objects.get(pk=ctx.input["invoice"])
        amount = Decimal(ctx.input["amount"])
        care = choose_care(amount)
        approval = Approval(
            f"Refund {show_amount(amount)} to {invoice.customer}",
            why=ctx.input["why"],
            subject=invoice,
            change={"refunded": invoice.refunded + amount, "status": Invoice.Status.REFUNDED},
            request={"complaint": ctx.input["complaint"]} if ctx.input.get("complaint") else None,
            evidence=[
                link_row(f"Invoice {invoice.number}", invoice),
                *list_papers(*ctx.input.get("papers", ())),
                ("Paid", show_amount(invoice.amount)),
                ("Paid with the same card", True),
                ("No earlier refund on this order", not invoice.refunded),
                *list_warnings(ctx.input),
            ],
            outcomes=(APPROVE, REJECT),
            groups=["Finance"],
            quorum=care.people,
            risk=care.risk,
            on_decision=pay_back,
            due=ctx.input.get("due", care.due),
            remind=care.remind,
            escalate=[("3d", ("add", "Directors"))] if care.people > 1 else None,
        )
        return Await(approval, then="settle", timeout="7d")

    @step
    def settle(self, ctx: StepContext) -> Next | Done:
        """The decision has changed the invoice already; what is left is to tell about it."""
        if not ctx.answered:
            return Done({"ok": False, "told": "Nobody decided within a week. Nothing was paid."})
        if ctx.answer.outcome != "approve":
            return Done({"ok": False, "told": f"Turned down: {ctx.answer.reason}"})
        return Next("tell")

    @step
    def tell(self, ctx: StepContext) -> Done:
        invoice = Invoice.objects.get(pk=ctx.input["invoice"])
        amount = show_amount(Decimal(ctx.input["amount"]))
        return Done({"ok": True, "told": f"Refund paid: {amount} go back to {invoice.customer}."})


class RefundSmall(RefundOrder):
    """The same for what is under €50."""

    name = "small_refund"
