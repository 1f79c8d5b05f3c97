"""POST /resume/{token}: who may answer, what is told to whom, and what never becomes known."""

import json
import logging
from io import StringIO
from types import ModuleType
from urllib.parse import urlencode
from uuid import uuid4

import pytest
from django import forms
from django.conf import settings as site
from django.contrib.auth.models import User
from django.core.checks import run_checks
from django.core.files.base import ContentFile
from django.core.management import call_command
from django.db import OperationalError, connections
from django.test import Client
from django.test.client import BOUNDARY, MULTIPART_CONTENT, encode_multipart
from django.urls import include, path

import workflows
from workflows import Await, Done, Machine, Workflow, action, durable, step, store, wait_for
from workflows.callbacks.token_view import resume
from workflows.conf import conf
from workflows.definitions.callback_tokens import make_token
from workflows.definitions.question import Question
from workflows.lifecycle import CARDINALITY_CODES, Cardinality
from workflows.models import Instance, Interaction, LedgerEvent, StoredAnswer
from workflows.rest.protocol.problems import CONTENT_TYPE
from workflows.testing import advance, assert_awaiting, assert_done, drain


class BrokenAnswer(forms.Form):
    n = forms.FloatField()

    def clean_n(self):
        return 1 / self.cleaned_data["n"]


pytestmark = pytest.mark.django_db

KEYS = {"2026-11": "n" * 40, "2025-11": "o" * 40}
#: What the partner of a running test was given.
handed: dict[str, str] = {}


@pytest.fixture(autouse=True)
def fresh(settings, monkeypatch):
    monkeypatch.setattr(conf, "supplies_links", False)
    handed.clear()
    settings.WORKFLOWS = {"BASE_URL": "https://holdpoint.example", "TOKEN_KEYS": KEYS}


class ResumePay(Workflow):
    """Hands the address out in one step and waits in the next."""

    @step
    def ask(self, ctx):
        pay = ctx.callback("pay")
        handed["url"], handed["token"] = pay.resume_url, pay.resume_token
        return Await(pay, then="end", timeout="24h")

    @step
    def end(self, ctx):
        return Done({"answer": ctx.answer, "timed_out": ctx.timed_out})


class ResumeTyped(Workflow):
    @step
    def ask(self, ctx):
        schema = {
            "type": "object",
            "properties": {"amount": {"type": "integer"}, "lines": {"type": "array", "items": {"type": "string"}}},
            "required": ["amount"],
        }
        pay = ctx.callback("pay", schema=schema)
        handed["url"] = pay.resume_url
        return Await(pay, then="end", timeout="24h")

    @step
    def end(self, ctx):
        return Done(ctx.answer)


class ResumeTwice(Workflow):
    """A wait in a loop: each visit has a token of its own."""

    @step
    def ask(self, ctx):
        pay = ctx.callback("pay")
        handed[f"url{ctx.state.get('n', 0)}"] = pay.resume_url
        return Await(pay, then="again", timeout="24h")

    @step
    def again(self, ctx):
        n = ctx.state.get("n", 0) + 1
        return Done([n, ctx.answer]) if n == 2 else workflows.Next("ask", {"n": n})


def park(workflow=ResumePay) -> Instance:
    instance = workflows.start(workflow)
    drain()
    return assert_awaiting(instance)


def url() -> str:
    """The path of the address that was handed out."""
    return handed["url"].removeprefix("https://holdpoint.example")


def post(body: object = None, *, at: str | None = None, client: Client | None = None, **headers: str):
    raw = body if isinstance(body, bytes) else json.dumps({"data": True} if body is None else body)
    caller = client or Client(enforce_csrf_checks=True)
    return caller.post(at or url(), raw, content_type="application/json", headers=headers)


def problem(answer, status: int, slug: str) -> dict:
    assert answer.status_code == status, answer.content
    assert answer["Content-Type"] == CONTENT_TYPE
    assert answer["Cache-Control"] == "no-store"
    assert answer["Referrer-Policy"] == "no-referrer"
    assert answer["X-Content-Type-Options"] == "nosniff"
    told = answer.json()
    assert told["type"] == f"urn:holdpoint:problem:{slug}"
    assert told["status"] == status
    assert told["title"]
    assert told["detail"]
    return told


