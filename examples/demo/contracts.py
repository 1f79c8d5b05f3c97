"""`contract_signing`: two people sign on the terms that they set; the Directors are asked when they are silent."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import examples.contracts  # noqa: F401  # which registers the calendar
from approvals import Approval, Outcome
from examples.demo.papers import DRAFT, link_row, list_papers, list_warnings, show_amount
from examples.models import Contract
from workflows import FunctionContext, durable

REJECT = Outcome("reject", presets=("The price", "The term", "Liability", "We do it ourselves"))


def describe_terms(contract: Contract) -> dict[str, Any]:
    """The form of what is negotiable, filled in with what the draft says."""
    return {
        "type": "object",
        "title": "Terms",
        "properties": {
            "value": {
                "type": "number",
                "title": "Value in euros",
                "minimum": 0,
                "maximum": float(contract.value),
                "default": float(contract.value),
                "description": "You may bring it down, not up.",
            },
            "months": {
                "type": "integer",
                "title": "Runs for months",
                "minimum": 1,
                "maximum": 36,
                "default": contract.months,
            },
            "renewal": {
                "type": "string",
                "title": "At the end of the term",
                "enum": ["it ends", "it renews for a year", "we talk again"],
                "default": "it ends",
            },
            "note": {"type": "string", "title": "Note for the other side", "maxLength": 500},
        },
        "required": ["value", "months", "renewal"],
        "additionalProperties": False,
    }


def sign(answer: Any, instance: Any) -> None:
    """The second agreeing vote signs it, on the terms that it came with."""
    if answer.outcome == "approve":
        terms = answer.data or {}
        found = Contract.objects.filter(pk=instance.input["contract"])
        found.update(is_signed=True)
        if terms:
            found.update(value=Decimal(str(terms["value"])), months=terms["months"])


@durable(name="contract_signing")
def sign_contract(
    ctx: FunctionContext, /, contract: int, why: str, due: str = "2 business days", **more: Any
) -> dict[str, Any]:
    """All about time stands in one place: when it is due, who is reminded, who else is asked, and the end."""
    asked = Contract.objects.get(pk=contract)
    answer = ctx.wait_for(
        "signature",
        Approval(
            f"Sign with {asked.party} for {show_amount(asked.value)}",
            why=why,
            subject=asked,
            change={"is_signed": True},
            schema=describe_terms(asked),
            evidence=[
                *list_papers(DRAFT),
                link_row("The contract", asked),
                ("Runs for", f"{asked.months} months"),
                ("Within the budget of the year", True),
                *list_warnings(more),
            ],
            outcomes=("approve", REJECT),
            groups=["Legal"],
            quorum=2,
            risk="medium",
            on_decision=sign,
            calendar="berlin-office",
            due=due,
            remind=["1 business day"],
            escalate=[("3 business days", ("add", "Directors")), ("10 business days", ("outcome", "reject"))],
        ),
    )
    signed = Contract.objects.get(pk=contract)
    if answer.outcome != "approve":
        return {"ok": False, "told": f"Not signed. {answer.reason}".strip()}
    return {"ok": True, "told": f"Signed with {signed.party}: {show_amount(signed.value)}, {signed.months} months."}
