"""Bad input, and what it is sent with: bodies in order, strange paths, numbers, cursors, texts.

Lives here: values, a workflow that takes them all, and requests that show a failure as an answer. What must not: tests.
"""

from __future__ import annotations

import base64
import itertools
import json
from collections.abc import Iterator
from typing import Any

from tests.support.api_calls import Api
from tests.support.combinations import take_share
from tests.support.routes import list_routes
from workflows import Await, Done, Workflow, step


class InputTakes(Workflow):
    """Takes any input, and ends with the first signal."""

    name = "input-takes"

    @step
    def ask(self, ctx: Any) -> Await:
        return Await("v", then="end")

    @step
    def end(self, ctx: Any) -> Done:
        return Done(ctx.awaited[0].payload)


UNKNOWN = "01900000-0000-7000-8000-000000000000"
#: What stands in an address whose parameter means nothing.
NOBODY = {
    "id": UNKNOWN,
    "key": "nobody",
    "signal_id": "nobody",
    "token": "none",
    "rest": "x",
    "name": "nobody",
    "schedule": "nobody",
}
JSON = "application/json"

EVERY = list_routes()
#: A function decides about its methods itself.
CALLS = [(method, route) for route in EVERY for method in sorted(route.methods or {"GET", "POST"})]

#: Bodies of their addresses that are in order; what they are about is not there.
GOOD: dict[str, bytes] = {
    "/v1/instances": b'{"workflow":"input-takes"}',
    f"/v1/instances/{UNKNOWN}/signals": b'{"name":"v"}',
    f"/v1/instances/{UNKNOWN}/cancel": b'{"reason":"x"}',
    f"/v1/instances/{UNKNOWN}/retry": b"{}",
    f"/v1/instances/{UNKNOWN}/fork": b'{"at":"a"}',
    "/v1/keys/nobody/signals": b'{"name":"v"}',
    "/v1/signals": b'{"key":"nobody","name":"v"}',
    "/v1/signals/bulk": b'[{"key":"nobody","name":"v"}]',
    "/v1/signals/nobody/complete": b'{"data":1}',
    "/v1/interactions/complete": b'[{"signal_id":"nobody","data":1}]',
    f"/v1/interactions/{UNKNOWN}/fail": b'{"reason":"x"}',
    f"/v1/interactions/{UNKNOWN}/retry": b"{}",
    f"/v1/interactions/{UNKNOWN}/redrive": b"{}",
    f"/v1/interactions/{UNKNOWN}/complete": b'{"data":1}',
    "/v1/schedules": b'{"name":"nobody","workflow":"input-takes","every":"1h"}',
    "/v1/schedules/nobody/run": b"{}",
    f"/v1/approvals/{UNKNOWN}/decide": b'{"outcome":"approve"}',
    f"/v1/approvals/{UNKNOWN}/claim": b"{}",
    f"/v1/approvals/{UNKNOWN}/release": b"{}",
    f"/v1/approvals/{UNKNOWN}/delegate": b'{"to":"ann"}',
    f"/v1/approvals/{UNKNOWN}/comment": b'{"text":"?"}',
    f"/v1/approvals/{UNKNOWN}/request_info": b'{"text":"?"}',
    f"/v1/approvals/{UNKNOWN}/undo": b"{}",
    "/v1/workflows/nobody/pause": b"{}",
    "/v1/workflows/nobody/unpause": b"{}",
    "/v1/events": b'{"event":"input.nobody"}',
    "/resume/none": b'{"data":1}',
}
#: The same of addresses that are changed in parts.
PATCHED: dict[str, bytes] = {
    "/v1/queues/nobody": b'{"limit":5}',
    "/v1/limits/concurrency/nobody": b'{"limit":5}',
    "/v1/limits/rate/nobody": b'{"rate":"5/m"}',
    "/v1/schedules/nobody": b'{"enabled":false}',
}
#: Where nothing has to be said.
MAY_BE_EMPTY = ("/cancel", "/retry", "/fork", "/redrive", "/run", "/claim", "/release", "/undo", "/pause", "/unpause")
#: What such a call is told.
TAKEN = {201, 202, 207, 404, 409}


def calm(api: Api) -> Api:
    """A failure is an answer, as it is for a caller."""
    api.client.raise_request_exception = False
    return api


def call(api: Api, method: str, path: str, body: bytes | None = None, headers: dict[str, str] | None = None) -> Any:
    """A request; a body goes with POST and PATCH only, and is one in order if none is given."""
    good = GOOD.get(path.partition("?")[0], b"{}") if body is None else body
    options = {"data": good, "content_type": JSON} if method in {"POST", "PATCH"} else {}
    return is_clean(api.call(method, path, headers=headers, **options), (method, path[:200], headers))


def is_clean(response: Any, what: object) -> Any:
    """An answer of a site that works; what is refused is a problem."""
    assert response.status_code < 500, (what, response.content[:300])
    kind = response.headers["Content-Type"]
    if response.status_code >= 400 and response.content and kind.startswith("application/problem"):
        assert json.loads(response.content.decode())["status"] == response.status_code, what
        assert len(response.content) < 8_000, what
    return response


