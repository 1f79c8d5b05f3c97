"""Flow control, schedules, forks, and several questions at once."""

from datetime import UTC, datetime
from typing import Any, assert_type

import workflows
from workflows import (
    Asked,
    Concurrency,
    Done,
    FunctionContext,
    Next,
    Rate,
    Signal,
    StepContext,
    Workflow,
    callback,
    durable,
    received,
    step,
)
from workflows.models import Instance, Schedule

from .functions import fetch_rate, outreach, write_draft
from .values import Payment


class Import(Workflow):
    name = "typed.import"
    queue = "nightly"
    priority = -10
    concurrency = Concurrency("tenant:{tenant}", 5, hold="instance")
    rate = Rate("provider", 100, per="1m", weight=2)
    cron = "0 3 * * *"
    overlap = "skip"

    @step
    def load(self, ctx: StepContext) -> Next | Done:
        Next("load", priority="high")  # E: arg-type reportArgumentType
        return Next("load", queue="default", priority=5) if ctx.attempt else Done()


Concurrency("tenant:{tenant}", 5, hold="row")  # E: arg-type reportArgumentType
Concurrency("tenant:{tenant}", "5")  # E: arg-type reportArgumentType
Rate("provider", 100)  # E: call-arg reportCallIssue


@durable(name="typed.report", cron="0 9 * * 1-5", tz="Europe/Berlin", overlap="cancel", queue="mail", priority=3)
def report(ctx: FunctionContext, day: str = "today") -> str:
    paid = ctx.ask("paid", callback(Payment), timeout="1h")
    assert_type(paid.result(), Payment)
    note = ctx.ask("note", received("note"), until=datetime(2030, 1, 1, tzinfo=UTC))
    assert_type(note, Asked[Signal])
    first = ctx.wait_any(paid, note, timeout="2h")
    assert_type(first.id, str)
    assert_type(ctx.wait_all([paid, note]), list[Asked[Any]])
    assert_type(ctx.gather("both", {"draft": (write_draft, "Ada"), "rate": (fetch_rate, "EUR")}), dict[str, Any])
    ctx.gather("neither", ["no", "dict"])  # E: arg-type reportArgumentType
    return day


assert_type(workflows.schedule("reports", report, every="1h", overlap="allow", catch_up="last"), Schedule)
workflows.schedule("reports", report, every="1h", overlap="sometimes")  # E: arg-type reportArgumentType
workflows.schedule("reports", report, hourly=True)  # E: call-arg reportCallIssue
assert_type(workflows.fork(report.start()), Instance)


async def plan_from_a_view() -> None:
    assert_type(await workflows.aschedule("reports", report, every="1h", overlap="skip"), Schedule)
    assert_type(await workflows.afork("an order", at="pay"), Instance)
    await workflows.apause("typed.report", workspace="acme")
    await workflows.aunpause(queue="mail")
    await workflows.aunschedule("reports")
    await workflows.aschedule("reports", report, overlap="sometimes")  # E: arg-type reportArgumentType
    await workflows.apause(ques="mail")  # E: call-arg reportCallIssue


assert_type(outreach.options(queue="mail", priority=10).start("Ada"), Instance)
outreach.options(priority="high")  # E: arg-type reportArgumentType
