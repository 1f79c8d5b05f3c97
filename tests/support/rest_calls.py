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
SCHEDULE = {"name": "access", "workflow": "access-gate", "every": "1h"}
#: Method, address, a body that is good, the scope it takes, the permission it takes; or several, with blanks between.
CALLS = [
    ("GET", "/v1/instances", None, "read", "view_instance"),
    ("POST", "/v1/instances", {"workflow": "access-gate"}, "start", "start_instance"),
    ("GET", f"/v1/instances/{ID}", None, "read", "view_instance"),
    ("GET", f"/v1/instances/{ID}/events", None, "read", "view_instance"),
    ("POST", f"/v1/instances/{ID}/signals", {"name": "a"}, "signal", "signal_instance"),
    ("POST", f"/v1/instances/{ID}/cancel", {}, "operate", "cancel_instance"),
    ("POST", f"/v1/instances/{ID}/retry", {}, "operate", "retry_instance"),
    ("POST", f"/v1/instances/{ID}/fork", {}, "operate", "fork_instance"),
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
    ("GET", "/v1/workflows", None, "read", "view_instance"),
    ("POST", "/v1/workflows/access-gate/pause", {}, "operate", "control_queue"),
    ("POST", "/v1/workflows/access-gate/unpause", {}, "operate", "control_queue"),
    ("GET", "/v1/queues", None, "read", "view_instance"),
    ("GET", "/v1/queues/default", None, "read", "view_instance"),
    ("PATCH", "/v1/queues/default", {"limit": 5}, "operate", "control_queue"),
    ("GET", "/v1/limits", None, "read", "view_instance"),
    ("PATCH", "/v1/limits/concurrency/k", {"limit": 5}, "operate", "control_queue"),
    ("PATCH", "/v1/limits/rate/k", {"rate": "5/m"}, "operate", "control_queue"),
    ("GET", "/v1/schedules", None, "read", "view_schedule"),
    ("POST", "/v1/schedules", SCHEDULE, "operate start", "manage_schedule start_instance"),
    ("GET", "/v1/schedules/nightly", None, "read", "view_schedule"),
    ("PATCH", "/v1/schedules/nightly", {"enabled": False}, "operate start", "manage_schedule start_instance"),
    ("DELETE", "/v1/schedules/nightly", None, "operate", "manage_schedule"),
    ("POST", "/v1/schedules/nightly/run", {}, "start", "run_schedule"),
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
    if method == "GET":
        return api.get(path, **options)
    if method == "DELETE":
        return api.call(method, path, **options)
    return api.post(path, body, **options) if method == "POST" else api.patch(path, body, **options)


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
    f"/v1/instances/{UNKNOWN}/fork",
    "/v1/keys/nobody/signals",
    "/v1/signals",
    "/v1/signals/bulk",
    "/v1/signals/nobody/complete",
    "/v1/interactions/complete",
    f"/v1/interactions/{UNKNOWN}/complete",
    f"/v1/interactions/{UNKNOWN}/fail",
    f"/v1/interactions/{UNKNOWN}/retry",
    f"/v1/interactions/{UNKNOWN}/redrive",
    "/v1/schedules",
    "/v1/schedules/nobody/run",
    *(
        f"/v1/approvals/{UNKNOWN}/{action}"
        for action in ("decide", "claim", "release", "delegate", "comment", "request_info", "undo")
    ),
    "/v1/workflows/nobody/pause",
    "/v1/workflows/nobody/unpause",
    "/v1/events",
    "/resume/none",
]
