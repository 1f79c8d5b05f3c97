"""A discount that a person has to approve, and that goes to the next group when the first one stays silent."""

from dataclasses import dataclass
from typing import Any

from workflows import SignalTimeoutError, durable

#: Who is asked, in this order, and how long each group has.
ESCALATION = (("sales-leads", "4h"), ("directors", "24h"))


@dataclass
class Verdict:
    """What an approver answers."""

    approved: bool
    reason: str = ""


@durable(name="demo.discount")
def approve_discount(ctx: Any, customer: str, percent: int) -> dict[str, Any]:
    """A chain of questions reads best as a loop, so this is a function."""
    if percent <= 5:
        return {"approved": True, "by": "rule"}
    for group, patience in ESCALATION:
        try:
            verdict = ctx.wait_for(
                f"ask-{group}",  # each question of a run has an id of its own
                "api",
                group=group,
                input={"customer": customer, "percent": percent},
                schema=Verdict,
                timeout=patience,
            )
        except SignalTimeoutError:
            continue  # the question is closed: whoever answers it now is told that it is too late
        return {"approved": verdict.approved, "by": group, "reason": verdict.reason}
    return {"approved": False, "by": "nobody"}
