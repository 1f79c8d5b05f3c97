"""`redrive`: one question, a unit, or all that have something in common; from Python, the shell, REST and the admin."""

from __future__ import annotations

import contextlib
import uuid
from datetime import timedelta
from typing import Any

import pytest
from django.contrib.auth.models import Permission, User
from django.core.management import CommandError, call_command
from django.test import Client

import workflows
from tests.support.notices import Place, answer
from tests.support.webhook.flows import STYLES
from tests.support.webhook.partners import find_ids, newest
from workflows import InvalidCall, NotRedrivable, UnitFailed, UnknownInteraction, Webhook, durable
from workflows.access import api_keys
from workflows.models import AwaitUnit, Instance, Interaction, Workspace
from workflows.testing import advance, assert_awaiting, assert_done, assert_failed, drain

pytestmark = pytest.mark.django_db


@durable(name="redriven.partial")
def go_on_without(ctx: Any, url: str) -> Any:
    ctx.wait_for_each("ask", ["a", "b"], lambda item: Webhook(f"{url}/{item}"), on_item="partial")
    raise InvalidCall("what follows is broken")


@durable(name="redriven.catching")
def catch_and_go_on(ctx: Any, url: str) -> Any:
    with contextlib.suppress(UnitFailed):
        ctx.wait_for_each("ask", ["a", "b"], lambda item: Webhook(f"{url}/{item}"))
    ctx.step("between", str)
    raise InvalidCall("what follows is broken")


def ask(place: Place, name: str = "failing.function", **more: Any) -> Any:
    instance = workflows.start(name, {"url": place.url, **more})
    drain()
    return instance


@pytest.mark.parametrize("style", STYLES)
def test_a_failed_question_is_sent_again_and_its_instance_waits_for_it(partner: Place, style: str) -> None:
    partner.answer = answer(410)
    instance = ask(partner, style)
    assert_failed(instance)
    partner.answer = answer(200)
    assert workflows.redrive(newest()) == [newest().pk]
    drain()
    assert_awaiting(instance)
    assert len(set(find_ids(partner))) == 1
    workflows.complete(newest(), "paid")
    drain()
    assert workflows.result(instance) in ("paid", {"ask": "paid"})


def test_one_that_waits_to_be_tried_again_is_sent_now(partner: Place) -> None:
    partner.answer = answer(503)
    ask(partner)
    advance("2h")
    sent = len(partner.got)
    partner.answer = answer(200)
    workflows.redrive(newest().signal_id)
    drain()
    assert len(partner.got) == sent + 1
    assert newest().tries == 1


def test_one_that_the_partner_has_lost_is_sent_once_more(partner: Place) -> None:
    instance = ask(partner)
    workflows.redrive(newest().pk)
    drain()
    assert len(partner.got) == 2
    assert len(set(find_ids(partner))) == 1
    assert_awaiting(instance)


def test_what_is_over_is_not_sent_again(partner: Place) -> None:
    instance = ask(partner)
    workflows.complete(newest(), 1)
    with pytest.raises(NotRedrivable, match="it is completed"):
        workflows.redrive(newest())
    drain()
    assert_done(instance, 1)


def test_what_its_workflow_has_gone_on_without_is_not_sent_again(partner: Place) -> None:
    partner.answer = answer(410)
    instance = ask(partner, "failing.catching")
    failed = Interaction.objects.get(channel="webhook")
    with pytest.raises(NotRedrivable, match="has gone on without it"):
        workflows.redrive(failed)
    assert_awaiting(instance, "ask-people")
    workflows.complete(Interaction.objects.get(channel="api"), 7)
    drain()
    with pytest.raises(NotRedrivable, match="ended otherwise"):
        workflows.redrive(failed)


def test_what_a_cancelled_instance_asked_is_not_sent_again(partner: Place) -> None:
    instance = ask(partner)
    workflows.cancel(instance)
    with pytest.raises(NotRedrivable, match="it is cancelled"):
        workflows.redrive(newest())


