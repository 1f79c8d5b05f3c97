"""A new supplier: one group checks it and fills in a form, another one agrees, and nobody does both."""

from dataclasses import dataclass, field
from typing import Literal

from approvals import Approval, apply_requested_change
from examples.models import Supplier
from workflows import Await, Done, Next, StepContext, Workflow, step


@dataclass
class Screening:
    """What Compliance fills in; the form is made of this."""

    rating: Literal["A", "B", "C"]
    payment_days: int = 30
    lists_checked: list[Literal["sanctions", "insolvency", "press"]] = field(default_factory=list)
    note: str = ""


class TakeOnSupplier(Workflow):
    """Two stages are two steps. Whoever decided the first one is kept from the second: four eyes."""

    name = "demo.supplier"

    @step
    def screen(self, ctx: StepContext) -> Await:
        supplier = Supplier.objects.get(pk=ctx.input["supplier"])
        approval = Approval(
            f"Accept {supplier} as a supplier",
            subject=supplier,
            schema=Screening,
            evidence=[("Company register", "https://register.example/"), ("Country", supplier.country)],
            groups=["Compliance"],
            risk="medium",
            due="2d",
        )
        return Await(approval, then="agree", timeout="30d")

    @step
    def agree(self, ctx: StepContext) -> Await | Next:
        if not ctx.answered or ctx.answer.outcome != "approve":
            return Next("decline", {**ctx.state, "why": ctx.answer.reason if ctx.answered else "not screened"})
        supplier = Supplier.objects.get(pk=ctx.input["supplier"])
        found: Screening = ctx.answer.data
        approval = Approval(
            f"Pay {supplier} within {found.payment_days} days from now on",
            subject=supplier,
            change={"rating": found.rating, "payment_days": found.payment_days, "status": Supplier.Status.ACTIVE},
            evidence=[("Checked", ", ".join(found.lists_checked) or "nothing"), ("Note", found.note or "none")],
            groups=["Finance"],
            on_decision=apply_requested_change,
            due="2d",
        )
        return Await(approval, then="end", timeout="30d")

    @step
    def end(self, ctx: StepContext) -> Done | Next:
        if ctx.answered and ctx.answer.outcome == "approve":
            return Done({"supplier": ctx.input["supplier"], "active": True})
        return Next("decline", {**ctx.state, "why": ctx.answer.reason if ctx.answered else "not agreed"})

    @step(atomic=True)
    def decline(self, ctx: StepContext) -> Done:
        Supplier.objects.filter(pk=ctx.input["supplier"]).update(status=Supplier.Status.DECLINED)
        return Done({"supplier": ctx.input["supplier"], "active": False, "why": ctx.state["why"]})
