"""A contract that two of a group have to agree to, in their working hours, and that goes up when they are silent."""

from typing import Any

from approvals import Approval, Calendar, Outcome, register_calendar
from examples.models import Contract
from workflows import FunctionContext, durable

#: Monday to Friday, 9 to 17 in Berlin, and the days on which nobody works. Every process imports this module.
register_calendar("berlin-office", Calendar("Europe/Berlin", holidays=["2026-12-25", "2027-01-01", "2027-03-26"]))


def sign(answer: Any, instance: Any) -> None:
    """The second agreeing vote signs it."""
    if answer.outcome == "approve":
        Contract.objects.filter(pk=instance.input["contract"]).update(is_signed=True)


@durable(name="demo.contract")
def sign_contract(ctx: FunctionContext, contract: int) -> dict[str, Any]:
    """All about time stands in one place: when it is due, who is reminded, who else is asked, and the end."""
    asked = Contract.objects.get(pk=contract)
    answer = ctx.wait_for(
        "signature",
        Approval(
            f"Sign with {asked.party}",
            subject=asked,
            change={"is_signed": True},
            evidence=[
                ("Draft", f"https://files.example/contracts/{contract}.pdf"),
                ("Runs for", f"{asked.months} months"),
            ],
            outcomes=("approve", Outcome("reject", presets=("The price", "The term", "Liability"))),
            groups=["Legal"],
            quorum=2,
            risk="medium",
            on_decision=sign,
            calendar="berlin-office",
            due="2 business days",
            remind=["1 business day"],
            escalate=[("3 business days", ("add", "Directors")), ("5 business days", ("outcome", "reject"))],
        ),
    )
    return {"signed": answer.outcome == "approve", "by": [one.actor for one in answer.decisions]}