def test_a_question_that_nobody_sends_is_not_sent(partner: Place) -> None:
    @workflows.durable(name="redrive.plain")
    def plain(ctx):
        return ctx.wait_for("wait", "api", timeout="1h")

    workflows.start("redrive.plain")
    drain()
    with pytest.raises(NotRedrivable, match="sends nothing"):
        workflows.redrive(Interaction.objects.get(channel="api"))


def test_an_item_that_waits_for_its_turn_is_not_sent(partner: Place) -> None:
    @workflows.durable(name="redrive.queued")
    def queued(ctx, url):
        return ctx.wait_for_each("ask", [1, 2], workflows.Webhook(url), timeout="1h", concurrency=1)

    ask(partner, "redrive.queued")
    with pytest.raises(NotRedrivable, match="when its turn comes"):
        workflows.redrive(Interaction.objects.get(queued=True))


def test_where_its_signal_id_is_taken_it_stays_failed(partner: Place) -> None:
    from workflows.definitions.question import Question

    partner.answer = answer(410)
    instance = ask(partner)
    taken = newest().signal_id

    class Taker(workflows.Workflow):
        name = "redrive.taker"

        @workflows.step
        def ask(self, ctx):
            return workflows.Await(Question("ask", signal_id=taken), then="ask")

    workflows.start("redrive.taker")
    drain()
    with pytest.raises(NotRedrivable, match="has its signal id"):
        workflows.redrive(Interaction.objects.get(status="failed"))
    assert_failed(instance, "410")


def test_all_that_have_something_in_common(partner: Place) -> None:
    partner.answer = answer(410)
    gone = [ask(partner), ask(partner, "failing.steps")]
    partner.answer = answer(503)
    waiting = ask(partner)
    partner.answer = answer(200)
    fine = ask(partner)
    partner.got.clear()

    def of(instance: Any) -> Any:
        return Interaction.objects.get(instance=instance).pk

    assert workflows.redrive(workflow="failing.steps") == [of(gone[1])]
    assert workflows.redrive(reason="ANSWERED 503") == [of(waiting)]
    assert workflows.redrive(channel="letter") == []
    assert workflows.redrive(since="1h", reason="410") == [of(gone[0])]
    drain()
    assert len(partner.got) == 3
    assert of(fine) not in {row.pk for row in Interaction.objects.filter(tries__gt=1)}
    assert workflows.redrive() == []


def test_those_of_a_unit(partner: Place) -> None:
    partner.answer = answer(503)
    ask(partner, "failing.each", items=["a", "b", "c"])
    ask(partner)
    partner.answer = answer(200)
    partner.got.clear()
    unit = AwaitUnit.objects.get(items=True)
    assert len(workflows.redrive(unit=unit)) == 3
    drain()
    assert len(partner.got) == 3


def test_a_failed_unit_is_asked_again_and_keeps_its_answers(partner: Place) -> None:
    instance = ask(partner, "failing.each", items=["a", "b"])
    workflows.complete(Interaction.objects.get(index=0), "kept")
    from django.db import connection

    from workflows import store
    from workflows.units.item_outcomes import follow_up

    failed = Interaction.objects.get(index=1)
    follow_up(connection, store.fail_items(connection, [store.ItemFailure(failed.pk, "lost")], actor=""))
    drain()
    assert_failed(instance, "lost")
    workflows.redrive(failed)
    drain()
    again = Interaction.objects.get(status="pending")
    workflows.complete(again, "new")
    drain()
    assert_done(instance, ["kept", "new"])


def test_a_failed_item_of_an_open_unit_is_asked_again(partner: Place) -> None:
    def refuse_b(handler: Any) -> None:
        answer(410 if handler.path.endswith("/b") else 200)(handler)

    partner.answer = refuse_b
    instance = ask(partner, "failing.each", items=["a", "b"], on_item="partial")
    assert AwaitUnit.objects.get().failed == 1
    partner.answer = answer(200)
    assert len(workflows.redrive(unit=AwaitUnit.objects.get())) == 1
    drain()
    assert len(partner.got) == 3
    assert len(set(find_ids(partner))) == 2
    for row in Interaction.objects.filter(status="pending"):
        workflows.complete(row, row.request)
    drain()
    assert workflows.result(instance) == [["completed", "a"], ["completed", "b"]]