# --- the answer ---------------------------------------------------------------------------------------


def test_the_partner_answers_and_the_workflow_goes_on():
    instance = park()
    assert handed["url"] == f"https://holdpoint.example/resume/{handed['token']}"
    row = Interaction.objects.get(instance=instance)
    answer = post({"data": {"paid": 5}})
    assert answer.status_code == 200, answer.content
    assert answer.json() == {
        "id": str(row.id),
        "signal_id": row.signal_id,
        "status": "completed",
        "instance": str(instance.pk),
    }
    assert answer["Content-Type"] == "application/json"
    assert (answer["Cache-Control"], answer["Referrer-Policy"]) == ("no-store", "no-referrer")
    assert answer["X-Content-Type-Options"] == "nosniff"
    assert answer.cookies == {}
    drain()
    assert_done(instance, {"answer": {"paid": 5}, "timed_out": False})


@pytest.mark.parametrize("data", [None, False, 0, "", [], {}, "text", [1, {"a": None}], 1.5])
def test_any_json_is_data_and_null_too(data):
    instance = park()
    assert post({"data": data}).status_code == 200
    drain()
    assert_done(instance, {"answer": data, "timed_out": False})


# --- what partners post ---------------------------------------------------------------------------------------

#: As a payment provider posts it: there is no `data`, or it is one member of many.
OWN = [
    {"payment_id": "p-1", "status": "paid"},
    {"data": {"id": 7}, "type": "payment.paid"},
    {"data": 1, "version": 2, "more": None},
    {},
    {"version": 3},
    [1, 2],
    [],
    "paid",
    None,
    7,
]


class ResumeRaw(ResumePay):
    @step
    def ask(self, ctx):
        pay = ctx.callback("pay", body="raw")
        handed["url"] = pay.resume_url
        return Await(pay, then="end", timeout="24h")


class ResumeWrapped(ResumePay):
    @step
    def ask(self, ctx):
        pay = ctx.callback("pay", body="wrapped")
        handed["url"] = pay.resume_url
        return Await(pay, then="end", timeout="24h")


@durable(name="resume-function-raw")
def resume_raw(ctx):
    pay = ctx.callback("pay", timeout="24h", body="raw")
    handed["url"] = pay.resume_url
    return {"answer": pay.wait(), "timed_out": False}


class ResumeMachineRaw(Machine):
    hand = action(lambda ctx: handed.update(url=ctx.steps.pay._resume_url))
    pay = wait_for(callback=True, timeout="24h", body="raw")
    end = action(lambda ctx: {"answer": dict(ctx.steps.pay), "timed_out": False})


@pytest.mark.parametrize("body", OWN, ids=json.dumps)
def test_a_partners_own_body_is_the_answer(body):
    instance = park()
    assert post(json.dumps(body).encode()).status_code == 200
    drain()
    assert_done(instance, {"answer": body, "timed_out": False})


@pytest.mark.parametrize("body", [{"data": {"paid": 5}}, {"data": {"paid": 5}, "version": 1}])
def test_a_wrapped_answer_is_unwrapped(body):
    instance = park()
    assert post(body).status_code == 200
    drain()
    assert_done(instance, {"answer": {"paid": 5}, "timed_out": False})


def test_the_version_beside_data_is_the_one_that_was_shown():
    park()
    problem(post({"data": 1, "version": 9}), 409, "stale-version")
    problem(post({"data": 1, "version": "x"}), 400, "invalid-request")
    assert post({"data": 1, "version": 1}).status_code == 200


@pytest.mark.parametrize("workflow", [ResumeRaw, resume_raw, ResumeMachineRaw])
def test_a_raw_callback_takes_every_body_as_it_is_in_all_styles(workflow):
    instance = park(workflow)
    assert post({"data": {"id": 7}}).status_code == 200
    drain()
    assert_done(instance, {"answer": {"data": {"id": 7}}, "timed_out": False})


