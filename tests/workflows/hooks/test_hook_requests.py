"""POST /hooks/{name}: who is let in, what is told to whom, and what becomes of it."""

from __future__ import annotations

import gzip
import hashlib
import hmac
import json
import logging
from contextlib import suppress
from io import BytesIO
from typing import Any
from urllib.parse import urlencode

import pytest
from asgiref.sync import async_to_sync
from django.core.exceptions import ImproperlyConfigured, PermissionDenied
from django.db import OperationalError
from django.test import AsyncClient, Client
from django.test.client import BOUNDARY, MULTIPART_CONTENT, encode_multipart
from django.urls import reverse

import workflows
from tests.support.api_calls import problem
from tests.support.hook_posts import counted, post, send, signed
from workflows import Await, Done, Workflow, durable, event, hook, step
from workflows.api import refused
from workflows.hooks import HookMessage, NotVerified, github, standard_webhooks, stripe
from workflows.models import HookReceipt, Instance, LedgerEvent, NamedEvent, Signal
from workflows.testing import assert_awaiting, assert_done, drain

pytestmark = pytest.mark.django_db

EVENT = {"id": "evt_1", "type": "invoice.paid", "data": {"object": {"order": 7}}}


class HookPaid(Workflow):
    name = "hook-paid"

    @step
    def ask(self, ctx: Any) -> Await:
        return Await("paid", then="end")

    @step
    def end(self, ctx: Any) -> Done:
        return Done(ctx.awaited[0].payload)


class HookHears(Workflow):
    name = "hook-hears"

    @step
    def ask(self, ctx: Any) -> Await:
        return Await(event("invoice.paid", match={"order": 7}), then="end")

    @step
    def end(self, ctx: Any) -> Done:
        return Done(ctx.answer)


@durable(name="hook-asks")
def ask(ctx: Any, signal: str) -> Any:
    return ctx.wait_for_signal("gate", signal=signal, timeout="1d", schema={"order": int})


@pytest.fixture
def emits() -> list[HookMessage]:
    """A hook that emits what comes; the messages that it was handed."""
    taken: list[HookMessage] = []

    @hook("payments", verify=signed)
    def payments(message: HookMessage) -> None:
        taken.append(message)
        workflows.emit(message.data["type"], message.data["data"]["object"])

    return taken


# --- the effect -----------------------------------------------------------------------------------------------------


def test_a_verified_message_becomes_an_event(emits: list[HookMessage]) -> None:
    waits = workflows.start(HookHears)
    drain()
    answer = post("payments", EVENT)
    assert (answer.status_code, answer.json()) == (200, {"received": True})
    assert answer.headers["Cache-Control"] == "no-store"
    drain()
    assert_done(waits, result={"order": 7})
    [receipt] = HookReceipt.objects.all()
    assert (receipt.workspace.slug, receipt.hook, receipt.event_id) == ("default", "payments", "evt_1")
    assert NamedEvent.objects.get().actor == "hook:payments"
    assert counted() == {"taken": 1}


def test_a_verified_message_becomes_a_signal_a_completion_or_a_start() -> None:
    @hook("orders", verify=signed)
    def orders(message: HookMessage) -> None:
        workflows.signal("order-7", "paid", message.data["type"])
        workflows.complete("gate-7", {"order": 7})
        workflows.start(HookPaid, {"from": "hook"}, key="order-8")

    waits = workflows.start(HookPaid, key="order-7")
    asks = workflows.start(ask, {"signal": "gate-7"})
    drain()
    assert post("orders", EVENT).status_code == 200
    drain()
    assert_done(waits, result="invoice.paid")
    assert_done(asks, result={"order": 7})
    started = assert_awaiting(Instance.objects.get(key="order-8"))
    assert started.started_by == "hook:orders"
    assert Signal.objects.get(instance=waits).source == "hook:orders"
    actors = LedgerEvent.objects.filter(instance=asks).exclude(actor="").values_list("actor", flat=True)
    assert set(actors) == {"hook:orders"}


