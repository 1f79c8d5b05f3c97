"""schemathesis reads the API's document and calls a site: nothing may come back that the document does not tell.

The usual run is short and always the same. A long one, with another seed:

    FUZZ_EXAMPLES=1000 FUZZ_SEED=7 python -m pytest -s tests/workflows/rest/schema/test_openapi_fuzz.py

Lives here: what schemathesis is told of this site (its ids, so that real rows are met) and of the few answers that a
document has no words for. schemathesis runs in a process of its own, as anybody would run it.
"""

from __future__ import annotations

import hashlib
import json
import logging
import os
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
from django.core.servers.basehttp import WSGIRequestHandler
from django.middleware.csrf import CSRF_SESSION_KEY, _get_new_csrf_string
from django.test import Client

from tests.support.api_calls import Api, make_key
from tests.support.pumps import pumping
from tests.support.worlds.openapi import NAMES, Population, populate
from workflows import hook
from workflows.hooks import definition
from workflows.rest.schema.openapi import describe_api

pytestmark = [
    pytest.mark.django_db(transaction=True),
    pytest.mark.usefixtures("committed"),
    pytest.mark.process,
    pytest.mark.slow,
]

EXAMPLES = int(os.environ.get("FUZZ_EXAMPLES", "20"))
SEED = int(os.environ.get("FUZZ_SEED", "1"))
SECONDS = 3600
HOOK = "openapi"

#: What a valid call may be told: rows come and go, and a document does not know the names of workflows.
POSITIVE = ["2xx", "401", "403", "404", "409", "410", "422"]
#: What an invalid one may be told: whether it can still be answered is looked at before the answer.
NEGATIVE = ["400", "401", "403", "404", "405", "409", "410", "413", "415", "422"]

#: What is at the end of an address by its name.
NAMED = {
    "pauseWorkflow": "limited",
    "unpauseWorkflow": "limited",
    "getQueue": "queues",
    "changeQueue": "queues",
    "changeConcurrency": "customers",
    "changeRate": "rates",
}
#: Operations that succeed on few rows, or wait on most of them: their ids have a dictionary each.
OF_THEIR_OWN = {
    "completeInteraction",
    "getInstance",
    "redriveInteraction",
    "retryInstance",
    "retryInteraction",
    "undoApproval",
}


