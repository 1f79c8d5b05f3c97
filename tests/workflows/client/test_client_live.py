"""The client against the real API and real workers: every call once, also where each first answer is lost."""

from __future__ import annotations

import doctest
import logging
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from http.client import HTTPConnection
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import urlsplit
from uuid import UUID

import pytest
from django.db import connection

import workflows
from examples.partner import sell
from tests.support.api_calls import make_key
from tests.support.processes import wait_until
from tests.support.pumps import pumping
from workflows import Await, Concurrency, Done, Stop, Workflow, durable, step
from workflows.client import (
    ApiError,
    Client,
    Delivery,
    DuplicateKey,
    DuplicateSchedule,
    Forbidden,
    Gone,
    IdempotencyConflict,
    InstanceCancelled,
    InstanceFailed,
    InvalidData,
    InvalidInput,
    InvalidRequest,
    InvalidSchedule,
    NotFinished,
    NotFound,
    NotPossible,
    StaleVersion,
    TooLarge,
    Unauthorized,
    UnknownWorkflow,
    calls,
    flow_calls,
    operator_calls,
    scheduling_calls,
    transport,
)
from workflows.client.flow_calls import FlowCalls
from workflows.client.operator_calls import OperatorCalls
from workflows.client.scheduling_calls import ScheduleCalls
from workflows.conf import conf
from workflows.definitions import registry
from workflows.models import Instance, Interaction, Signal

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("committed")]


class ClientShip(Workflow):
    name = "client-ship"

    @step
    def ask(self, ctx):
        return Await("paid", then="ship", timeout="24h")

    @step
    def ship(self, ctx):
        paid = ctx.awaited[0].payload
        return Stop("card refused") if paid == "refused" else Done({"paid": paid})


@durable(name="client-ask")
def ask(ctx, n):
    return ctx.wait_for_signal("gate", signal=f"gate:{n}", timeout="24h", schema={"approved": bool})


@durable(name="client-call")
def call_back(ctx, url):
    answer = ctx.callback("partner", timeout="24h", schema={"payment_id": str})
    ctx.step("tell", told.append, answer.resume_url)
    return answer.wait()


@durable(name="client-listen")
def listen(ctx, order):
    return ctx.wait_for_event("paid", event="client.paid", match={"order": order}, timeout="24h")


#: What the partner was told.
told: list[str] = []