@pytest.mark.parametrize("body", [{}, {"Data": 1}, {"payload": {"data": 1}}, [], None, "x"], ids=json.dumps)
def test_where_the_wrapped_form_is_required_missing_data_is_a_field_that_is_wrong(body):
    park(ResumeWrapped)
    told = problem(post(json.dumps(body).encode()), 422, "invalid-data")
    assert told["errors"] == {"data": ["is required"]}
    assert 'The body has to be {"data": …}' in told["detail"]
    problem(post({"data": 1, "payload": {}}), 400, "invalid-request")
    assert Interaction.objects.get().status == "pending"
    assert post({"data": None}).status_code == 200
    problem(post({}), 410, "resolved")


@pytest.mark.parametrize("kind", ["application/x-www-form-urlencoded", MULTIPART_CONTENT])
def test_a_form_is_an_answer_too(kind):
    instance = park()
    fields = {"payment_id": "PAY 12 é", "status": "paid", "line": ["a", "b"], "note": ""}
    raw = urlencode(fields, doseq=True).encode() if "www" in kind else encode_multipart(BOUNDARY, fields)
    headers = {"Idempotency-Key": "k"}
    first = Client().generic("POST", url(), raw, content_type=kind, headers=headers)
    assert first.status_code == 200, first.content
    assert Client().generic("POST", url(), raw, content_type=kind, headers=headers)["Idempotency-Replayed"] == "true"
    other = Client().generic("POST", url(), raw.replace(b"paid", b"lost"), content_type=kind, headers=headers)
    problem(other, 409, "idempotency-conflict")
    drain()
    assert_done(instance, {"answer": fields, "timed_out": False})


def test_a_form_with_data_alone_is_unwrapped_and_may_name_a_version():
    instance = park()
    form = "application/x-www-form-urlencoded"
    problem(Client().generic("POST", url(), "data=paid&version=7", content_type=form), 409, "stale-version")
    assert Client().generic("POST", url(), "data=paid&version=1", content_type=form).status_code == 200
    drain()
    assert_done(instance, {"answer": "paid", "timed_out": False})


@pytest.mark.parametrize(
    ("raw", "kind", "status"),
    [
        (b"a=%ff", "application/x-www-form-urlencoded", 400),
        (b"a=\xff", "application/x-www-form-urlencoded", 400),
        (b"a=%00", "application/x-www-form-urlencoded", 400),
        (b"a=1&" * 2_000, "application/x-www-form-urlencoded", 400),
        (b"a=1", "application/x-www-form-urlencoded; charset=latin-1", 415),
        (b"nonsense", MULTIPART_CONTENT, 400),
        (b"a=1", "multipart/form-data", 400),
        (encode_multipart(BOUNDARY, {"a": "PAY-1200000"})[:-26], MULTIPART_CONTENT, 400),
        (b"data=1&version=" + b"9" * 5_000, "application/x-www-form-urlencoded", 400),
        (encode_multipart(BOUNDARY, {"f": ContentFile(b"x", "f.txt")}), MULTIPART_CONTENT, 415),
        (b"a=" + b"x" * 600_000, "application/x-www-form-urlencoded", 413),
    ],
)
def test_a_form_that_cannot_be_read_is_refused(raw, kind, status):
    park()
    assert Client().generic("POST", url(), raw, content_type=kind).status_code == status
    assert Interaction.objects.get().status == "pending"


@pytest.mark.parametrize("body", ["", "Raw", None, 7])
def test_what_partners_post_is_one_of_three(body):
    with pytest.raises(workflows.InvalidCall, match="body= must be one of any, raw, wrapped"):
        Question("pay", body=body)
    with pytest.raises(workflows.InvalidDefinition):

        class Bad(Machine):
            pay = wait_for(event="paid", body="raw")


def test_a_person_who_is_logged_in_answers_like_anybody():
    park()
    client = Client(enforce_csrf_checks=True)
    client.force_login(User.objects.create_user("kim"))
    assert post(client=client).status_code == 200
    row = Interaction.objects.get()
    assert row.actor == ""


def test_only_the_hash_of_a_token_is_stored():
    park()
    token = handed["token"]
    row = Interaction.objects.get()
    assert token not in json.dumps([str(value) for value in vars(row).values()])
    ledger = [str(vars(one)) for one in LedgerEvent.objects.all()]
    assert not any(token in one for one in ledger)
    instance = Instance.objects.get()
    assert token not in str(vars(instance)) + str(instance.state)