def test_nothing_comes_back_that_the_document_does_not_tell(live_server, settings, monkeypatch, tmp_path, caplog):
    caplog.set_level(logging.CRITICAL, "django.request")  # thousands of refusals
    settings.WORKFLOWS = {**settings.WORKFLOWS, "API_RATE": None}
    # Otherwise each answer waits 40 ms for the acknowledgement of its own header.
    monkeypatch.setattr(WSGIRequestHandler, "disable_nagle_algorithm", True)
    settings.CSRF_USE_SESSIONS = True  # or the token would be a cookie, and schemathesis sends one
    key = make_key()
    config, report = tmp_path / "schemathesis.toml", tmp_path / "report.ndjson"
    monkeypatch.setattr(definition, "_hooks", {})
    open_hook()
    there = populate(min(20 + EXAMPLES // 5, 500))
    config.write_text("\n".join(describe_site(key, there)))
    with pumping():
        done = subprocess.run(
            [
                Path(sys.executable).with_name("schemathesis"),
                *("--config-file", config, "run", f"{live_server.url}/v1/schema", "--url", live_server.url),
                *("--max-examples", str(EXAMPLES), "--seed", str(SEED), "--generation-database", "none"),
                *("--request-timeout", "120", "--suppress-health-check", "too_slow"),  # what else runs here is no fault
                *("--report", "ndjson", "--report-ndjson-path", report, "--no-color"),
            ],
            cwd=tmp_path,
            capture_output=True,
            text=True,
            timeout=SECONDS,
            check=False,
        )
    print(f"FUZZ_SEED={SEED} FUZZ_EXAMPLES={EXAMPLES}", done.stdout[-1500:])
    assert done.returncode == 0, done.stdout + done.stderr
    seen = count_answers(report)
    print(*(f"{count:7} {name} {status}" for (name, status), count in sorted(seen.items())), sep="\n")
    good = {
        (operation["operationId"], int(status))
        for item in describe_api()["paths"].values()
        for operation in item.values()
        for status in operation["responses"]
        if status < "300"
    }
    assert good - set(seen) == set(), "it has met no rows there, and so has proven little"


def open_hook() -> None:
    """Takes from anybody whatever is posted."""

    @hook(HOOK, verify=lambda request: True, id=lambda message: hashlib.sha256(message.body).hexdigest())
    def take(message: Any) -> None:
        pass


def describe_site(key: str, there: Population) -> Iterator[str]:
    """schemathesis' settings."""
    api = Api(key)
    asked = favour(there.questions, "pending")
    words = {
        "instances": favour(there.instances, "sleeping"),
        "getInstance": favour(there.instances, "done"),
        "retryInstance": favour(there.instances, "failed"),
        "units": [str(one.unit_id) for one in asked],
        "interactions": [str(one.pk) for one in asked],
        # From the end: the first ones have a schema, and are failed by other calls.
        "completeInteraction": [str(one.pk) for one in reversed(there.questions["pending"])],
        "redriveInteraction": [str(one.pk) for one in there.sent],
        "retryInteraction": [str(one.pk) for one in there.items],
        "signal_ids": [one.signal_id for one in asked],
        "tokens": favour(there.tokens, "pending"),
        "approvals": favour(there.reviews, "open"),
        "undoApproval": favour(there.reviews, "voted"),
        "schedules": there.schedules,
        "outcomes": ["approve", "reject"],
        "people": ["openapi-ben"],
        "listApprovals": list_cursors(api, "/v1/approvals"),
        "keys": there.keys,
        "workflows": list(NAMES),
        "names": ["note"],
        "events": ["openapi.closed", "openapi.nobody"],
        "workspaces": ["default"],
        "hooks": [HOOK],
        "limited": ["openapi/limited"],
        "queues": ["openapi"],
        "customers": ["openapi-ann", "openapi-bob"],
        "spans": ["1h", "30000d"],
        "expressions": ["0 9 * * *", "30 2 29 2 *"],
        "zones": ["UTC", "Europe/Berlin"],
        "rates": ["openapi"],
        "listInstances": list_cursors(api, "/v1/instances"),
        "listWorkflows": list_cursors(api, "/v1/workflows"),
        "listQueues": list_cursors(api, "/v1/queues"),
        "listLimits": list_cursors(api, "/v1/limits"),
        "listUnits": list_cursors(api, "/v1/units"),
        "listSchedules": list_cursors(api, "/v1/schedules"),
        "listInteractions": list_cursors(api, "/v1/interactions"),
        "listInteractionEvents": list_cursors(api, f"/v1/interactions/{there.voted.pk}/events"),
        "listDispatches": list_cursors(api, f"/v1/interactions/{there.sent[0].pk}/dispatches"),
        "listInstanceEvents": list_cursors(api, f"/v1/instances/{there.instances['done'][0]}/events"),
    }
    yield "warnings = false"
    yield "continue-on-failure = true"
    for name, values in words.items():
        yield f"[dictionaries.{name}]\nvalues = {json.dumps(values)}"
    yield f'[auth.openapi.key]\nbearer = "{key}"'
    session, token = open_session(there.person)
    yield f'[auth.openapi.session]\napi_key = "{session}"'
    yield f"[checks]\npositive_data_acceptance.expected-statuses = {POSITIVE}"
    yield f"negative_data_rejection.expected-statuses = {NEGATIVE}"
    # PostgreSQL keeps no NUL, of which JSON Schema cannot speak within a value of any shape.
    yield "[generation]\nallow-x00 = false"
    yield "[parameters]"
    for where, words_of in (
        ("path.key", "keys"),
        ("path.signal_id", "signal_ids"),
        ("path.token", "tokens"),
        ("path.name", "hooks"),
        ("path.schedule", "schedules"),
    ):
        yield draw(where, words_of)
    for where, words_of in (("body.workflow", "workflows"), ("body.name", "names"), ("body.event", "events")):
        yield draw(where, words_of)
    for where, words_of in (("body.every", "spans"), ("body.cron", "expressions"), ("body.tz", "zones")):
        yield draw(where, words_of)
    for where, words_of in (("body.outcome", "outcomes"), ("body.to", "people")):
        yield draw(where, words_of)
    for where in ("header.X-Workspace", "query.workspace"):
        yield draw(where, "workspaces", 1)
    for item in describe_api()["paths"].items():
        yield from describe_operations(*item, token)


def open_session(user: Any) -> tuple[str, str]:
    """Of somebody who is logged in: the cookie, and the token that their calls take."""
    client = Client()
    client.force_login(user)
    session = client.session
    session[CSRF_SESSION_KEY] = token = _get_new_csrf_string()
    session.save()
    return session.session_key, token


def describe_operations(path: str, item: dict[str, Any], token: str) -> Iterator[str]:
    """What only some operations are told."""
    for operation in item.values():
        name = operation["operationId"]
        yield f'[[operations]]\ninclude-operation-id = "{name}"'
        if operation["security"] == [{"session": []}]:
            yield f'headers = {{ "X-CSRFToken" = "{token}" }}'
        yield "[operations.parameters]"
        if "{id}" in path:
            kind = path.split("/")[2]
            yield draw("path.id", name if name in OF_THEIR_OWN else kind, 0.8)
        if name == "listApprovals":  # each status has an order of its own, and a cursor is a place in one
            yield '"query.status" = "open"'
        if name == "listInteractions":  # so has the list of a unit
            yield '"query.unit" = ""'
        if name.startswith("list"):
            yield draw("query.cursor", name, 1)
        if name in NAMED:
            yield draw("path.name", NAMED[name])
        if name == "getInstance":  # all would be waited for, as long as the document allows
            yield '"query.wait" = 0'
        if name == "signal":
            yield draw("body.key", "keys", 0.8)
        if name in ("signalMany", "completeMany"):  # each line is answered for itself
            yield f"[operations.checks]\nnegative_data_rejection.expected-statuses = {['207', *NEGATIVE]}"


def favour(rows: Mapping[str, Sequence[Any]], status: str) -> list[Any]:
    """All in this status, and two in every other."""
    return [one for name, some in rows.items() for one in (some if name == status else some[:2])]


def draw(where: str, dictionary: str, probability: float = 0.75) -> str:
    return f'"{where}" = {{ dictionary = "{dictionary}", probability = {probability} }}'


def list_cursors(api: Api, path: str) -> list[str]:
    """One forth and one back."""
    forth = api.get(path, limit=1).json()["next"]
    back = api.get(forth).json()["previous"]
    return [parse_qs(urlsplit(one).query)["cursor"][0] for one in (forth, back)]


def count_answers(report: Path) -> Counter[tuple[str, int]]:
    """How often each operation gave each status."""
    names = {
        (method.upper(), path): operation["operationId"]
        for path, item in describe_api()["paths"].items()
        for method, operation in item.items()
    }
    seen: Counter[tuple[str, int]] = Counter()
    for line in report.read_text().splitlines():
        recorder = json.loads(line).get("ScenarioFinished", {}).get("recorder", {})
        for id, call in (recorder.get("interactions") or {}).items():
            case = recorder["cases"][id]["value"]
            name = names.get((case["method"], case["path"]))
            if name is not None and call.get("response"):
                seen[name, call["response"]["status_code"]] += 1
    return seen
