"""Step style."""

from datetime import datetime, timedelta
from typing import Any, assert_type
from uuid import UUID

import workflows
from workflows import Answer, Await, Child, Done, Next, Retry, Signal, Spawn, StepContext, Stop, Workflow, event, step

from .values import Payment


class Ship(Workflow):
    name = "typed.ship"
    max_attempts = 3

    @step
    def ask(self, ctx: StepContext) -> Await:
        assert_type(ctx.id, UUID)
        assert_type(ctx.key, str | None)
        assert_type(ctx.now, datetime)
        assert_type(ctx.step, str)
        callback = ctx.callback("payment", Payment)
        assert_type(callback.resume_url, str)
        if ctx.attempt:
            return Await(event("paid", {"order": 7}, Payment), then="ship", timeout=timedelta(hours=1))
        return Await(callback, then="ship", timeout="24h")

    @step(atomic=True, step_timeout="5m")
    def ship(self, ctx: StepContext) -> Done | Stop | Next | Spawn | Retry:
        assert_type(ctx.awaited, list[Signal])
        assert_type(ctx.inbox, list[Signal])
        assert_type(ctx.awaited[0].name, str)
        assert_type(ctx.awaited[0].received_at, datetime)
        assert_type(ctx.timed_out, bool)
        assert_type(ctx.children[0].status, str)
        answer: Answer = ctx.answer
        assert_type(answer.outcome, str)
        ctx.state["seen"] = True
        print(ctx.awaitd)  # E: attr-defined reportAttributeAccessIssue
        ctx.key = "other"  # E: misc reportAttributeAccessIssue
        if ctx.attempt:
            return Retry(delay=5)
        Next(5)  # E: arg-type reportArgumentType
        Next("ask", delay=["1h"])  # E: arg-type reportArgumentType
        Await("paid", the="ship")  # E: call-arg reportCallIssue
        Child(7)  # E: arg-type reportArgumentType
        Spawn([Child("typed.ship", {"n": 1}, key="a")], then="ship")
        return Stop("never paid")

    @step
    async def fetch(self, ctx: StepContext) -> Next | Done:
        assert_type(await workflows.asignal("k", "seen"), workflows.Delivery)
        return Done(ctx.awaited[0].payload)

    @step  # E: type-var reportArgumentType
    async def awaits_nothing(self, ctx: StepContext) -> int:
        return 1

    @step  # E: type-var reportArgumentType
    def forgets_its_outcome(self, ctx: StepContext) -> None: ...

    @step  # E: type-var reportArgumentType
    def forgets_ctx(self) -> Done:
        return Done()

    def handle(self, error: Exception, ctx: StepContext) -> Any:
        return Stop(str(error))