class _Losing(BaseHTTPRequestHandler):
    """Passes calls on, and loses the first answer to each that changes something."""

    protocol_version = "HTTP/1.1"
    wbufsize = -1
    upstream: str
    lost: set[str]

    def do_GET(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        upstream = HTTPConnection(self.upstream, timeout=60)
        upstream.request(self.command, self.path, body=body, headers=dict(self.headers))
        response = upstream.getresponse()
        answer = response.read()
        upstream.close()
        once = self.headers.get("Idempotency-Key")
        if once is not None and once not in self.lost:
            self.lost.add(once)
            self.close_connection = True
            return
        self.send_response(response.status)
        for name in ("Content-Type", "Retry-After", "Idempotency-Replayed"):
            if name in response.headers:
                self.send_header(name, response.headers[name])
        self.send_header("Content-Length", str(len(answer)))
        self.end_headers()
        self.wfile.write(answer)

    do_POST = do_PATCH = do_DELETE = do_GET  # noqa: N815  # the names that http.server looks for

    def log_message(self, format: str, *args: Any) -> None:
        pass


@contextmanager
def losing_answers(url: str) -> Iterator[str]:
    members = {"upstream": urlsplit(url).netloc, "lost": set()}
    server = ThreadingHTTPServer(("127.0.0.1", 0), type("Losing", (_Losing,), members))
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
    thread.start()
    try:
        yield f"http://localhost:{server.server_port}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


@pytest.fixture(autouse=True)
def links_lead_here(live_server: Any, settings: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    settings.WORKFLOWS = {**settings.WORKFLOWS, "BASE_URL": live_server.url}
    monkeypatch.setattr(transport, "FIRST_PAUSE", 0.01)
    told.clear()


@pytest.fixture(params=["direct", "answers lost"])
def client(request: pytest.FixtureRequest, live_server: Any) -> Iterator[Client]:
    if request.param == "direct":
        with Client(live_server.url, make_key()) as one:
            yield one
    else:
        with losing_answers(live_server.url) as url, Client(url, make_key()) as one:
            yield one


@pytest.fixture
def direct(live_server: Any) -> Iterator[Client]:
    with Client(live_server.url, make_key()) as one:
        yield one


@pytest.fixture
def worker() -> Iterator[None]:
    with pumping():
        yield


def wait_for_question(client: Client, **filters: Any) -> Any:
    """The only one that is pending, as soon as it is."""
    [question] = wait_until(lambda: list(client.interactions(status="pending", **filters)), "a question")
    return question


# --- each call ----------------------------------------------------------------------------------------------


def test_an_order_is_started_paid_and_waited_for(client, worker):
    order = client.start("client-ship", {"order": 7}, key="order-7")
    row = Instance.objects.get()
    assert (order.id, order.key, order.input, order.started_by) == (row.pk, "order-7", {"order": 7}, row.started_by)
    assert order.created_at == row.created_at
    assert not order.ended
    delivery = client.signal("order-7", "paid", {"amount": 120}, dedup_key="evt_1")
    assert not delivery.duplicate
    assert client.wait(order, timeout=20) == {"paid": {"amount": 120}}
    ended = client.get(order)
    assert (ended.status, ended.result, ended.ended) == ("done", {"paid": {"amount": 120}}, True)
    kinds = [event.kind for event in client.events(order)]
    assert kinds[0] == "started"
    assert [event.seq for event in client.events(order, limit=1)] == list(range(1, len(kinds) + 1))
    assert Signal.objects.count() == 1


def test_an_order_is_signalled_by_its_id_and_once_only(client):
    order = client.start("client-ship")
    first = client.signal(order, "note", {"n": 1}, dedup_key="evt_1")
    again = client.signal(order.id, "note", {"n": 1}, dedup_key="evt_1")
    assert (first.duplicate, again.duplicate, again.id) == (False, True, first.id)
    # Without a dedup key each call counts, and each but once.
    client.signal(order.id, "note")
    client.signal(order.id, "note")
    assert Signal.objects.count() == 3


@pytest.mark.parametrize("key", ["../a b/ä?#%2F", "/", ".", "üñ\u202e", "3b8024af-328d-4794-bc51-6e6a705313c1"])
def test_any_key_can_be_signalled_and_looked_for(direct, key):
    order = direct.start("client-ship", key=key)
    assert direct.signal(key, "note").id
    assert [one.id for one in direct.list_instances(key=key)] == [order.id]


def test_many_signals_are_sent_at_once(client):
    order = client.start("client-ship", key="order-7")
    lines: list[Any] = [("order-7", "note", 1), ("nobody", "note"), (order, "note", 2, "evt_1")]
    answers = client.signal_many([*lines, (order.id, "note", 3, "evt_1"), ("", "")])
    assert [(one.id is not None, one.duplicate, one.refused) for one in answers] == [
        (True, False, None),
        (False, False, "no_target"),
        (True, False, None),
        (True, True, None),
        (False, False, "invalid_request"),
    ]
    assert answers[1] == Delivery(None, refused="no_target", detail=answers[1].detail)
    assert Signal.objects.count() == 2


def test_an_event_wakes_who_waits_for_it(client, worker):
    listener = client.start("client-listen", {"order": 7})
    with pytest.raises(NotFinished) as caught:
        client.wait(listener, timeout=0.5)
    assert caught.value.instance.id == listener.id
    emission = client.emit("client.paid", {"order": 7}, dedup_key="evt_1")
    assert (emission.started, emission.duplicate) == (0, False)
    assert client.wait(listener, timeout=20) == {"order": 7}
    assert client.emit("client.paid", {"order": 7}, dedup_key="evt_1").duplicate
    assert client.emit("client.nobody").woke == 0


def test_a_question_is_listed_looked_at_and_answered(client, worker):
    asked = client.start("client-ask", {"n": 7})
    question = wait_for_question(client, workflow="client-ask")
    assert (question.signal_id, question.instance, question.status) == ("gate:7", asked.id, "pending")
    assert client.interaction(question) == client.interaction(str(question.id)) == question
    assert question.deadline > question.created_at
    with pytest.raises(InvalidData) as caught:
        client.complete("gate:7", {"approved": "perhaps"})
    assert list(caught.value.errors) == ["approved"]
    with pytest.raises(StaleVersion):
        client.complete("gate:7", {"approved": True}, version=question.version + 1)
    done = client.complete("gate:7", {"approved": True}, version=question.version, idempotency_key="once")
    assert (done.id, done.signal_id, done.instance) == (question.id, "gate:7", asked.id)
    assert client.wait(asked, timeout=20) == {"approved": True}
    assert client.complete("gate:7", {"approved": True}, version=question.version, idempotency_key="once").replayed
    with pytest.raises(Gone):
        client.complete("gate:7", {"approved": True})
    with pytest.raises(IdempotencyConflict):
        client.complete("gate:7", {"approved": False}, idempotency_key="once")
    assert client.interaction(question).output == {"approved": True}


def test_a_question_is_answered_by_its_id(client, worker):
    asked = client.start("client-ask", {"n": 8})
    question = wait_for_question(client)
    assert client.complete_interaction(question, {"approved": False}).signal_id == "gate:8"
    assert client.wait(asked, timeout=20) == {"approved": False}
    assert Interaction.objects.get().actor == asked.started_by


def test_a_callback_is_resumed_by_its_address_without_a_key(client, worker, live_server, caplog):
    caplog.set_level(logging.DEBUG)
    waiting = client.start("client-call", {"url": "x"})
    question = wait_for_question(client)
    wait_until(lambda: told, "the partner to be told")
    with losing_answers(live_server.url) as url, Client(url, None) as partner:
        with pytest.raises(InvalidData):
            partner.resume(told[0], {"payment_id": 1})
        done = partner.resume(told[0], {"payment_id": "p-1"}, idempotency_key="once")
        assert (done.id, done.instance) == (question.id, waiting.id)
        assert partner.resume(told[0].rpartition("/")[2], {"payment_id": "p-1"}, idempotency_key="once").replayed
        with pytest.raises(Unauthorized):
            partner.get(waiting)
        with pytest.raises(NotFound):
            partner.resume("none-of-ours", None)
    assert client.wait(waiting, timeout=20) == {"payment_id": "p-1"}
    token = told[0].rpartition("/")[2]
    assert [record.name for record in caplog.records if token in record.getMessage()] == []


def test_an_instance_is_cancelled_and_a_failed_one_retried(client, worker):
    order = client.start("client-ship", key="order-7")
    cancelled = client.cancel(order, "customer withdrew")
    assert (cancelled.status, cancelled.error) == ("cancelled", "customer withdrew")
    with pytest.raises(InstanceCancelled, match="customer withdrew") as caught:
        client.wait(order)
    assert caught.value.instance == client.get(order)
    with pytest.raises(NotPossible):
        client.cancel(order)
    with pytest.raises(NotFound):
        client.signal("order-7", "paid")
    failing = client.start("client-ship")
    client.signal(failing, "paid", "refused")
    with pytest.raises(InstanceFailed, match="card refused") as failed:
        client.wait(failing, timeout=20)
    assert failed.value.instance.error == "card refused"
    assert client.retry(failing).status == "runnable"
    with pytest.raises(InstanceFailed):
        client.wait(failing, timeout=20)
    assert [event.kind for event in client.events(failing)].count("reopened") == 1


def test_lists_go_over_all_pages(direct):
    started = [direct.start("client-ship", {"n": n}, key=f"k{n}").id for n in range(7)]
    workflows.start("client-listen", {"order": 1})
    assert [one.id for one in direct.list_instances(workflow="client-ship", limit=3)] == started[::-1]
    assert [one.id for one in direct.list_instances(workflow="client-ship", limit=7)] == started[::-1]
    assert list(direct.list_instances(status="failed")) == []
    assert len(list(direct.list_instances(status="runnable", limit=5))) == 8
    with pytest.raises(InvalidRequest):
        list(direct.list_instances(status="asleep"))
    with pytest.raises(InvalidRequest):
        list(direct.list_instances(limit=501))


# --- refusals -----------------------------------------------------------------------------------------------


def test_what_cannot_be_started_says_why(direct):
    with pytest.raises(UnknownWorkflow):
        direct.start("client-nothing")
    with pytest.raises(InvalidInput) as caught:
        direct.start("client-ask", {"m": 7})
    assert caught.value.errors
    with pytest.raises(TooLarge):
        direct.start("client-ship", "x" * (conf.max_body + 1))
    order = direct.start("client-ship", key="order-7")
    with pytest.raises(DuplicateKey) as taken:
        direct.start("client-ship", key="order-7")
    assert taken.value.existing == order.id
    assert Instance.objects.count() == 1


def test_an_idempotency_key_holds_across_clients(direct, live_server):
    order = direct.start("client-ship", {"order": 7}, idempotency_key="order-7")
    with Client(live_server.url, make_key()) as other:
        assert other.start("client-ship", {"order": 7}, idempotency_key="order-7") == order
        with pytest.raises(IdempotencyConflict):
            other.start("client-ship", {"order": 8}, idempotency_key="order-7")
    assert Instance.objects.count() == 1


def test_a_key_opens_what_it_is_for(live_server):
    order = workflows.start("client-ship")
    with Client(live_server.url, make_key("read")) as reader:
        assert reader.get(order.pk).id == order.pk
        with pytest.raises(Forbidden):
            reader.cancel(order.pk)
    with Client(live_server.url, make_key(workspace="acme")) as foreign, pytest.raises(NotFound) as caught:
        foreign.get(order.pk)
    with Client(live_server.url, make_key(workspace="acme")) as foreign, pytest.raises(NotFound) as unknown:
        foreign.get(UUID(int=7))
    assert str(caught.value) == str(unknown.value)
    with Client(live_server.url, "hp_none") as stranger, pytest.raises(Unauthorized):
        stranger.get(order.pk)


def test_a_site_that_is_none_of_ours_is_told_as_such(live_server):
    with Client(f"{live_server.url}/admin", make_key()) as lost, pytest.raises(ApiError) as caught:
        lost.get(UUID(int=7))
    assert caught.value.status in (302, 404)


# --- many at once -------------------------------------------------------------------------------------------


def test_threads_share_a_client_and_lose_no_answer(client, worker):
    def buy(n: int) -> Any:
        order = client.start("client-ship", {"n": n}, key=f"order-{n}")
        client.signal(order, "paid", n)
        return client.wait(order, timeout=60)

    with ThreadPoolExecutor(8) as threads:
        assert list(threads.map(buy, range(40))) == [{"paid": n} for n in range(40)]
    assert (Instance.objects.count(), Signal.objects.count()) == (40, 40)


# --- schedules ------------------------------------------------------------------------------------------------


def test_schedules_are_made_changed_run_and_removed_once_where_answers_are_lost(client):
    made = client.create_schedule(
        "a/b", "client-ship", cron="0 9 * * *", tz="Europe/Berlin", input={"n": 1}, catch_up=3
    )
    assert (made.name, made.cron, made.tz, made.catch_up, made.enabled) == (
        "a/b",
        "0 9 * * *",
        "Europe/Berlin",
        3,
        True,
    )
    assert client.schedule("a/b") == made
    changed = client.change_schedule("a/b", every=90, enabled=False)
    assert (changed.cron, changed.every, changed.enabled, changed.input) == (None, 90.0, False, {"n": 1})
    ran = client.run_schedule("a/b")
    assert (ran.workflow, client.schedule("a/b").last_instance) == ("client-ship", ran.id)
    assert Instance.objects.count() == 1
    assert [one.name for one in client.schedules(enabled=False)] == ["a/b"]
    assert not list(client.schedules(enabled=True))
    client.delete_schedule("a/b")
    with pytest.raises(NotFound):
        client.schedule("a/b")


def test_what_no_schedule_can_be_is_told_by_its_own_error(client):
    client.create_schedule("taken", "client-ship", every="1h")
    with pytest.raises(DuplicateSchedule):
        client.create_schedule("taken", "client-ship", every="1h")
    with pytest.raises(InvalidSchedule, match="never fires"):
        client.create_schedule("never", "client-ship", cron="0 0 30 2 *")
    client.run_schedule("taken")
    with pytest.raises(NotPossible):
        client.run_schedule("taken")


# --- the example and the docstrings ---------------------------------------------------------------------------


def test_the_partner_sells_an_order_once_however_often_it_tries(client, worker):
    assert sell(client, order=7, amount=120) == {"order": 7, "paid": {"amount": 120}}
    assert sell(client, order=7, amount=120) == {"order": 7, "paid": {"amount": 120}}
    assert (Instance.objects.count(), Signal.objects.count()) == (1, 1)


def test_the_partner_is_told_who_else_placed_the_order(direct):
    placed = workflows.start("demo.ship", {"order": 8}, key="order-8")
    assert sell(direct, order=8, amount=120) == {"order": 8, "placed_as": str(placed.pk)}


def test_the_examples_in_the_docstrings_are_true(direct, monkeypatch):
    monkeypatch.setattr(registry, "_definitions", {})
    monkeypatch.setattr(registry, "_latest", {})
    parts = (calls, flow_calls, operator_calls, scheduling_calls)
    globs = {**{name: one for part in parts for name, one in vars(part).items()}, "client": direct}
    globs |= prepare_for_the_docstrings(direct)
    finder = doctest.DocTestFinder()
    classes = (Client, FlowCalls, OperatorCalls, ScheduleCalls)
    found = [one for of in classes for one in finder.find(of, of.__name__, globs=globs) if one.examples]
    assert len(found) == 37
    problems: list[str] = []
    # What they read has been started before, and what they signal has not ended yet.
    first = ["Client.start", "Client.signal_many", "Client.signal"]
    found.sort(key=lambda one: first.index(one.name) if one.name in first else len(first))
    for test in found:
        test.globs = {**globs}
        with pumping(test.name == "Client.wait"):
            doctest.DocTestRunner(verbose=False).run(test, out=problems.append, clear_globs=False)
        if test.name == "Client.start":
            [globs["order"]] = direct.list_instances(key="order-7")
    assert "".join(problems) == ""


def prepare_for_the_docstrings(client: Client) -> dict[str, Any]:
    """The workflows and rows that the docstrings speak of."""
    made: dict[str, str] = {}

    class Ship(Workflow):
        @step
        def ask(self, ctx):
            return Await("payment_confirmed", then="ship", timeout="24h")

        @step
        def ship(self, ctx):
            paid = ctx.awaited[0].payload
            return Stop("card refused") if paid is None else Done({"paid": paid})

    @durable(name="Mail", concurrency=Concurrency("tenant:{tenant}", 5))
    def mail(ctx, tenant):
        pass

    @durable(name="Discount")
    def discount(ctx, n):
        if n == 20:
            return ctx.wait_for("ask", "api", input={"percent": 20}, group="sales")
        return ctx.wait_for_signal("ask", signal=f"approval-{n}", timeout="24h")

    @durable(name="Pay")
    def pay(ctx):
        reply = ctx.callback("partner", timeout="24h")
        made["resume_url"] = reply.resume_url
        return reply.wait()

    @durable(name="Each")
    def each(ctx):
        return len(ctx.wait_for_each("each", [1, 2], "api", on_item="partial"))

    @durable(name="Report")
    def report(ctx):
        pass

    client.create_schedule("nightly", "Ship", every="1d")
    client.create_schedule("weekly", "Report", every="7d")
    client.start("Each")
    failed = client.start("Ship")
    client.signal(failed, "payment_confirmed")
    for n in (7, 8, 9, 10, 11, 20):
        client.start("Discount", {"n": n})
    client.start("Pay")
    with pumping():
        with pytest.raises(InstanceFailed):
            client.wait(failed, timeout=20)
        wait_until(lambda: made and list(client.interactions(status="pending", limit=9))[8:], "all questions")
    [item] = Interaction.objects.filter(unit__step="each", index=0)
    workflows.fail(item, "no such account")
    sent = Interaction.objects.get(signal_id="approval-11")
    with connection.cursor() as cursor:  # as if its channel sent it
        cursor.execute("UPDATE holdpoint_interaction SET config = '{}' WHERE id = %s", [sent.pk])
    return {
        "unsent_question": client.interaction(sent.pk),
        "failed_item": client.interaction(item.pk),
        "dead_question": client.interaction(Interaction.objects.get(signal_id="approval-10").pk),
        "failed_order": failed,
        "other_order": client.start("Ship"),
        "question": client.interaction(Interaction.objects.get(group="sales").pk),
        "other_question": client.interaction(Interaction.objects.get(signal_id="approval-8").pk),
        **made,
    }