def test_whom_the_function_names_acts_and_nobody_does_afterwards() -> None:
    @hook("named", verify=signed)
    def named(message: HookMessage) -> None:
        workflows.start(HookPaid, actor="partner")

    assert post("named", EVENT).status_code == 200
    assert Instance.objects.get().started_by == "partner"
    assert workflows.start(HookPaid).started_by == ""


def test_what_the_function_returns_is_what_the_provider_is_told() -> None:
    @hook("challenge", verify=signed)
    def challenge(message: HookMessage) -> Any:
        return {"challenge": message.data["challenge"]}

    answer = post("challenge", {"id": "c", "challenge": "x"})
    assert (answer.status_code, answer.json()) == (200, {"challenge": "x"})


def test_it_lies_in_the_workspace_that_the_hook_names() -> None:
    for slug in ("acme", "umbra"):
        workflows.workspace.create(slug)

    @hook("fixed", verify=signed, workspace="acme")
    @hook("found", verify=signed, workspace=lambda message: message.data["account"])
    def start(message: HookMessage) -> None:
        workflows.start(HookPaid)

    assert post("fixed", EVENT).status_code == 200
    assert post("found", EVENT | {"account": "umbra"}).status_code == 200
    assert [one.workspace.slug for one in Instance.objects.order_by("id")] == ["acme", "umbra"]
    assert [one.workspace.slug for one in HookReceipt.objects.order_by("id")] == ["acme", "umbra"]
    assert problem(post("found", EVENT | {"account": "nobody"}), 500, "server-error")
    assert HookReceipt.objects.count() == 2


# --- who is let in --------------------------------------------------------------------------------------------------


def test_what_is_not_signed_by_the_provider_is_401_and_nothing_is_stored(emits: list[HookMessage]) -> None:
    raw = json.dumps(EVENT).encode()
    for headers in (
        {},
        stripe("other").sign(raw),
        signed.sign(raw + b" "),
        signed.sign(raw, at=1),
        github("x").sign(raw),
    ):
        answer = send("/hooks/payments", raw, **headers)
        problem(answer, 401, "not-verified")
        assert answer.headers["WWW-Authenticate"]
    assert emits == []
    assert not HookReceipt.objects.exists()
    assert not NamedEvent.objects.exists()
    assert counted() == {"unverified": 5}


def test_it_is_verified_before_it_is_parsed(emits: list[HookMessage]) -> None:
    problem(send("/hooks/payments", b"no json"), 401, "not-verified")
    problem(post("payments", b"no json"), 400, "invalid-body")
    problem(post("payments", b'{"id": "a", "id": "b"}'), 400, "invalid-body")
    problem(post("payments", b"[]"), 400, "invalid-request")
    assert counted() == {"unverified": 1, "unreadable": 3}
    assert not HookReceipt.objects.exists()


def test_an_unknown_name_is_404_and_another_method_405(emits: list[HookMessage]) -> None:
    problem(post("other", EVENT), 404, "not-found")
    problem(post("PAYMENTS", EVENT), 404, "not-found")
    for method in ("GET", "HEAD", "PUT", "PATCH", "DELETE", "OPTIONS"):
        for name in ("payments", "other"):
            answer = Client().generic(method, f"/hooks/{name}")
            assert (answer.status_code, answer.headers["Allow"]) == (405, "POST")
    assert counted() == {"unknown": 2}
    assert emits == []


def test_the_address_may_end_with_a_slash(emits: list[HookMessage]) -> None:
    raw = json.dumps(EVENT).encode()
    assert reverse("workflows:hooks", kwargs={"name": "payments"}) == "/hooks/payments"
    assert send("/hooks/payments/", raw, **signed.sign(raw)).status_code == 200


