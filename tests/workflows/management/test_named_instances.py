"""`manage.py workflows` and `demo` as a person meets them: keys instead of ids, whole values, people's words."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import UTC, datetime
from io import StringIO
from typing import Any

import pytest
from django.core.management import CommandError, call_command

import workflows
from tests.support.command_line import Parcel, worker  # noqa: F401 (a fixture)
from workflows import Await, Done, Workflow, event, step
from workflows.lifecycle import Status
from workflows.management.terminal import show_count, show_moment
from workflows.models import Instance
from workflows.testing import drain

pytestmark = pytest.mark.django_db

Run = Callable[..., str]


class Buyer(Workflow):
    name = "targets.buyer"

    @step
    def order(self, ctx):
        return Await(event("order.paid", {"order": 7}), then="close", timeout="3d")

    @step
    def close(self, ctx):
        return Done()


@workflows.durable(name="targets.asker")
def asker(ctx):
    return ctx.wait_for_signal("approval", schema={"ok": "bool"}, timeout="3d")


def fail(key: str, **where: Any) -> Instance:
    failed = workflows.start(Parcel, {"lost": True}, key=key, **where)
    drain()
    return failed


# --- keys ---------------------------------------------------------------------------------------------


def test_show_takes_the_key_of_a_live_instance(run: Run):
    fail("order-7")
    live = workflows.start(Parcel, key="order-7")
    assert f"Instance {live.pk}\n" in run("show", "order-7")


def test_a_key_means_the_default_workspace_unless_another_is_named(run: Run):
    workflows.workspace.create("acme")
    here = workflows.start(Parcel, key="order-7")
    there = workflows.start(Parcel, key="order-7", workspace="acme")
    only_there = workflows.start(Parcel, key="order-8", workspace="acme")
    assert str(here.pk) in run("show", "order-7")
    assert str(there.pk) in run("show", "order-7", "--workspace", "acme")
    with pytest.raises(CommandError, match=r"nor a key in workspace 'default'; there is one in --workspace acme\."):
        run("show", "order-8")
    assert str(only_there.pk) in run("show", only_there.pk)
    with pytest.raises(CommandError, match="is in workspace 'acme', not in 'default'"):
        run("show", only_there.pk, "--workspace", "default")


def test_show_and_retry_take_the_newest_that_ended_when_none_lives(run: Run):
    fail("order-7")
    newest = fail("order-7")
    assert f"Instance {newest.pk}\n" in run("show", "order-7")
    told = run("retry", "order-7", newest.pk)
    assert told == f"{newest.pk} (key order-7) is runnable in step 'send'\n"  # once, though it was named twice
    assert Instance.objects.get(pk=newest.pk).status == Status.RUNNABLE


def test_cancel_takes_a_key_and_never_an_ended_one(run: Run):
    live = workflows.start(Parcel, key="order-7")
    assert run("cancel", "order-7") == f"{live.pk} (key order-7) is cancelled\n"
    out = StringIO()
    with pytest.raises(CommandError, match="1 of 1 was not cancelled"):
        call_command("workflows", "cancel", "order-7", stdout=out, stderr=out, no_color=True)
    assert f"No live instance has the key 'order-7'; the last that had it is {live.pk}, which is cancelled." in (
        out.getvalue()
    )


def test_a_key_that_looks_like_an_id_is_found(run: Run):
    key = "6f0c1c0e-3a57-4a6e-9a43-0a4f7a1f2c11"
    live = workflows.start(Parcel, key=key)
    assert f"Instance {live.pk}\n" in run("show", key)


# --- show ---------------------------------------------------------------------------------------------


def test_show_says_the_names_of_events_and_questions_and_none_of_the_engines(run: Run):
    buyer = workflows.start(Buyer)
    drain()
    assert "event order.paid" in run("show", buyer.pk)
    asked = workflows.start(asker)
    drain()
    assert "answer to approval" in run("show", asked.pk)
    workflows.emit("order.paid", {"order": 7})
    workflows.complete(asked.interactions.get().signal_id, {"ok": True})
    for one, words in ((buyer, "event order.paid"), (asked, "answer to approval")):
        told = run("show", one.pk) + run("show", one.pk, "--full")
        assert told.count(words) >= 4  # inbox and history
        assert "holdpoint:" not in told


def test_full_cuts_nothing(run: Run):
    end = "the end of it"
    instance = workflows.start(Parcel, {"text": "x" * 5_000 + end})
    drain()
    workflows.signal(instance, "smalltalk", {"words": "y" * 900 + end})
    assert end not in run("show", instance.pk)
    told = run("show", instance.pk, "--full")
    assert told.count(end) >= 2
    assert "…" not in told


def test_json_is_whole_and_has_the_words_too(run: Run):
    instance = workflows.start(asker, key="asked")
    drain()
    told = json.loads(run("show", "asked", "--json"))
    assert (told["id"], told["status"], told["workspace"]) == (str(instance.pk), "awaiting", "default")
    assert told["waits_for"] == ["answer to approval"]
    [question] = told["questions"]
    assert (question["wait"], question["status"]) == ("approval", "pending")
    assert not {"token_hash", "idempotency_hash"} & set(question)
    assert told["created_at"].endswith("Z")
    workflows.complete(question["signal_id"], {"ok": True})
    told = json.loads(run("show", instance.pk, "--json"))
    assert told["inbox"][0]["name"].startswith("holdpoint:unit:")
    assert told["inbox"][0]["about"] == "answer to approval"
    instance = workflows.start(Parcel)
    drain()
    workflows.signal_many([(instance, "smalltalk", "y" * 900)] * 3)
    told = json.loads(run("show", instance.pk, "--json"))
    assert told["inbox"][1]["payload"] == "y" * 900
    assert told["cut"] == []
    told = json.loads(run("show", instance.pk, "--json", "--rows", 2))
    assert [one["n"] for one in told["inbox"]] == sorted(one["n"] for one in told["inbox"])
    assert len(told["inbox"]) == len(told["history"]) == 2
    assert told["cut"] == ["inbox", "history"]


# --- words --------------------------------------------------------------------------------------------


def test_times_carry_their_zone(run: Run, settings: Any):
    at = datetime(2026, 7, 1, 12, tzinfo=UTC)
    assert show_moment(at) == "2026-07-01 12:00:00 UTC"
    settings.TIME_ZONE = "Europe/Vienna"
    assert show_moment(at) == "2026-07-01 14:00:00 CEST"
    settings.TIME_ZONE = "America/Sao_Paulo"
    assert show_moment(at) == "2026-07-01 09:00:00 -03"
    instance = workflows.start(Parcel)
    drain()
    assert all("-03" in line for line in run("show", instance.pk).split("History")[1].splitlines()[2:])
    assert "-03" in run("list").splitlines()[-1]


def test_one_is_no_plural():
    assert [show_count(n, "tree") for n in (0, 1, 2)] == ["0 trees", "1 tree", "2 trees"]
