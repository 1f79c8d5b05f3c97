"""Know your customer: an agency checks the papers, answers days later, and may want to see others."""

from dataclasses import dataclass
from typing import Any, Literal

from django.contrib.auth import get_user_model

from workflows import FunctionContext, SignalTimeoutError, durable

ROUNDS = 3

#: Stands for the agency: its reference -> where it answers.
submitted: dict[str, str] = {}


@dataclass
class Report:
    """What the agency answers."""

    status: Literal["passed", "failed", "resubmit"]
    note: str = ""


def submit_papers(customer: int, reply_to: str, reference: str) -> None:
    """Hand the papers in. The agency knows a reference that it has seen."""
    submitted[reference] = reply_to


def open_account(customer: int) -> bool:
    """Let the customer in."""
    return bool(get_user_model()._default_manager.filter(pk=customer).update(is_active=True))


@durable(name="demo.kyc")
def verify_customer(ctx: FunctionContext, customer: int) -> dict[str, Any]:
    """Rounds of the same few calls: a loop, so a function. Every id carries its round."""
    for n in range(1, ROUNDS + 1):
        check = ctx.callback(f"check-{n}", timeout="10d", schema=Report)
        ctx.step(f"submit-{n}", submit_papers, customer, check.resume_url, f"{ctx.id}-{n}")
        try:
            report = check.wait()
        except SignalTimeoutError:
            return {"verified": False, "why": "the agency did not answer"}
        if report.status == "failed":
            return {"verified": False, "why": report.note}
        if report.status == "passed":
            # Our own database: the account and the checkpoint are one transaction, so this happens once.
            ctx.atomic("open", open_account, customer)
            return {"verified": True, "rounds": n}
        try:
            ctx.wait_for_signal(f"papers-{n}", signal=f"papers-{customer}", timeout="30d")
        except SignalTimeoutError:
            return {"verified": False, "why": "no other papers came"}
    return {"verified": False, "why": f"not settled in {ROUNDS} rounds"}
