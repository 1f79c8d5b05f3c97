"""`access_request`: somebody needs to see more for a while; who agrees says how much, where, and until when."""

from __future__ import annotations

from datetime import date, timedelta
from typing import Any

from django.utils import timezone

from approvals import Approval, Outcome
from examples.demo.papers import link_row, list_warnings
from examples.models import Access
from workflows import FunctionContext, SignalTimeoutError, durable

REJECT = Outcome("reject", presets=("Not needed for this work", "Ask for less", "Ask your lead first"))


def describe_grant(days: int, areas: list[str]) -> dict[str, Any]:
    """A form with choices, a day, a group of its own and a list of parts."""
    return {
        "type": "object",
        "title": "Access",
        "properties": {
            "level": {
                "title": "Level",
                "oneOf": [{"const": "read", "title": "Read"}, {"const": "write", "title": "Read and write"}],
                "default": "read",
            },
            "until": {
                "type": "string",
                "format": "date",
                "title": "Until",
                "default": (timezone.localdate() + timedelta(days=days)).isoformat(),
            },
            "conditions": {
                "type": "object",
                "title": "Conditions",
                "properties": {
                    "second_factor": {"type": "boolean", "title": "With a second factor only", "default": True},
                    "from": {
                        "type": "string",
                        "title": "From where",
                        "enum": ["the office", "the office and home", "anywhere"],
                        "default": "the office and home",
                    },
                },
                "required": ["second_factor", "from"],
            },
            "areas": {
                "type": "array",
                "title": "Areas",
                "minItems": 1,
                "maxItems": 10,
                "items": {
                    "type": "object",
                    "title": "Area",
                    "properties": {
                        "name": {"type": "string", "title": "Area", "minLength": 1, "maxLength": 60},
                        "masked": {"type": "boolean", "title": "Names are masked", "default": True},
                    },
                    "required": ["name"],
                },
                "default": [{"name": name, "masked": True} for name in areas],
            },
        },
        "required": ["level", "until", "conditions", "areas"],
    }


def let_in(answer: Any, instance: Any) -> None:
    """With the decision, and as the form says."""
    if answer.outcome == "approve":
        given = answer.data
        Access.objects.filter(pk=instance.input["access"]).update(
            level=given["level"], until=given["until"], areas=", ".join(one["name"] for one in given["areas"])[:200]
        )


def take_away(access: int) -> None:
    """In the end."""
    Access.objects.filter(pk=access).update(level=Access.Level.NONE, until=None, areas="")


@durable(name="access_request")
def grant_access(
    ctx: FunctionContext, /, access: int, days: int, areas: list[str], why: str, **more: Any
) -> dict[str, Any]:
    """Who asks cannot agree. What was given is taken away again when its time is over."""
    wanted = Access.objects.get(pk=access)
    approval = Approval(
        f"Open {wanted.system} to {wanted.person} for {days} days",
        why=why,
        subject=wanted,
        change={"level": Access.Level.READ},
        schema=describe_grant(days, areas),
        evidence=[
            link_row("What they may now", wanted),
            ("Asked for", ", ".join(areas)),
            ("Has done the training on data protection", True),
            *list_warnings(more),
        ],
        outcomes=("approve", REJECT),
        groups=["People"],
        risk=more.get("risk", "medium"),
        on_decision=let_in,
        due=more.get("due", "2d"),
        remind=["1d"],
    )
    try:
        answer = ctx.wait_for("gate", approval, timeout="14d")
    except SignalTimeoutError:
        return {"ok": False, "told": "Nobody decided within two weeks."}
    if answer.outcome != "approve":
        return {"ok": False, "told": f"Not opened. {answer.reason}".strip()}
    left = date.fromisoformat(answer.data["until"]) - timezone.localdate(answer.decisions[-1].at)
    ctx.sleep("term", f"{max(left.days, 1)}d")
    ctx.atomic("revoke", take_away, access)
    return {"ok": True, "told": f"{wanted.person} could use {wanted.system} until {answer.data['until']}."}