def test_each_visit_of_a_wait_has_an_address_of_its_own():
    instance = park(ResumeTwice)
    first = handed["url0"].removeprefix("https://holdpoint.example")
    assert post({"data": "one"}, at=first).status_code == 200
    drain()
    assert handed["url1"] != handed["url0"]
    problem(post({"data": "late"}, at=first), 410, "resolved")
    assert post({"data": "two"}, at=handed["url1"].removeprefix("https://holdpoint.example")).status_code == 200
    drain()
    assert_done(instance, [2, "two"])


# --- repeating ----------------------------------------------------------------------------------------


def test_the_same_call_again_is_told_the_same():
    instance = park()
    first = post({"data": 1}, **{"Idempotency-Key": "k1"})
    again = post({"data": 1}, **{"Idempotency-Key": "k1"})
    drain()
    after = post({"data": 1}, **{"Idempotency-Key": "k1"})
    assert [one.status_code for one in (first, again, after)] == [200, 200, 200]
    assert [one.headers.get("Idempotency-Replayed") for one in (first, again, after)] == [None, "true", "true"]
    assert {one.content for one in (first, again, after)} == {first.content}
    assert_done(instance, {"answer": 1, "timed_out": False})


def test_the_same_key_with_other_data_is_a_conflict():
    park()
    post({"data": 1}, **{"Idempotency-Key": "k1"})
    problem(post({"data": 2}, **{"Idempotency-Key": "k1"}), 409, "idempotency-conflict")


def test_without_a_key_a_second_answer_is_refused():
    park()
    assert post().status_code == 200
    problem(post(), 410, "resolved")


@pytest.mark.parametrize("key", ["", "   ", "k" * 256])
def test_a_key_that_is_none_is_refused(key):
    park()
    told = problem(post(**{"Idempotency-Key": key}), 400, "invalid-request")
    assert "idempotency key" in told["detail"]
    assert Interaction.objects.get().status == "pending"


# --- refusals -----------------------------------------------------------------------------------------


def test_whatever_is_not_there_is_told_alike():
    """Unknown, cut off, claimed for another, of a key that is gone, cancelled: the same bytes."""
    instance = park()
    token = handed["token"]
    row = Interaction.objects.get()
    unknown = make_token(uuid4(), workspace=row.workspace_id, visit=1)[0]
    foreign = make_token(row.id, workspace=row.workspace_id + 1, visit=1)[0]
    link = make_token(row.id, workspace=row.workspace_id, visit=1, purpose="link")[0]
    paths = [unknown, foreign, link, token[:-1], token + "A", token.swapcase(), "x", "é", "%00", "a" * 5000, token[5:]]
    answers = [post(at=f"/resume/{one}") for one in paths]
    workflows.cancel(instance)
    answers.append(post(at=f"/resume/{token}"))
    for one in answers:
        problem(one, 404, "not-found")
    assert {one.content for one in answers} == {answers[0].content}
    assert len({json.dumps(dict(one.headers)) for one in answers}) == 1
    assert "/resume" not in answers[0].content.decode()


def test_a_token_that_the_row_does_not_vouch_for_is_none():
    park()
    row = Interaction.objects.get()
    with connections["default"].cursor() as cursor:
        cursor.execute("UPDATE holdpoint_unit SET visit = 7 WHERE id = %s", [row.unit_id])
    problem(post(), 404, "not-found")
    assert Interaction.objects.get().status == "pending"


def test_after_the_deadline_it_is_gone_and_the_workflow_goes_on():
    instance = park()
    advance("25h")
    problem(post(), 410, "resolved")
    assert_done(instance, {"answer": None, "timed_out": True})


def test_a_late_answer_fires_the_deadline_that_the_sweep_has_not():
    instance = park()
    with connections["default"].cursor() as cursor:
        cursor.execute("UPDATE holdpoint_interaction SET deadline = now() - interval '1 s'")
        cursor.execute("UPDATE holdpoint_unit SET deadline = now() - interval '1 s'")
    problem(post(), 410, "resolved")
    assert Instance.objects.get(pk=instance.pk).status == "runnable"
    drain()
    assert_done(instance, {"answer": None, "timed_out": True})