def test_a_larger_body_is_413_and_is_not_read(emits: list[HookMessage], settings: Any) -> None:
    settings.WORKFLOWS = {**settings.WORKFLOWS, "MAX_BODY": 100}
    problem(post("payments", EVENT | {"pad": "x" * 100}), 413, "too-large")
    wire = {"CONTENT_LENGTH": "101", "wsgi.input": BytesIO(b"x" * 101)}
    problem(Client().generic("POST", "/hooks/payments", b"", **wire), 413, "too-large")
    assert wire["wsgi.input"].tell() == 0
    settings.DATA_UPLOAD_MAX_MEMORY_SIZE = 10  # the project's, and meant for forms
    assert post("payments", EVENT).status_code == 200

    @hook("small", verify=signed, max_body=10)
    @hook("large", verify=signed, max_body=10_000)
    def take(message: HookMessage) -> None:
        pass

    problem(post("small", EVENT), 413, "too-large")
    assert post("large", EVENT | {"pad": "x" * 1000}).status_code == 200


def test_a_body_of_which_only_a_part_came_is_refused(emits: list[HookMessage]) -> None:
    part = json.dumps(EVENT).encode()
    whole = part + b" " * 10
    wire = {"CONTENT_LENGTH": str(len(whole)), "wsgi.input": BytesIO(part)}
    # Though what came is signed, and reads as JSON.
    answer = Client().generic(
        "POST", "/hooks/payments", part, content_type="application/json", headers=signed.sign(part), **wire
    )
    assert "the connection broke" in problem(answer, 400, "invalid-body")["detail"]
    assert emits == []


def test_a_site_on_asgi_takes_it_too(emits: list[HookMessage]) -> None:
    raw = json.dumps(EVENT).encode()
    send = async_to_sync(AsyncClient().post)
    for _ in range(2):
        answer = send("/hooks/payments", raw, content_type="application/json", headers=signed.sign(raw))
        assert answer.status_code == 200
    assert answer.headers["Idempotency-Replayed"] == "true"
    assert send("/hooks/payments", raw, content_type="application/json").status_code == 401
    assert len(emits) == 1


def test_a_message_costs_three_statements_beside_what_it_does(django_assert_num_queries: Any) -> None:
    """The workspace, the receipt, its answer; and one that comes again reads its answer. Around them a savepoint."""
    hook("idle", verify=signed)(lambda message: None)
    with django_assert_num_queries(3 + 2):
        post("idle", EVENT)
    with django_assert_num_queries(3 + 2):
        post("idle", EVENT)
    with django_assert_num_queries(0):
        send("/hooks/idle", b"{}")


def test_a_compressed_body_is_refused_and_any_media_type_is_taken(emits: list[HookMessage]) -> None:
    raw = json.dumps(EVENT).encode()
    packed = gzip.compress(raw)
    answer = send("/hooks/payments", packed, **signed.sign(packed), **{"Content-Encoding": "gzip"})
    problem(answer, 415, "unsupported-media-type")
    for n, kind in enumerate(("text/plain", "application/cloudevents+json; charset=utf-8", "", "nonsense")):
        one = json.dumps(EVENT | {"id": f"evt_{n}"}).encode()
        assert send("/hooks/payments", one, kind=kind, **signed.sign(one)).status_code == 200
    assert len(emits) == 4


def test_a_verified_message_counts_against_the_rate_of_its_hook_alone(emits: list[HookMessage], settings: Any) -> None:
    hook("other", verify=signed)(lambda message: None)
    settings.WORKFLOWS = {**settings.WORKFLOWS, "API_RATE": "2/d"}
    for _ in range(5):  # a stranger uses up nothing
        problem(send("/hooks/payments", b"{}"), 401, "not-verified")
    for n in range(2):
        assert post("payments", EVENT | {"id": f"evt_{n}"}).status_code == 200
    answer = post("payments", EVENT | {"id": "evt_2"})
    problem(answer, 429, "too-many-requests")
    assert int(answer.headers["Retry-After"]) > 0
    assert post("other", EVENT).status_code == 200
    assert counted() == {"unverified": 5, "taken": 3, "throttled": 1}


