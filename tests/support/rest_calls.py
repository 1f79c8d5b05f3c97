"""Every call of the REST API with what it takes: scope, permission, a good body.

Lives here: the table of calls and sending one. What must not: assertions. A new address has to be added here.
"""

from __future__ import annotations

from django.test import Client

from tests.support.api_calls import Api
from workflows import durable

ID = "01900000-0000-7000-8000-000000000000"
#: No key has it: a person has to call.
PERSON = "a person"
#: Whoever a review asks needs no permission.
NONE = ""
#: Method, address, a body that is good, the scope it takes, the permission it takes.
CALLS = [
    ("GET", "/v1/instances", None, "read", "view_instance"),
    ("POST", "/v1/instances", {"workflow": "access-gate"}, "start", "start_instance"),
    ("GET", f"/v1/instances/{ID}", None, "read", "view_instance"),
    ("GET", f"/v1/instances/{ID}/events", None, "read", "view_instance"),
    ("POST", f"/v1/instances/{ID}/signals", {"name": "a"}, "signal", "signal_instance"),
    ("POST", f"/v1/instances/{ID}/cancel", {}, "operate", "cancel_instance"),
    ("POST", f"/v1/instances/{ID}/retry", {}, "operate", "retry_instance"),
    ("POST", "/v1/keys/k/signals", {"name": "a"}, "signal", "signal_instance"),
    ("POST", "/v1/signals", {"key": "k", "name": "a"}, "signal", "signal_instance"),
    ("POST", "/v1/signals/bulk", [], "signal", "signal_instance"),
    ("POST", "/v1/events", {"event": "e"}, "signal", "signal_instance"),
    ("POST", "/v1/signals/access-gate/complete", {"data": 1}, "complete", "complete_interaction"),
    ("GET", "/v1/interactions", None, "read", "view_interaction"),
    ("POST", "/v1/interactions/complete", [], "complete", "complete_interaction"),
    ("GET", f"/v1/interactions/{ID}", None, "read", "view_interaction"),
    ("POST", f"/v1/interactions/{ID}/complete", {"data": 1}, "complete", "complete_interaction"),
    ("POST", f"/v1/interactions/{ID}/fail", {"reason": "no"}, "complete", "complete_interaction"),
    ("POST", f"/v1/interactions/{ID}/retry", {}, "operate", "retry_instance"),
    ("GET", f"/v1/interactions/{ID}/events", None, "read", "view_interaction"),
    ("GET", "/v1/units", None, "read", "view_interaction"),
    ("GET", f"/v1/units/{ID}", None, "read", "view_interaction"),
    ("POST", f"/v1/interactions/{ID}/redrive", {}, "operate", "redrive_interaction"),
    ("GET", f"/v1/interactions/{ID}/dispatches", None, "read", "view_interaction"),
    ("GET", "/v1/approvals", None, "read", NONE),
    ("GET", f"/v1/approvals/{ID}", None, "read", NONE),
    ("POST", f"/v1/approvals/{ID}/decide", {"outcome": "approve"}, PERSON, NONE),
    ("POST", f"/v1/approvals/{ID}/claim", {}, PERSON, NONE),
    ("POST", f"/v1/approvals/{ID}/release", {}, PERSON, NONE),
    ("POST", f"/v1/approvals/{ID}/delegate", {"to": "ann"}, PERSON, NONE),
    ("POST", f"/v1/approvals/{ID}/comment", {"text": "?"}, PERSON, NONE),
    ("POST", f"/v1/approvals/{ID}/request_info", {"text": "?"}, PERSON, NONE),
    ("POST", f"/v1/approvals/{ID}/undo", {}, PERSON, NONE),
]


def send(api: Api, method: str, path: str, body, **options):
    return api.get(path, **options) if method == "GET" else api.post(path, body, **options)


def give_token(client: Client) -> str:
    from django.middleware.csrf import _get_new_csrf_string

    secret = _get_new_csrf_string()
    client.cookies["csrftoken"] = secret
    return secret


@durable(name="access-gate")
def gate(ctx):
    return ctx.wait_for_signal("gate", signal="access-gate", timeout="1h")


UNKNOWN = "01900000-0000-7000-8000-000000000000"
ROUTES = [
    "/v1/instances",
    f"/v1/instances/{UNKNOWN}/signals",
    f"/v1/instances/{UNKNOWN}/cancel",
    f"/v1/instances/{UNKNOWN}/retry",
    "/v1/keys/nobody/signals",
    "/v1/signals",
    "/v1/signals/bulk",
    "/v1/signals/nobody/complete",
    "/v1/interactions/complete",
    f"/v1/interactions/{UNKNOWN}/complete",
    f"/v1/interactions/{UNKNOWN}/fail",
    f"/v1/interactions/{UNKNOWN}/retry",
    f"/v1/interactions/{UNKNOWN}/redrive",
    *(
        f"/v1/approvals/{UNKNOWN}/{action}"
        for action in ("decide", "claim", "release", "delegate", "comment", "request_info", "undo")
    ),
    "/v1/events",
    "/resume/none",
]
