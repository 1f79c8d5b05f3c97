"""Function style."""

from datetime import UTC, datetime
from typing import Any, assert_type
from uuid import UUID

import workflows
from workflows import Asked, FunctionContext, Signal, SignalTimeoutError, child, durable, instance, question, received
from workflows import callback as callback_of
from workflows.models import Instance

from .steps import Ship
from .values import Order, Payment, RefundForm


def write_draft(contact: str, *, tone: str = "kind") -> str:
    return f"{tone}: {contact}"


async def fetch_rate(currency: str) -> float:
    return 1.0


async def start_from_a_view() -> None:
    assert_type(await outreach.astart("Ada"), Instance)
    assert_type(await workflows.astart(outreach, {"contact": "Ada"}, key="ada"), Instance)
    assert_type((await workflows.asignal("ada", "note", 1)).duplicate, bool)
    assert_type(await workflows.aresult("ada", timeout="5s"), Any)
    await outreach.astart(contact=5)  # E: arg-type reportArgumentType
    await workflows.astart(outreach, kay="ada")  # E: call-arg reportCallIssue


def reads_order(asked: Any, submitted: Any) -> Any:
    return submitted


@durable(name="typed.outreach", step_timeout="5m")
def outreach(ctx: FunctionContext, contact: str, limit: int = 3) -> dict[str, int]:
    assert_type(ctx.step("draft", write_draft, contact), str)
    assert_type(ctx.step("draft-2", write_draft, contact, tone="short"), str)
    assert_type(ctx.atomic("count", len, contact), int)
    assert_type(ctx.step("anonymous", lambda: 1), int)
    ctx.progress(1, 2.5, "half")
    ctx.progress("1")  # E: arg-type reportArgumentType
    assert_type(ctx.step("fetched", fetch_rate, "EUR"), float)
    ctx.step("fetched-2", fetch_rate, 5)  # E: call-overload,arg-type reportCallIssue,reportArgumentType
    ctx.step("a", len, 5, 6)  # E: call-overload,arg-type reportCallIssue,reportArgumentType
    ctx.step("b", write_draft)  # E: call-overload reportCallIssue
    ctx.step("c", write_draft, contact, tune="short")  # E: call-arg,call-overload reportCallIssue
    ctx.atomic("d", write_draft, 7)  # E: arg-type reportArgumentType
    ctx.step("e", "no function")  # E: call-overload,arg-type reportArgumentType,reportCallIssue

    assert_type(ctx.wait_for_signal("gate", timeout="48h", schema=Payment), Payment)
    assert_type(ctx.wait_for_signal("order", timeout=60, schema=Order), Order)
    assert_type(ctx.wait_for_signal("form", timeout="48h", schema=RefundForm), dict[str, Any])
    assert_type(ctx.wait_for_signal("plain", timeout="48h"), Any)
    assert_type(ctx.wait_for_signal("fields", timeout="48h", schema={"cents": int}), Any)
    assert_type(ctx.wait_for_signal("made", timeout="48h", schema=Payment, projector=reads_order), Any)
    assert_type(ctx.wait_for_signal("at", until=datetime(2030, 1, 1, tzinfo=UTC), schema=Payment), Payment)
    ctx.wait_for_signal("at-2", until="noon")  # E: call-overload reportCallIssue,reportArgumentType
    ctx.wait_for_signal("bad", timeout="48h", schema=7)  # E: call-overload reportCallIssue,reportArgumentType

    paid = ctx.wait_for_event("paid", event="paid", match={"contact": contact}, timeout="1h", schema=Payment)
    assert_type(paid, Payment | None)
    print(paid.cents)  # E: union-attr reportOptionalMemberAccess

    callback = ctx.callback("partner", Payment, timeout="1h")
    assert_type(callback.resume_url, str)
    assert_type(callback.wait(), Payment)
    assert_type(ctx.callback("other", timeout="1h").wait(), Any)

    assert_type(ctx.wait_for("review", "api", schema=Payment), Payment)
    assert_type(ctx.wait_for("reviews", "api", schema=Payment, cardinality="ONE_TO_MANY"), Any)
    ctx.wait_for("few", "api", cardinality="ONE_TO_FEW")  # E: call-overload reportCallIssue,reportArgumentType

    asked = ctx.ask("asked", question("api", schema=Payment), timeout="2d")
    assert_type(asked, Asked[Payment])
    assert_type(asked.result(), Payment)
    assert_type(asked.answer, Payment | None)
    assert_type(ctx.ask("posted", callback_of(Order)).result(), Order)
    assert_type(ctx.ask("told", received("told", "said")).result(), Signal)
    assert_type(ctx.wait_for("told-2", received("told"), timeout="1h"), Signal)
    assert_type(ctx.ask("kid", child(follow_up, {"order": 7})).result(), Order)
    assert_type(ctx.ask("other", instance("order-7")).result(), Any)
    assert_type(ctx.wait_any(asked, timeout="1h"), Asked[Any])
    assert_type(ctx.wait_all([asked]), list[Asked[Any]])
    assert_type(ctx.gather("both", {"a": (write_draft, contact), "b": lambda: 1}), dict[str, Any])
    ctx.wait_any("asked")  # E: arg-type reportArgumentType
    ctx.ask("late", received("told"), until="noon")  # E: call-overload reportCallIssue,reportArgumentType
    received(7)  # E: arg-type reportArgumentType

    ctx.sleep("pause", "1h")
    assert_type(ctx.invoke("child", follow_up, {"order": 7}), Order)
    assert_type(ctx.invoke("ship", Ship, {}), Any)
    assert_type(ctx.launch("ship-2", Ship), UUID)
    assert_type(ctx.emit("tell", "written", {"to": contact}), int)
    ctx.launch("nothing", 7)  # E: arg-type reportArgumentType
    return {"words": limit}


@durable
def follow_up(ctx: FunctionContext, order: int) -> Order:
    try:
        ctx.wait_for_signal("late", timeout="1h")
    except SignalTimeoutError as error:
        assert_type(error.wait, str)
    return Order(number=order)


assert_type(outreach.start("Ada"), Instance)
assert_type(outreach.start(contact="Ada", limit=2), Instance)
assert_type(follow_up.options(key="7", run_at=datetime.now(UTC), actor="cron").start(order=7), Instance)
outreach.start()  # E: call-arg reportCallIssue
outreach.start(contact=5)  # E: arg-type reportArgumentType
outreach.start("Ada", key="ada")  # E: call-arg reportCallIssue
outreach.options(kay="ada")  # E: call-arg reportCallIssue
outreach.options(key="ada").start(limit="2")  # E: call-arg,arg-type reportCallIssue,reportArgumentType
outreach(1, 2)  # E: arg-type reportArgumentType
assert_type(workflows.start(outreach, {"contact": "Ada"}, key="ada"), Instance)
