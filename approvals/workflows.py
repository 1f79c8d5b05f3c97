"""The workflows behind `ApprovalRequiredMixin`, found by autodiscovery like a project's own.

Lives here: asking, and what follows the answer. Must not live here: how a change is made (`required.applying`) and how
a call is made again (`required.core.call_replay`). Invariant owned: what is asked for was sealed by this site, or
nobody is asked.
"""

from __future__ import annotations

from approvals.required.core.proposals import CHANGE
from workflows import Await, Done, StepContext, Stop, Workflow, step


class ProposedChange(Workflow):
    """Somebody wants to change, add or delete an object; the decision does it, and this tells."""

    name = CHANGE
    version = 2

    @step
    def ask(self, ctx: StepContext) -> Await | Stop:
        """Those who have to agree."""
        from approvals.required.core.gate_questions import ask_about_change

        return ask_about_change(ctx)

    @step
    def tell(self, ctx: StepContext) -> Done:
        """How it came out."""
        from approvals.required.core.gate_questions import tell_answer

        return Done(tell_answer(ctx))


class ProposedCall(Workflow):
    """Somebody has called an API; once it is approved, the call is made again, as them."""

    name = "holdpoint-call"
    version = 2

    @step
    def ask(self, ctx: StepContext) -> Await | Stop:
        """Those who have to agree."""
        from approvals.required.core.gate_questions import ask_about_call

        return ask_about_call(ctx)

    @step(atomic=True)
    def carry_out(self, ctx: StepContext) -> Done:
        """The call itself: its writes and this outcome are committed together, so it happens once."""
        from approvals.required.core.call_replay import replay_call
        from approvals.required.core.gate_questions import read_asked, tell_answer

        asked = read_asked(ctx)
        told = tell_answer(ctx)
        if told["outcome"] == asked["applies"]:
            told["response"] = replay_call(asked["call"], asked["requester"])
        return Done(told)


class FirstProposedChange(ProposedChange):
    """What was proposed before a seal named its instance, and still waits; none is started any more."""

    name = CHANGE
    version = 1


class FirstProposedCall(ProposedCall):
    """The same of calls."""

    name = "holdpoint-call"
    version = 1
