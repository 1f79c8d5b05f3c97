"""An instance that waits for several things, in the admin and in the command: words in place of the engine's names."""

from __future__ import annotations

from typing import Any

import pytest
from django.core.management import call_command
from django.test import Client

from tests.support.admin_pages import LIST, page_of, read_rows, words_of
from workflows import durable, event, instance, question, received, sleep, start
from workflows.testing import drain

pytestmark = pytest.mark.django_db


@durable(name="admin-other")
def sleep_long(ctx: Any) -> None:
    ctx.sleep("nap", "30d")


def wait_for_several(ctx: Any) -> None:
    asked = [ctx.ask("end", instance(ctx.input["other"])), ctx.ask("event", event("order.paid"))]
    asked += [ctx.ask("question", question("api")), ctx.ask("signal", received("withdrawn"))]
    ctx.wait_any(*asked, ctx.ask("late", sleep("1d")))


@pytest.fixture
def waiting() -> Any:
    start("admin-other", key="other")
    made = durable(name="admin-several", signals=True)(lambda ctx, other: wait_for_several(ctx)).start(other="other")
    drain()
    return made


def test_a_row_and_a_page_say_what_is_waited_for(operator: Client, waiting: Any) -> None:
    [row] = [one for one in read_rows(operator.get(LIST).text) if "admin-several" in one]
    for text in ("the end of an instance", "event order.paid", "answer to question-"):
        assert text in row
    assert "holdpoint:" not in row
    page = words_of(operator.get(page_of(waiting)).text)
    assert "until" in page


def test_an_instance_that_waits_for_time_alone_says_so(operator: Client) -> None:
    durable(name="admin-time")(lambda ctx: ctx.wait_any(ctx.ask("late", sleep("1d")))).start()
    drain()
    [row] = read_rows(operator.get(LIST).text)
    assert "its time" in row


def test_the_command_says_what_is_waited_for(waiting: Any, capsys: pytest.CaptureFixture[str]) -> None:
    call_command("workflows", "show", str(waiting.id))
    told = capsys.readouterr().out
    assert "several questions" in told
    assert "event order.paid" in told
    assert "end of instance" in told
    assert "holdpoint:asked" not in told