def test_data_that_the_schema_refuses_is_told_by_field():
    instance = park(ResumeTyped)
    errors = problem(post({"data": {"amount": "5", "lines": ["a", 2]}}), 422, "invalid-data")["errors"]
    assert set(errors) == {"amount", "lines.1"}
    assert all(isinstance(reasons, list) and reasons for reasons in errors.values())
    assert list(problem(post({"data": 7}), 422, "invalid-data")["errors"]) == ["data"]
    problem(post({"data": {}}), 422, "invalid-data")
    assert_awaiting(instance)
    assert post({"data": {"amount": 5}}).status_code == 200
    drain()
    assert_done(instance, {"amount": 5})


@pytest.mark.parametrize(
    ("raw", "status", "slug"),
    [
        (b" ", 400, "invalid-body"),
        (b"{", 400, "invalid-body"),
        (b'{"data":1,"data":2}', 400, "invalid-body"),
        (b'{"data":NaN}', 400, "invalid-body"),
        (b'{"data":1e400}', 400, "invalid-body"),
        (b'{"data":"\\u0000"}', 400, "invalid-body"),
        (b'{"data":"\\ud800"}', 400, "invalid-body"),
        (b'{"data":' + b"[" * 100_000, 400, "invalid-body"),
        (b'{"data":' + b"9" * 10_000 + b"}", 400, "invalid-body"),
        (b'{"data":"' + b"x" * (512 * 1024) + b'"}', 413, "too-large"),
        (b'{"data":[' + b"1e300," * 60_000 + b"1]}", 413, "too-large"),
    ],
)
def test_a_bad_body_is_refused_before_the_token_is_looked_at(raw, status, slug):
    park()
    told = problem(post(raw), status, slug)
    assert Interaction.objects.get().status == "pending"
    if status == 413:
        assert str(512 * 1024) in told["detail"]
    if raw.count(b"1e300") == 0:
        assert post(raw, at="/resume/unknown").content == post(raw).content


def test_a_list_of_answers_may_be_larger_where_the_question_takes_one():
    park()
    large = json.dumps({"data": ["x" * 1_000] * 600}).encode()
    assert problem(post(large), 413, "too-large") == problem(post(large, at="/resume/unknown"), 413, "too-large")
    with connections["default"].cursor() as cursor:
        cursor.execute("UPDATE holdpoint_unit SET cardinality = %s", [CARDINALITY_CODES[Cardinality.ONE_TO_MANY]])
    assert post(large).status_code == 200
    problem(post(large, at="/resume/unknown"), 413, "too-large")


def test_another_media_type_is_refused():
    park()
    for kind in ("text/plain", "application/xml", "application/json; charset=latin-1"):
        problem(Client().post(url(), b'{"data":1}', content_type=kind), 415, "unsupported-media-type")


def test_strange_text_is_kept_as_it_is():
    text = "‮evil​\u0007é😀"
    instance = park()
    assert post({"data": text}).status_code == 200
    drain()
    assert_done(instance, {"answer": text, "timed_out": False})


@pytest.mark.parametrize("change", ["owned = true", "channel = 'approval'"])
def test_an_answer_that_belongs_to_its_channel_is_refused(change):
    park()
    with connections["default"].cursor() as cursor:
        cursor.execute(f"UPDATE holdpoint_interaction SET {change}")
    problem(post(), 409, "answered-elsewhere")
    problem(post({}), 409, "answered-elsewhere")
    assert Interaction.objects.get().status == "pending"


def refuse_answers(operation, interaction, actor):
    """A project's policy."""
    return operation != "resume"


def test_the_projects_policy_may_refuse(settings):
    park()
    settings.WORKFLOWS = {**settings.WORKFLOWS, "POLICY": refuse_answers}
    problem(post(), 403, "refused")
    assert Interaction.objects.get().status == "pending"


# --- methods ------------------------------------------------------------------------------------------


class ResumeBroken(Workflow):
    @step
    def ask(self, ctx):
        pay = ctx.callback("pay", schema=BrokenAnswer)
        handed["url"] = pay.resume_url
        return Await(pay, then="end", timeout="24h")

    @step
    def end(self, ctx):
        return Done()


