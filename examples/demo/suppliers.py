"""`new_supplier` and `bank_account_change`: whom we pay, and where to. Both are of high risk and take two people."""

from __future__ import annotations

from approvals import Approval, Outcome, apply_requested_change
from examples.demo.papers import LETTER, link_row, list_papers, list_warnings
from examples.models import Supplier
from workflows import Await, Done, StepContext, Workflow, step

APPROVE_ACCOUNT = Outcome(
    "approve", presets=("Called the number that we have on file", "Confirmed by their bank, letter of today")
)
REJECT_ACCOUNT = Outcome("reject", presets=("Nobody answers at the known number", "The letter is not theirs"))
APPROVE_SUPPLIER = Outcome("approve", presets=("Register and references are fine", "Known from earlier business"))
REJECT_SUPPLIER = Outcome("reject", presets=("On a sanctions list", "We have two of this kind", "Terms are too long"))


class ChangeBankAccount(Workflow):
    """The classic of frauds: nobody changes where money goes alone, and nobody without having looked."""

    name = "bank_account_change"

    @step
    def ask(self, ctx: StepContext) -> Await:
        supplier = Supplier.objects.get(pk=ctx.input["supplier"])
        approval = Approval(
            f"Change the bank account of {supplier}",
            why=ctx.input["why"],
            subject=supplier,
            change={"bank": ctx.input["bank"], "account": ctx.input["account"]},
            evidence=[
                *list_papers(LETTER),
                link_row(str(supplier), supplier),
                ("Open invoices", ctx.input.get("open_invoices", "€18,420.50 in three")),
                ("Name of the new account is theirs", True),
                *list_warnings(ctx.input),
            ],
            outcomes=(APPROVE_ACCOUNT, REJECT_ACCOUNT),
            groups=["Finance"],
            quorum=2,
            risk="high",
            on_decision=apply_requested_change,
            due=ctx.input.get("due", "1d"),
            remind=["4h", "1d"],
            escalate=[("3d", ("add", "Directors")), ("6d", ("outcome", "reject"))],
        )
        return Await(approval, then="end")

    @step
    def end(self, ctx: StepContext) -> Done:
        supplier = Supplier.objects.get(pk=ctx.input["supplier"])
        if ctx.answer.outcome != "approve":
            return Done({"ok": False, "told": f"The account of {supplier} stays as it was: {ctx.answer.reason}"})
        return Done({"ok": True, "told": f"{supplier} is paid to {supplier.account} from now on."})


class AcceptSupplier(Workflow):
    """A new name on the list of those whom we may order from."""

    name = "new_supplier"

    @step
    def ask(self, ctx: StepContext) -> Await:
        supplier = Supplier.objects.get(pk=ctx.input["supplier"])
        approval = Approval(
            f"Accept {supplier} as a supplier",
            why=ctx.input["why"],
            subject=supplier,
            change={
                "rating": ctx.input.get("rating", "B"),
                "payment_days": ctx.input.get("payment_days", 30),
                "status": Supplier.Status.ACTIVE,
            },
            evidence=[
                link_row(str(supplier), supplier),
                ("Country", supplier.country),
                ("In the company register", True),
                ("On no sanctions list", True),
                ("References", ctx.input.get("references", 2)),
                *list_warnings(ctx.input),
            ],
            outcomes=(APPROVE_SUPPLIER, REJECT_SUPPLIER),
            groups=["Finance"],
            quorum=2,
            risk="high",
            on_decision=apply_requested_change,
            due=ctx.input.get("due", "5d"),
            remind=["3d"],
        )
        return Await(approval, then="end", timeout="30d")

    @step(atomic=True)
    def end(self, ctx: StepContext) -> Done:
        rows = Supplier.objects.filter(pk=ctx.input["supplier"])
        if ctx.answered and ctx.answer.outcome == "approve":
            return Done({"ok": True, "told": f"{rows.get()} is a supplier of ours now."})
        rows.update(status=Supplier.Status.DECLINED)
        why = ctx.answer.reason if ctx.answered else "nobody decided within a month"
        return Done({"ok": False, "told": f"{rows.get()} was declined: {why}"})