@pytest.mark.parametrize("name", ["redriven.partial", "redriven.catching"])
def test_an_instance_that_failed_of_something_else_is_left_alone(partner: Place, name: str, capsys: Any) -> None:
    partner.answer = answer(410)
    instance = ask(partner, name)
    assert_failed(instance, "what follows is broken")
    item = Interaction.objects.filter(status="failed").order_by("index")[0]
    with pytest.raises(NotRedrivable, match="gone on"):
        workflows.redrive(item)
    assert "0 questions" in run(capsys, "--channel", "webhook", "--dry-run")
    assert workflows.redrive(channel="webhook") == []
    instance.refresh_from_db()
    assert instance.status == "failed"


def test_what_is_counted_first_is_what_is_sent_again(partner: Place, capsys: Any) -> None:
    """The questions of before stay failed rows of an instance that was asked anew, and is done."""
    partner.answer = answer(410)
    instance = ask(partner, "failing.each", items=["a"])
    assert "1 question " in run(capsys, "--channel", "webhook", "--dry-run")
    partner.answer = answer(200)
    assert "1 question " in run(capsys, "--channel", "webhook")
    drain()
    workflows.complete(Interaction.objects.get(status="pending"), "new")
    drain()
    assert_done(instance, ["new"])
    assert "0 questions" in run(capsys, "--channel", "webhook", "--dry-run")
    assert "0 questions" in run(capsys, "--channel", "webhook")


def test_since_is_a_moment_or_how_long_ago(partner: Place) -> None:
    from workflows.clock import read_now

    partner.answer = answer(410)
    ask(partner)
    assert workflows.redrive(since=read_now() + timedelta(seconds=5)) == []
    advance("3h")
    assert workflows.redrive(since="2h") == []
    assert len(workflows.redrive(since="4h")) == 1


def test_one_and_a_filter_together_are_refused(partner: Place) -> None:
    ask(partner)
    with pytest.raises(InvalidCall):
        workflows.redrive(newest(), channel="webhook")
    with pytest.raises(InvalidCall):
        workflows.redrive(7)  # type: ignore[arg-type]


def test_what_another_workspace_asked_is_not_known(partner: Place) -> None:
    workflows.workspace.create("acme")
    ask(partner)
    with pytest.raises(UnknownInteraction):
        workflows.redrive(newest().pk, workspace="acme")
    assert workflows.redrive(workspace="acme") == []


# --- from a shell ---------------------------------------------------------------------------------------------------


def run(capsys: Any, *arguments: str) -> str:
    call_command("workflows", "redrive", *arguments)
    return str(capsys.readouterr().out)


def test_the_command_sends_one_again(partner: Place, capsys: Any) -> None:
    partner.answer = answer(410)
    instance = ask(partner)
    partner.answer = answer(200)
    assert str(newest().pk) in run(capsys, str(newest().pk))
    drain()
    assert_awaiting(instance)
    history = Instance.objects.get(pk=instance.pk).events
    assert str(history.filter(kind="reopened").get().actor).startswith("shell")


def test_the_command_sends_again_what_fits_and_counts_first_if_asked(partner: Place, capsys: Any) -> None:
    partner.answer = answer(410)
    ask(partner)
    ask(partner)
    partner.answer = answer(200)
    assert "2 questions" in run(capsys, "--channel", "webhook", "--reason", "410", "--dry-run")
    drain()
    assert len(partner.got) == 2
    assert "2 questions" in run(capsys, "--workflow", "failing.function", "--since", "1h")
    drain()
    assert len(partner.got) == 4


def test_the_command_says_what_it_could_not_send(partner: Place, capsys: Any) -> None:
    ask(partner)
    workflows.complete(newest(), 1)
    with pytest.raises(CommandError, match="1 of 1"):
        run(capsys, str(newest().pk))
    assert "it is completed" in capsys.readouterr().err