def test_a_schema_class_that_fails_is_no_failure_of_the_site():
    park(ResumeBroken)
    told = problem(post({"data": {"n": 0}}), 422, "invalid-data")
    assert told["errors"] == {"data": ["cannot be checked: BrokenAnswer raised ZeroDivisionError"]}
    told = problem(post({"data": {"n": 10**400}}), 422, "invalid-data")
    assert "too large" in told["detail"]
    assert Interaction.objects.get().status == "pending"
    assert post({"data": {"n": 4}}).status_code == 200


def test_a_refusal_is_bounded_whatever_was_sent():
    park(ResumeTyped)
    answer = post({"data": {"amount": 1, "lines": [0] * 50_000}})
    problem(answer, 422, "invalid-data")
    assert len(answer.content) < 20_000


def test_one_slash_too_many_is_forgiven_and_one_word_is_not():
    instance = park()
    at = handed["token"]
    for wrong in (f"{at}//", f"{at}/x", f"{at}/x/", f"/{at}", f"{at}%0A", f"x/{at}", f"{at}%2Fx"):
        problem(post(at=f"/resume/{wrong}"), 404, "not-found")
    assert post(at=f"/resume/{at}/").status_code == 200
    drain()
    assert_done(instance)


@pytest.mark.parametrize("method", ["get", "head", "options", "put", "patch", "delete", "trace"])
@pytest.mark.parametrize("accept", ["*/*", "text/html", "application/json"])
def test_no_other_method_decides(method, accept):
    if accept == "text/html" and method in ("get", "head"):
        accept = "application/json, text/html"  # a browser gets a page, which decides nothing either
    park()
    before = Interaction.objects.values().get()
    caller = getattr(Client(), method)
    answer = caller(url(), headers={"Accept": accept}, query_params={"data": "1"})
    assert answer.status_code == 405
    assert answer["Allow"] == "POST"
    if method != "head":
        problem(answer, 405, "method-not-allowed")
    assert Interaction.objects.values().get() == before
    assert getattr(Client(), method)("/resume/unknown", headers={"Accept": accept}).content == answer.content


# --- what never becomes known -------------------------------------------------------------------------


def test_no_log_line_contains_a_token(caplog, settings):
    caplog.set_level(logging.DEBUG)
    park()
    token = handed["token"]
    Client().get(url())
    post(b"{")
    Client().post(url(), b"a=%ff", content_type="application/x-www-form-urlencoded")
    post({"data": 1}, **{"Idempotency-Key": ""})
    post(at=f"/resume/{token[:-1]}")
    for end in ("//", "/x", "/x/y/", "%0A", "/%0D%0A"):
        post(at=f"/resume/{token}{end}")
        Client().get(f"/resume/{token}{end}")
    right = settings.WORKFLOWS
    settings.WORKFLOWS = {**right, "POLICY": lambda operation, interaction, actor: 1 / 0}
    problem(post(), 500, "server-error")
    assert "ZeroDivisionError" in caplog.text
    settings.WORKFLOWS = right
    assert post().status_code == 200
    post()
    assert token not in caplog.text
    assert token[:-1] not in caplog.text
    assert "/resume/" not in caplog.text


def test_a_failure_is_told_without_its_words(monkeypatch, caplog):
    park()

    def fail(*args, **kwargs):
        raise OperationalError("connection to server at secret-host failed")

    monkeypatch.setattr(store, "find_interaction", fail)
    answer = post()
    problem(answer, 503, "unavailable")
    assert answer["Retry-After"]
    assert b"secret" not in answer.content
    assert "secret-host" in caplog.text


def test_a_site_that_lost_its_keys_asks_to_come_back(settings, caplog, monkeypatch):
    park()
    monkeypatch.setattr(conf, "supplies_links", False)
    settings.WORKFLOWS = {"BASE_URL": "https://holdpoint.example"}
    problem(post(), 503, "unavailable")
    assert "TOKEN_KEYS" in caplog.text


# --- rotation -----------------------------------------------------------------------------------------


def test_old_links_live_as_long_as_their_key_is_configured(settings):
    instance = park()
    settings.WORKFLOWS = {**settings.WORKFLOWS, "TOKEN_KEYS": {"2027-01": "z" * 40, **KEYS}}
    assert post().status_code == 200
    drain()
    assert_done(instance)