# --- verifiers of one's own -----------------------------------------------------------------------------------------


def own(verify: Any, name: str = "own", **options: Any) -> None:
    hook(name, verify=verify, **{"id": lambda message: "1", **options})(lambda message: None)


@pytest.mark.parametrize("error", [NotVerified, NotVerified("no"), PermissionDenied, KeyError("X-Token"), ValueError])
def test_a_verifier_that_raises_has_verified_nothing(error: Any) -> None:
    def verify(request: Any) -> None:
        raise error

    own(verify)
    problem(send("/hooks/own", b"{}"), 401, "not-verified")
    assert not HookReceipt.objects.exists()


def test_a_mistake_in_a_verifier_is_found_in_the_log(caplog: pytest.LogCaptureFixture) -> None:
    def verify(request: Any) -> None:
        raise NameError("name 'hmca' is\nnot defined")

    own(verify)
    problem(send("/hooks/own", b"{}"), 401, "not-verified")
    assert r"hook 'own': a request was not verified: NameError: name 'hmca' is\nnot defined" in caplog.text


@pytest.mark.parametrize(
    ("returned", "status"), [(False, 401), (True, 200), (None, 401), ({}, 401), ("", 401), (0, 401)]
)
def test_a_verifier_has_to_say_yes(returned: Any, status: int) -> None:
    own(lambda request: returned)
    assert send("/hooks/own", b"{}").status_code == status


def test_a_header_that_is_left_out_is_no_signature(caplog: pytest.LogCaptureFixture) -> None:
    """Python's `and` returns None then, which must not count as silent consent."""
    own(lambda request: request.headers.get("X-Token") and hmac.compare_digest(request.headers["X-Token"], "secret"))
    problem(send("/hooks/own", b"{}"), 401, "not-verified")
    assert "hook 'own': its verify= returned None, which refuses: return True" in caplog.text
    problem(send("/hooks/own", b"{}", **{"X-Token": "guess"}), 401, "not-verified")
    assert send("/hooks/own", b"{}", **{"X-Token": "secret"}).status_code == 200


def test_a_verifier_that_is_async_in_disguise_verifies_nothing(caplog: pytest.LogCaptureFixture) -> None:
    async def check() -> None:
        raise AssertionError("never run")

    own(lambda request: check())
    problem(send("/hooks/own", b"{}"), 503, "unavailable")
    assert "hook 'own' cannot take anything: its verify= is async" in caplog.text


def test_a_verifier_reads_the_body_the_query_and_the_fields_of_a_form() -> None:
    """As a service of messages signs: over the address and the sorted fields."""

    def verify(request: Any) -> bool:
        text = request.build_absolute_uri() + "".join(f"{key}{request.POST[key]}" for key in sorted(request.POST))
        return hmac.compare_digest(request.headers["X-Signature"], hashlib.sha256(text.encode()).hexdigest())

    taken: list[Any] = []
    hook("sms", verify=verify, id=lambda message: message.data["MessageSid"])(
        lambda message: taken.append((message.data, message.request.GET["to"]))
    )
    fields = {"MessageSid": "SM1", "Body": "Yes"}
    signature = hashlib.sha256(b"http://testserver/hooks/sms?to=7BodyYesMessageSidSM1").hexdigest()
    raw, kind = urlencode(fields).encode(), "application/x-www-form-urlencoded"
    assert send("/hooks/sms?to=7", raw, kind=kind, **{"X-Signature": signature}).status_code == 200
    problem(send("/hooks/sms?to=8", raw, kind=kind, **{"X-Signature": signature}), 401, "not-verified")
    raw = encode_multipart(BOUNDARY, fields)
    again = send("/hooks/sms?to=7", raw, kind=MULTIPART_CONTENT, **{"X-Signature": signature})
    assert (again.status_code, again.headers["Idempotency-Replayed"]) == (200, "true")
    assert taken == [(fields, "7")]