STRANGE_PARTS = [
    "%00", "a%00b", UNKNOWN + "%00", "%FF", "%C0%80", "%ED%A0%80", "%F4%90%80%80", "é", "٣", "%D9%A3", "\uff05",
    "k" * 8_000, "%41" * 3_000, "..", ".", "%2e%2e", "..%2f..%2fetc%2fpasswd", "%2F", "a%2Fb", "//", "%5c..", "%20",
    "+", "%0a", "%0d%0aX-A:%20b", UNKNOWN + "%0a", "%0a" + UNKNOWN, "-1", "0", "1", "1e3", "NaN", "null", "None", "'",
    "''--", "%22", "%25", "%", "%zz", "%2", "{id}", "%7B" + UNKNOWN + "%7D", UNKNOWN.replace("-", ""),
    "urn:uuid:" + UNKNOWN, UNKNOWN + "0", UNKNOWN[:-1], UNKNOWN.replace("0", "\uff10"), "<script>", "%3Cscript%3E",
    "$(id)", "%s", "~", "@", ":", "a;b", "a%3Fb", "a%23b", "%C2%A0", "%E2%80%8B", "%EF%BB%BF", "%F0%9F%A7%AD",
    "holdpoint:x",
]  # fmt: skip

BAD_NUMBERS = [
    "-1", "501", "٣", "१", "%EF%BC%95", "1e3", "5.0", "0x10", "%2B5", "5%20", "%205", "5,6", "null", "true", "NaN",
    "inf", "%00", "5%00", "%FF", "9" * 5_000, "1000000000", "²", "\uff15", "5;6", "--5", "5_0", "½", "'5'",
]  # fmt: skip

STRANGE_TEXTS = [
    "%00", "a%00b", "%FF", "%ED%A0%80", "k" * 8_000, "%E2%80%8B", "'", "%25", "é", "%0d%0a", "%F0%9F%A7%AD",
    "x" * 1_001,
]  # fmt: skip

PARAMETERS = [
    "status", "workflow", "key", "assignee", "group", "step", "channel", "workspace", "cursor", "limit", "wait",
    "require", "risk", "requester", "subject", "overdue", "snoozed", "format", "_method", "",
]  # fmt: skip

STRANGE_HEADERS = [
    "", " ", ",", "\x00", "a\x00b", "\x1f", "\x7f", "a\tb", "a\r\nX-A: b", "é", "\xff", "漢", "x" * 256, "x" * 8_000,
    "default", "DEFAULT", "default,default", "../default", "1", "0", "null", "'", '"', "%00", "*", ";", "=", "\\000",
]  # fmt: skip

MOMENTS = [
    "2026-01-01T00:00:00+00:00",
    "0001-01-01T00:00:00+14:00",
    "9999-12-31T23:59:59-14:00",
    "x",
    "",
    "\0",
    "24:00",
]


def make_cursor(value: Any) -> str:
    """A cursor as the API writes it, of whatever is wanted."""
    return base64.urlsafe_b64encode(json.dumps(value).encode()).decode()


def list_cursors() -> Iterator[str]:
    """Texts that are no cursor, or one of another list, or one that somebody made up."""
    numbers: list[Any] = [True, 1, 0, -1, 1.5, 2**31 - 1, 2**31, -(2**31), 2**63, 10**400]
    values = [None, *numbers, "", "x", UNKNOWN, [], {}, [UNKNOWN], *MOMENTS]
    both, parts = (True, False), (0, 1, 2, -1, None, "0", 1.0, True)
    for back, part, one in itertools.product(both, parts[:3], values):
        yield make_cursor([back, part, one])
    # Beside what is wrong already, any two are tried together.
    odd = [*itertools.product(both, parts[3:]), *itertools.product((1, None, "x"), parts)]
    for (back, part), one in take_share(odd, values, 0, 3):
        yield make_cursor([back, part, one])
    yield from (make_cursor([False, 0, moment, UNKNOWN]) for moment in MOMENTS)
    yield from map(make_cursor, ([], {}, None, 1, "x", [False], [False, 0], [False, 0, UNKNOWN, 1, 2], float("nan")))
    for raw in (
        b"",
        b"[",
        b"[" * 50_000,
        b"\xff\xfe[",
        b"[false,0," + b"9" * 5_000 + b"]",
        b'{"a":1}',
        b"[NaN,0,1]",
        b"\x00",
    ):
        yield base64.urlsafe_b64encode(raw).decode()
    yield from (
        "x",
        "=",
        "====",
        "AAAA",
        "A",
        "é",
        "\x00",
        "W10",
        "+/+/",
        "a b",
        "%",
        "\n",
        "W" * 100_000,
        "W10=\n",
        "٣",
    )


ANY = ["a b", " ", "a/b", "/", "a//", "../a", "a?b", "a#b", "a%20b", "%2F", "é", "a+b", "٣", "🚀" * 200, "a/complete"]