def test_a_link_whose_key_is_gone_is_none(settings):
    park()
    settings.WORKFLOWS = {**settings.WORKFLOWS, "TOKEN_KEYS": {"2027-01": "z" * 40}}
    problem(post(), 404, "not-found")


def look(**options) -> list:
    return [one for one in run_checks(tags=["holdpoint"], **options) if one.id == "holdpoint.E033"]


def test_the_check_names_the_key_that_parked_work_needs(settings):
    park()
    park()
    assert look(databases=["default"]) == []
    settings.WORKFLOWS = {**settings.WORKFLOWS, "TOKEN_KEYS": {"2027-01": "z" * 40}}
    [message] = look(databases=["default"])
    assert "'2026-11' (2 interactions" in message.msg
    assert "2027-01" not in message.msg
    assert "Put each key back" in message.hint
    assert KEYS["2026-11"] not in message.msg + message.hint
    assert look(databases=[]) == []  # without a database it asks none
    for instance in Instance.objects.all():
        workflows.cancel(instance)
    assert look(databases=["default"]) == []


def test_links_of_a_developers_site_are_named_with_what_can_be_done(settings):
    settings.WORKFLOWS, settings.DEBUG = {}, True
    instance = park()
    settings.WORKFLOWS, settings.DEBUG = {"TOKEN_KEYS": KEYS}, False
    [message] = look(databases=["default"])
    assert message.msg.startswith("1 interaction waits with links that were made while DEBUG")
    assert message.hint.endswith(f"manage.py workflows cancel {instance.id}")
    assert "Put each key back" not in message.hint
    call_command("workflows", "cancel", str(instance.id), stdout=StringIO())
    assert look(databases=["default"]) == []


def test_the_check_asks_nothing_of_a_database_without_tables(settings):
    settings.WORKFLOWS = {**settings.WORKFLOWS, "TOKEN_KEYS": {"2027-01": "z" * 40}}
    with connections["default"].cursor() as cursor:
        cursor.execute("ALTER TABLE holdpoint_interaction RENAME TO holdpoint_interaction_gone")
    assert look(databases=["default"]) == []
    with connections["default"].cursor() as cursor:
        cursor.execute("SELECT 1")


@pytest.mark.parametrize(
    ("changes", "id"),
    [
        ({"BASE_URL": "http://holdpoint.example"}, "holdpoint.W043"),
        ({"TOKEN_KEYS": {"a": site.SECRET_KEY}}, "holdpoint.W044"),
    ],
)
def test_what_makes_a_link_less_secret_is_said_before_a_deployment(settings, changes, id):
    settings.WORKFLOWS = {**settings.WORKFLOWS, **changes}
    found = {one.id: one for one in run_checks(tags=["holdpoint"], include_deployment_checks=True)}
    assert id in found
    assert found[id].hint
    assert id not in {one.id for one in run_checks(tags=["holdpoint"])}
    assert site.SECRET_KEY not in found[id].msg


# --- in the host project ------------------------------------------------------------------------------


def test_it_is_a_door_of_its_own_in_any_project(settings):
    """A login for every page, strict REST settings, a transaction per request: none of it matters here."""
    settings.MIDDLEWARE = [*settings.MIDDLEWARE, "django.contrib.auth.middleware.LoginRequiredMiddleware"]
    settings.REST_FRAMEWORK = {
        "DEFAULT_PERMISSION_CLASSES": ["rest_framework.permissions.IsAdminUser"],
        "DEFAULT_PARSER_CLASSES": ["rest_framework.parsers.FormParser"],
    }
    module = ModuleType("project_urls")
    module.urlpatterns = [path("hooks/", include("workflows.urls_resume"))]
    settings.ROOT_URLCONF = module
    park()
    assert "/hooks/resume/" in handed["url"]
    assert post().status_code == 200


def test_no_transaction_of_the_project_is_around_it():
    assert set(connections) <= resume._non_atomic_requests
    assert resume.csrf_exempt
    assert resume.login_required is False


def test_the_ledger_says_through_which_door():
    instance = park()
    post(**{"Idempotency-Key": "k1"})
    assert StoredAnswer.objects.get().instance == instance
    row = LedgerEvent.objects.get(instance=instance, kind="answered")
    assert (row.data["door"], row.actor) == ("resume", "")
