"""Asking people."""

from typing import Any, assert_type

import approvals
import workflows
from approvals import Approval, Outcome, Veto
from workflows import Answer, Channel, FunctionContext, durable
from workflows.models import Instance

from .values import Payment, RefundForm


def on_paid(answer: Answer[Payment | None], instance: Instance) -> None: ...


def takes_nothing() -> None: ...


class Vote(Channel[Payment]):
    name = "typed-vote"


@durable
def refund(ctx: FunctionContext, cents: int) -> str:
    answer = ctx.wait_for("check", Approval(f"Refund {cents}", groups=["finance"], risk="high"), timeout="7d")
    assert_type(answer, Answer[Any])
    assert_type(answer.outcome, str)
    assert_type(answer.data, Any)
    assert_type(answer.decisions[0].actor, str)

    paid = ctx.wait_for("pay", Approval("Pay", schema=Payment, quorum=2, on_decision=on_paid))
    assert_type(paid.data, Payment | None)
    form = ctx.wait_for("fill-in", Approval("Pay", schema=RefundForm, quorum={"finance": 1, "legal": "all"}))
    assert_type(form.data, dict[str, Any] | None)
    assert_type(ctx.wait_for("vote", Vote()), Payment)
    return answer.reason


Approval("Pay", quorum="50%", outcomes=("approve", Outcome("send_back", tone="warning")))
Approval("Pay", quorum=Veto(2), remind=["1d"], escalate=[("3d", ("outcome", "reject"))], due="5d")
Approval("Pay", risk="extreme")  # E: call-overload reportCallIssue,reportArgumentType
Approval("Pay", quorum=[1])  # E: call-overload reportCallIssue,reportArgumentType
Approval("Pay", quorum=1.5)  # E: call-overload reportCallIssue,reportArgumentType
Approval("Pay", group="finance")  # E: call-overload reportCallIssue
Approval("Pay", on_decision=takes_nothing)  # E: arg-type reportCallIssue,reportArgumentType
Approval("Pay", escalate=["3d"])  # E: list-item reportCallIssue,reportArgumentType
Approval("Pay", four_eyes="no")  # E: call-overload reportCallIssue,reportArgumentType
Outcome("send_back", tone="loud")  # E: arg-type reportArgumentType

assert approvals.Answer is workflows.Answer
workflows.start_many("typed.outreach", [], on_duplicate="skip")  # E: arg-type reportArgumentType
