"""Access for a while: somebody asks, one of a group agrees, and in the end it is taken away again."""

from typing import Any

from django.contrib.auth import get_user_model
from django.contrib.auth.models import Group

from approvals import Approval
from workflows import FunctionContext, SignalTimeoutError, durable


def let_in(answer: Any, instance: Any) -> None:
    """With the decision, and not some time after it."""
    if answer.outcome == "approve":
        change_membership(instance.input["user"], instance.input["group"], is_member=True)


def change_membership(user: int, group: str, *, is_member: bool) -> None:
    """Put somebody into a group, or take them out."""
    groups = get_user_model()._default_manager.get(pk=user).groups
    (groups.add if is_member else groups.remove)(Group.objects.get(name=group))


@durable(name="demo.access")
def grant_access(ctx: FunctionContext, user: int, group: str, days: int, why: str) -> dict[str, Any]:
    """Asked for by `start("demo.access", {…}, actor=request.user)`: who asks is the requester, and cannot agree."""
    name = get_user_model()._default_manager.get(pk=user).get_username()
    approval = Approval(
        f"Give {name} the access of “{group}” for {days} days",
        request={"why": why},
        groups=["IT"],
        on_decision=let_in,
        due="1d",
        remind=["4h", "1d"],
    )
    try:
        answer = ctx.wait_for("gate", approval, timeout="5d")
    except SignalTimeoutError:
        return {"granted": False, "why": "nobody decided"}
    if answer.outcome != "approve":
        return {"granted": False, "why": answer.reason}
    ctx.sleep("term", f"{days}d")
    ctx.atomic("revoke", change_membership, user, group, is_member=False)
    return {"granted": True, "days": days}