def test_a_verifier_may_ask_a_verifier_of_ours() -> None:
    """One address for many accounts, each with its own secret and workspace."""
    workflows.workspace.create("acme")
    secrets = {"acme": "the secret of acme"}

    def verify(request: Any) -> bool:
        return stripe(secrets[request.GET["account"]])(request)

    hook(
        "many",
        verify=verify,
        id=lambda message: message.data["id"],
        workspace=lambda message: message.request.GET["account"],
    )(lambda message: workflows.start(HookPaid) and None)
    raw = json.dumps(EVENT).encode()
    headers = stripe("the secret of acme").sign(raw)
    assert send("/hooks/many?account=acme", raw, **headers).status_code == 200
    problem(send("/hooks/many?account=umbra", raw, **headers), 401, "not-verified")
    assert Instance.objects.get().workspace.slug == "acme"


def test_a_secret_that_is_not_there_refuses_everybody_and_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    hook("later", verify=stripe(lambda: ""))(lambda message: None)
    answer = post("later", EVENT, sign=stripe(b"x"))
    problem(answer, 503, "unavailable")
    assert answer.headers["Retry-After"] == "300"
    assert "hook 'later' cannot take anything: it has no secret" in caplog.text
    forged = hmac.new(b"", b"1." + b"{}", "sha256").hexdigest()
    problem(send("/hooks/later", b"{}", **{"Stripe-Signature": f"t=1,v1={forged}"}), 503, "unavailable")
    assert counted() == {"failed": 2}


# --- ids ------------------------------------------------------------------------------------------------------------


def test_each_scheme_knows_where_its_provider_writes_the_id() -> None:
    seen: list[str] = []
    key = "whsec_C2FVsBQIhrscChlQIMV+b5sSYspob7oD"
    schemes = {"standard": standard_webhooks(key), "stripe": stripe(key), "github": github(key)}
    for name, scheme in schemes.items():
        hook(name, verify=scheme)(lambda message: seen.append(message.id))
    raw = b'{"id": "in the body"}'
    send("/hooks/standard", raw, **schemes["standard"].sign(raw, id="msg_1"))
    send("/hooks/stripe", raw, **schemes["stripe"].sign(raw))
    send("/hooks/github", raw, **schemes["github"].sign(raw, id="delivery-1"))
    assert seen == ["msg_1", "in the body", "delivery-1"]


@pytest.mark.parametrize("id", ["", " ", None, "x" * 256, "a\0b", [], {}, True, 1.5])
def test_a_message_that_names_no_id_is_refused(id: Any, emits: list[HookMessage]) -> None:
    told = problem(post("payments", EVENT | {"id": id}), 400, "invalid-request" if id != "a\0b" else "invalid-body")
    assert told["detail"]
    assert emits == []


def test_an_id_may_be_a_number() -> None:
    own(lambda request: True, id=lambda message: 7)
    assert send("/hooks/own", b"").status_code == 200
    assert HookReceipt.objects.get().event_id == "7"


# --- failures -------------------------------------------------------------------------------------------------------


def test_a_function_that_fails_is_500_and_leaves_nothing(caplog: pytest.LogCaptureFixture) -> None:
    broken = [True]

    @hook("fails", verify=signed)
    def fails(message: HookMessage) -> None:
        workflows.start(HookPaid, key="order-7")
        workflows.emit("invoice.paid", {})
        if broken:
            raise RuntimeError("secret of the site")

    answer = post("fails", EVENT)
    assert "secret" not in str(problem(answer, 500, "server-error"))
    assert not Instance.objects.exists()
    assert not NamedEvent.objects.exists()
    assert not HookReceipt.objects.exists()
    assert "hook 'fails' failed" in caplog.text
    assert "RuntimeError: secret of the site" in caplog.text
    broken.clear()
    assert post("fails", EVENT).status_code == 200
    assert Instance.objects.count() == 1
    assert counted() == {"failed": 1, "taken": 1}


