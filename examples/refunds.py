"""A refund that somebody has to approve: the amount decides how careful they have to be."""

from decimal import Decimal
from typing import Any

from django.db.models import F

from approvals import Approval, Outcome
from examples.models import Invoice
from workflows import Await, Done, StepContext, Workflow, step

REASONS = ("No receipt", "Outside the return period", "Refunded already")


def pay_back(answer: Any, instance: Any) -> None:
    """In the deciding transaction: the money and the decision are both recorded, or neither is."""
    if answer.outcome == "approve":
        invoices = Invoice.objects.filter(pk=instance.input["invoice"])
        invoices.update(refunded=F("refunded") + Decimal(instance.input["amount"]), status=Invoice.Status.REFUNDED)


class RefundInvoice(Workflow):
    """Started by whoever talked to the customer: `start("demo.refund", {…}, actor=request.user)`."""

    name = "demo.refund"

    @step
    def ask(self, ctx: StepContext) -> Await:
        invoice = Invoice.objects.get(pk=ctx.input["invoice"])
        amount = Decimal(ctx.input["amount"])
        approval = Approval(
            f"Refund €{amount:,.2f} to {invoice.customer}",
            subject=invoice,
            change={"refunded": invoice.refunded + amount, "status": Invoice.Status.REFUNDED},
            request={"complaint": ctx.input["complaint"]},
            evidence=[
                ("Invoice", f"https://shop.example/invoices/{invoice.number}"),
                ("Paid", f"€{invoice.amount:,.2f}"),
            ],
            outcomes=("approve", Outcome("reject", requires_reason=True, presets=REASONS)),
            groups=["Finance"],
            risk="medium" if amount >= 1000 else "low",
            on_decision=pay_back,
            due="8h",
        )
        return Await(approval, then="tell", timeout="7d")

    @step
    def tell(self, ctx: StepContext) -> Done:
        if not ctx.answered:
            return Done({"refunded": False, "why": "nobody decided within a week"})
        return Done({"refunded": ctx.answer.outcome == "approve", "why": ctx.answer.reason})