def test_the_command_wants_to_know_which(capsys: Any) -> None:
    with pytest.raises(CommandError, match="--all"):
        run(capsys)


# --- REST -----------------------------------------------------------------------------------------------------------


def post(path: str, *, scopes: Any = ("read", "operate"), **headers: str) -> Any:
    key = api_keys.create_key("operator", workspace=Workspace.objects.get(slug="default"), scopes=scopes)[1]
    headers["Authorization"] = f"Bearer {key}"
    return Client().post(path, b"", content_type="application/json", headers=headers)


def get(path: str) -> Any:
    key = api_keys.create_key("reader", workspace=Workspace.objects.get(slug="default"), scopes=["read"])[1]
    return Client().get(path, headers={"Authorization": f"Bearer {key}"})


def test_the_api_sends_one_again(partner: Place) -> None:
    partner.answer = answer(410)
    instance = ask(partner)
    partner.answer = answer(200)
    told = post(f"/v1/interactions/{newest().pk}/redrive")
    assert told.status_code == 200, told.content
    assert (told.json()["id"], told.json()["status"]) == (str(newest().pk), "pending")
    drain()
    assert_awaiting(instance)


def test_the_api_refuses_what_is_over_and_what_is_not_there(partner: Place) -> None:
    ask(partner)
    workflows.complete(newest(), 1)
    assert post(f"/v1/interactions/{newest().pk}/redrive").status_code == 409
    assert post(f"/v1/interactions/{uuid.uuid4()}/redrive").status_code == 404
    assert post(f"/v1/interactions/{newest().pk}/redrive", scopes=("read",)).status_code == 403


def test_the_api_shows_the_delivery_log(partner: Place) -> None:
    partner.answer = answer(503, b"busy")
    ask(partner)
    partner.answer = answer(202, b"taken")
    advance("3s")
    told = get(f"/v1/interactions/{newest().pk}/dispatches")
    assert told.status_code == 200, told.content
    items = told.json()["results"]
    assert [(one["try"], one["status"], one["sent"], one["response"]) for one in items] == [
        (1, 503, False, "busy"),
        (2, 202, True, "taken"),
    ]
    assert "answered 503" in items[0]["error"]
    assert items[0]["ms"] >= 0
    assert get(f"/v1/interactions/{uuid.uuid4()}/dispatches").status_code == 404
    first = get(f"/v1/interactions/{newest().pk}/dispatches?limit=1").json()
    second = get(first["next"]).json()
    assert (first["results"] + second["results"], second["next"]) == (items, None)
    assert get(second["previous"]).json()["results"] == items[:1]


# --- the admin ------------------------------------------------------------------------------------------------------


def operator(client: Client, *permissions: str) -> None:
    user = User.objects.create_user("operator", is_staff=True)
    user.user_permissions.set(Permission.objects.filter(codename__in=permissions))
    client.force_login(user)


def test_the_page_of_a_question_shows_its_tries(partner: Place, client: Client) -> None:
    partner.answer = answer(503, b"<b>busy</b>")
    ask(partner)
    operator(client, "view_interaction")
    page = client.get(f"/admin/holdpoint/interaction/{newest().pk}/change/").content.decode()
    assert "answered 503" in page
    assert "&lt;b&gt;busy" in page
    assert "<b>busy" not in page


def test_an_operator_sends_again_from_the_list(partner: Place, client: Client) -> None:
    partner.answer = answer(410)
    instance = ask(partner)
    partner.answer = answer(200)
    operator(client, "view_interaction", "redrive_interaction")
    told = client.post(
        "/admin/holdpoint/interaction/",
        {"action": "redrive", "_selected_action": [str(newest().pk)]},
        follow=True,
    )
    assert told.status_code == 200
    drain()
    assert_awaiting(instance)


def test_who_may_only_look_sends_nothing_again(partner: Place, client: Client) -> None:
    partner.answer = answer(410)
    ask(partner)
    operator(client, "view_interaction")
    told = client.post("/admin/holdpoint/interaction/", {"action": "redrive", "_selected_action": [str(newest().pk)]})
    assert told.status_code == 403
    assert newest().status == "failed"