def test_what_nothing_takes_now_is_409_until_something_does(caplog: pytest.LogCaptureFixture) -> None:
    @hook("early", verify=signed)
    def early(message: HookMessage) -> None:
        workflows.start(HookPaid)  # rolled back with the rest
        workflows.signal("order-7", "paid")

    told = problem(post("early", EVENT), 409, "not-taken")
    assert "send it again later" in told["detail"]
    assert "order-7" not in told["detail"]
    assert "NoTarget" in caplog.text
    assert not Instance.objects.exists()
    workflows.start(HookPaid, key="order-7")
    assert post("early", EVENT).status_code == 200
    assert counted() == {"not_taken": 1, "taken": 1}


def test_an_answer_that_comes_too_late_is_not_told_as_gone() -> None:
    """410 tells providers to remove the address."""

    @hook("late", verify=signed)
    def late(message: HookMessage) -> None:
        workflows.complete(message.data["signal"], message.data["answer"])

    workflows.start(ask, {"signal": "gate-7"})
    drain()
    problem(post("late", EVENT | {"signal": "gate-7", "answer": {"order": "x"}}), 409, "not-taken")
    workflows.complete("gate-7", {"order": 7})
    problem(post("late", EVENT | {"signal": "gate-7", "answer": {"order": 7}}), 409, "not-taken")
    problem(post("late", EVENT | {"signal": "nobody", "answer": {"order": 7}}), 409, "not-taken")
    refusals = {label for (_, name, label) in refused._drops._counts if name == "dropped"}
    assert refusals == {"invalid_data", "resolved", "unknown"}


def test_a_function_that_knows_better_takes_the_message() -> None:
    @hook("wise", verify=signed)
    def wise(message: HookMessage) -> None:
        with suppress(workflows.NoTarget):  # it has ended, and nobody needs to know
            workflows.signal("order-7", "paid")

    assert post("wise", EVENT).status_code == 200
    assert HookReceipt.objects.count() == 1


@pytest.mark.parametrize("error", [OperationalError("gone"), ImproperlyConfigured("no key")])
def test_what_is_not_the_messages_fault_is_503(error: Exception) -> None:
    def fail(message: HookMessage) -> None:
        raise error

    hook("away", verify=signed)(fail)
    answer = post("away", EVENT)
    assert "gone" not in str(problem(answer, 503, "unavailable"))
    assert answer.headers["Retry-After"]
    assert not HookReceipt.objects.exists()


@pytest.mark.parametrize("value", [object(), float("nan"), "a\0b", {1, 2}])
def test_a_function_that_returns_what_is_no_json_fails(value: Any) -> None:
    hook("odd", verify=signed)(lambda message: value)
    problem(post("odd", EVENT), 500, "server-error")
    assert not HookReceipt.objects.exists()


def test_no_body_reaches_a_log(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    canary = "canary-of-the-body"

    @hook("fails", verify=signed)
    def fails(message: HookMessage) -> None:
        _ = message.data
        raise RuntimeError("broken")

    raw = urlencode({"id": "evt_1", "card": canary}).encode()
    kind = "application/x-www-form-urlencoded"
    send("/hooks/fails", raw, kind=kind, **signed.sign(raw))
    send("/hooks/fails", raw, kind=kind)
    post("fails", {"id": "evt_2", "card": canary})
    post("fails", f'{{"card": "{canary}", '.encode())
    assert "broken" in caplog.text
    assert canary not in caplog.text
    # Handlers that mail or collect requests are handed none of a failure.
    assert not [one for one in caplog.records if one.levelno >= logging.ERROR and hasattr(one, "request")]
