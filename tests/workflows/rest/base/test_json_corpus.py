"""The corpus at every door: what is accepted can be read back, shown and exported, and the rest is told where it fails.

Each text is sent twice to every address that takes a body: as the whole of it, and as the value that it carries.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.core.management import call_command
from django.test import Client

import workflows
from approvals import Approval
from tests.support.api_calls import Api, make_anybody
from tests.support.bad_input import MAY_BE_EMPTY, UNKNOWN
from tests.support.combinations import take_share
from tests.support.json_corpus import make_corpus
from tests.support.rest_calls import ROUTES
from workflows import Await, Done, Workflow, durable, step
from workflows.models import Instance, Interaction
from workflows.testing import drain

pytestmark = pytest.mark.django_db

CORPUS = make_corpus()
#: How the one place that reads bodies names a place, and how what came of a body does.
PLACE = re.compile(r"at (line \d+ column \d+|byte \d+|its end|\$)")

handed: list[str] = []


class CorpusTakes(Workflow):
    """Takes any input, and ends with the first signal."""

    name = "corpus-takes"

    @step
    def ask(self, ctx: Any) -> Await:
        return Await("v", then="end")

    @step
    def end(self, ctx: Any) -> Done:
        return Done(ctx.awaited[0].payload)


class CorpusBegins(Workflow):
    """Begins with an event."""

    name = "corpus-begins"
    on_event = "corpus.happened"

    @step
    def end(self, ctx: Any) -> Done:
        return Done(ctx.input)


@durable(name="corpus-asks")
def asks(ctx: Any, **about: Any) -> Any:
    return ctx.wait_for("q", "api", input=about)


@durable(name="corpus-decides")
def decides(ctx: Any) -> Any:
    anything = {"type": ["object", "array", "string", "number", "boolean", "null"]}
    return ctx.wait_for("gate", Approval("Take it", assignees=["corpus-ann"], schema=anything)).data


@durable(name="corpus-pays")
def pays(ctx: Any) -> Any:
    pay = ctx.callback("pay", timeout="1d")
    handed.append(pay.resume_url)
    return pay.wait()


@pytest.fixture
def api(settings: Any) -> Api:
    settings.WORKFLOWS = {**settings.WORKFLOWS, "API_RATE": None}
    handed.clear()
    api = make_anybody("corpus-ann")
    api.client.raise_request_exception = False
    return api


def test_the_corpus_is_large_enough_and_says_the_truth() -> None:
    count = {kind: sum(case.kind == kind for case in CORPUS) for kind in ("good", "bad", "open")}
    assert count["good"] >= 95
    assert count["bad"] >= 190
    assert count["open"] >= 55
    assert len({case.name for case in CORPUS}) == len(CORPUS)
    for case in CORPUS:
        if case.kind == "good":
            case.read()


def find_place(response: Any) -> str:
    """Where a refusal says that it is wrong; it is a problem, and a short one."""
    assert 400 <= response.status_code < 500, response.content[:500]
    assert response.headers["Content-Type"] == "application/problem+json"
    assert len(response.content) < 8_000
    told = json.loads(response.content.decode())
    assert told["status"] == response.status_code
    assert told["type"].startswith("urn:holdpoint:problem:")
    if response.status_code == 413:
        assert re.search(r"\d{4,}", told["detail"]), told
        return "its size"
    if told["type"].endswith(":invalid-body"):
        found = PLACE.search(told["detail"])
        assert found, told
        return found[0]
    assert told.get("errors"), told
    return str(next(iter(told["errors"])))


# --- as the whole body ----------------------------------------------------------------------------------


#: One that takes an object, one that takes a list, one of approvals and one beside the API: they are sent each text,
#: and the others, which read bodies by the same function, every eighth: each text meets one of them or more.
SENT_ALL = ("/v1/instances", "/v1/signals/bulk", f"/v1/approvals/{UNKNOWN}/decide", "/resume/none")


@pytest.mark.parametrize("route", ROUTES)
def test_no_text_as_the_whole_body_is_more_than_refused(api: Api, route: str) -> None:
    for _, case in take_share([route], CORPUS, ROUTES.index(route), 1 if route in SENT_ALL else 8):
        # The client leaves the header out for an empty body.
        response = api.post(route, raw=case.raw, headers={"Content-Type": "application/json"})
        empty = case.raw == b"" and route.endswith(MAY_BE_EMPTY)
        if case.kind == "bad" and not empty:
            assert response.status_code in {400, 413}, (case.name, response.content[:300])
            find_place(response)
        elif response.status_code == 207:
            statuses = {one["status"] for one in response.json()["results"]}
            assert statuses <= {400}, case.name
            assert len(response.json()["results"]) == len(case.read()), case.name
        elif response.status_code == 404:
            # Everything in it was in order, and so the address is looked at: before the shape of an answer is judged.
            asks = route.endswith("/complete") or route.startswith("/resume/")
            assert empty or asks or isinstance(case.read(), dict), case.name
        else:
            find_place(response)
    assert not Instance.objects.exists()


# --- as a value -----------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Door:
    """An address that takes a value: the body around it, and how it is read back from the API."""

    template: str
    #: How many to prepare: their addresses.
    prepare: Callable[[int], list[tuple[str, str]]]
    #: From what was answered, and what was prepared: the address and member that show the value in the end.
    read: Callable[[Any, str], tuple[str, str]]


def prepare_starts(count: int) -> list[tuple[str, str]]:
    return [("/v1/instances", "")] * count


def prepare_events(count: int) -> list[tuple[str, str]]:
    return [("/v1/events", "")] * count


def prepare_signals(form: str) -> Callable[[int], list[tuple[str, str]]]:
    def prepare(count: int) -> list[tuple[str, str]]:
        keys = [f"key {n}/é" for n in range(count)]
        rows = workflows.start_many("corpus-takes", [{}] * count, keys=keys)
        drain()
        ids = [str(row.pk) for row in rows]
        return [(form.format(id=id, key=key), f"{id} {key}") for id, key in zip(ids, keys, strict=True)]

    return prepare


def prepare_questions(form: str) -> Callable[[int], list[tuple[str, str]]]:
    def prepare(count: int) -> list[tuple[str, str]]:
        workflows.start_many("corpus-asks", [{}] * count)
        drain()
        return [(form.format(id=one.pk, signal_id=one.signal_id), str(one.pk)) for one in Interaction.objects.all()]

    return prepare


def prepare_reviews(count: int) -> list[tuple[str, str]]:
    workflows.start_many("corpus-decides", [{}] * count)
    drain()
    return [(f"/v1/approvals/{one.pk}/decide", "") for one in Interaction.objects.all()]


def prepare_callbacks(count: int) -> list[tuple[str, str]]:
    workflows.start_many("corpus-pays", [{}] * count)
    drain()
    return [("/resume/" + url.rpartition("/")[2], "") for url in handed]


def read_started(answer: Any, target: str) -> tuple[str, str]:
    assert answer.status_code == 201
    return answer.headers["Location"], "input"


def read_result(answer: Any, target: str) -> tuple[str, str]:
    assert answer.status_code in {202, 207}
    return f"/v1/instances/{target.partition(' ')[0]}", "result"


def read_answer(answer: Any, target: str) -> tuple[str, str]:
    assert answer.status_code == 200
    return f"/v1/interactions/{answer.json()['id']}", "output"


def read_line(answer: Any, target: str) -> tuple[str, str]:
    [line] = answer.json()["results"]
    assert line["status"] == 200
    return f"/v1/interactions/{line['id']}", "output"


def read_decided(answer: Any, target: str) -> tuple[str, str]:
    assert answer.status_code == 200
    return f"/v1/instances/{answer.json()['instance']}", "result"


def read_begun(answer: Any, target: str) -> tuple[str, str]:
    assert answer.json()["started"] == 1
    return f"/v1/instances/{Instance.objects.latest('id').pk}", "result"


def fetch(api: Api, path: str) -> Any:
    response = api.get(path)
    assert response.status_code == 200, response.content[:300]
    return response.json()


DOORS = {
    "start": Door('{"workflow":"corpus-takes","input":@@}', prepare_starts, read_started),
    "signal by id": Door('{"name":"v","payload":@@}', prepare_signals("/v1/instances/{id}/signals"), read_result),
    "signal by key": Door('{"name":"v","payload":@@}', prepare_signals("/v1/keys/{key}/signals"), read_result),
    "signal in the body": Door('{"key":"KEY","name":"v","payload":@@}', prepare_signals("/v1/signals"), read_result),
    "bulk": Door('[{"key":"KEY","name":"v","payload":@@}]', prepare_signals("/v1/signals/bulk"), read_result),
    "complete by id": Door('{"data":@@}', prepare_questions("/v1/interactions/{id}/complete"), read_answer),
    "complete by signal id": Door('{"data":@@}', prepare_questions("/v1/signals/{signal_id}/complete"), read_answer),
    "complete many": Door('[{"id":"ID","data":@@}]', prepare_questions("/v1/interactions/complete"), read_line),
    "decide": Door('{"outcome":"approve","data":@@}', prepare_reviews, read_decided),
    "resume": Door('{"data":@@}', prepare_callbacks, read_answer),
    "event": Door('{"event":"corpus.happened","data":@@}', prepare_events, read_begun),
}


#: The doors that lead to a column of their own, one each: they are sent each text. The others lead to one of these
#: columns by the same call, and are sent every sixth: each text meets one of them or more.
KEPT_APART = ("start", "signal by id", "complete by id", "event")


@pytest.mark.parametrize("name", DOORS)
def test_each_text_as_a_value_is_taken_as_it_is_or_refused_at_its_place(api: Api, name: str) -> None:
    door = DOORS[name]
    shares = 1 if name in KEPT_APART else 6
    others = [one for one in DOORS if one not in KEPT_APART]
    number = 0 if name in KEPT_APART else others.index(name)
    sent_here = [case for _, case in take_share([name], CORPUS, number, shares)]
    targets = door.prepare(1 + sum(case.kind != "bad" for case in sent_here))
    path, target = targets.pop()
    taken: list[tuple[str, Any, str, str]] = []
    for case in sent_here:
        answer = api.post(
            path, raw=case.wrap(door.template.replace("KEY", target.partition(" ")[2]).replace("ID", target))
        )
        if is_refused(answer):
            assert case.kind != "good", (case.name, answer.content[:300])
            assert answer.status_code == 207 or find_place(answer)
            continue
        assert case.kind != "bad", (case.name, answer.content[:300])
        sent = case.read()
        taken.append(
            (case.name, {} if sent is None and name in {"start", "event"} else sent, *door.read(answer, target))
        )
        path, target = targets.pop()
    assert len(taken) > 130 * len(sent_here) // len(CORPUS)
    drain()
    for told, sent, where, member in taken:
        assert is_same(fetch(api, where)[member], sent), told


def is_refused(answer: Any) -> bool:
    """Or the one line of many is, which says so in the same words."""
    lines = answer.json()["results"] if answer.status_code == 207 else []
    assert all(one["status"] in (200, 202) or re.search(r"\d{4,}", one["detail"]) for one in lines)
    return bool(answer.status_code >= 400) or any(one["status"] >= 400 for one in lines)


def is_same(read: Any, sent: Any) -> bool:
    """Equal, number for number: 1e22 comes back as the same number written out."""
    if isinstance(sent, dict):
        return (
            isinstance(read, dict) and list(read.keys() ^ sent) == [] and all(is_same(read[k], sent[k]) for k in sent)
        )
    if isinstance(sent, list):
        return isinstance(read, list) and len(read) == len(sent) and all(map(is_same, read, sent))
    if isinstance(sent, float) and isinstance(read, int | float):
        return float(read) == sent
    return type(read) is type(sent) and bool(read == sent)


# --- what was taken, everywhere it is shown ---------------------------------------------------------------


def test_whatever_was_taken_is_shown_by_every_page_list_and_export(api: Api, tmp_path: Path) -> None:
    bundles = make_bundles(api)
    for raw in bundles:
        started = api.post("/v1/instances", raw=b'{"workflow":"corpus-asks","input":{"about":%s}}' % raw)
        assert started.status_code == 201
        drain()
        asked = Interaction.objects.get(instance_id=started.json()["id"])
        assert api.post(f"/v1/interactions/{asked.pk}/complete", raw=b'{"data":%s}' % raw).status_code == 200
    drain()
    sent = [json.loads(raw) for raw in reversed(bundles)]
    listed = fetch(api, "/v1/instances?limit=500")["results"]
    assert is_same([row["result"] for row in listed], sent)
    assert is_same([row["input"]["about"] for row in listed], sent)
    asked_about = fetch(api, "/v1/interactions?limit=500")["results"]
    assert is_same([row["output"] for row in reversed(asked_about)], sent)
    assert is_same([row["request"]["about"] for row in reversed(asked_about)], sent)
    for row in listed:
        assert fetch(api, f"/v1/instances/{row['id']}/events")["results"][-1]["status"] == "done"
    look_at_pages()
    export = tmp_path / "ledger.jsonl"
    call_command("ledger", "export", "--output", str(export))
    assert len([json.loads(line) for line in export.read_text(encoding="utf-8").splitlines()]) > 3 * len(bundles)


def make_bundles(api: Api) -> list[bytes]:
    """What is accepted: small texts ten at a time, so that pages show them whole; others alone."""
    small: list[bytes] = []
    found: list[bytes] = []
    for case in CORPUS:
        answer = api.post("/v1/events", raw=case.wrap('{"event":"corpus.unheard","data":[{"about":@@}]}'))
        if not is_refused(answer):
            (small if len(case.raw) < 100 else found).append(case.raw)
    assert len(small) + len(found) > 130
    return found + [b"[" + b",".join(small[at : at + 10]) + b"]" for at in range(0, len(small), 10)]


def look_at_pages() -> None:
    client = Client()
    client.force_login(User.objects.create_superuser("ann", password="x"))
    for model, ids in (
        ("instance", Instance.objects.values_list("pk", flat=True)),
        ("interaction", Interaction.objects.values_list("pk", flat=True)),
    ):
        for page in ["", *(f"{pk}/change/" for pk in ids)]:
            response = client.get(f"/admin/holdpoint/{model}/{page}")
            assert response.status_code == 200, page
            assert b"<script>alert(1)" not in response.content
