"""A discount that a person has to approve, and that goes to the next group when the first one stays silent."""

from typing import Any

from approvals import Approval
from workflows import FunctionContext, durable

#: Who is asked first; who instead of them, and when; and the answer if those are silent as well.
FIRST = "Sales leads"
THEN = [("4h", ("reassign", "Directors")), ("28h", ("outcome", "reject"))]


@durable(name="demo.discount")
def approve_discount(ctx: FunctionContext, customer: str, percent: int) -> dict[str, Any]:
    """The whole escalation is part of the question, so one wait is enough, and it always ends."""
    if percent <= 5:
        return {"approved": True, "by": "rule"}
    approval = Approval(f"Give {customer} a discount of {percent}%", groups=[FIRST], escalate=THEN)
    answer = ctx.wait_for("gate", approval)
    return {"approved": answer.outcome == "approve", "by": answer.actor, "reason": answer.reason}
