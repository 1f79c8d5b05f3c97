"""Two tenants: what one of them has, and every call with which the other could ask for it.

Lives here: the population of A, and per address the calls about what is A's beside the same ones about what is
nobody's. What must not: tests. An address that is added to the URL conf has to be added here.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

from django.contrib.auth.models import Group, User
from django.db import connection
from django.test import Client

import workflows
from approvals import Approval, decide, withdraw
from approvals.models import Review
from tests.support.api_calls import Api
from tests.support.bad_input import make_cursor
from tests.support.combinations import take_share
from tests.support.routes import list_routes
from workflows import Await, Concurrency, Done, Rate, Stop, Workflow, durable, event, step
from workflows.models import AwaitUnit, Instance, Interaction, Workspace
from workflows.testing import advance, drain

#: Stands in every text of A that no caller sends.
CANARY = "canary"
#: The idempotency key that A has used for everything.
USED = {"Idempotency-Key": "order-7"}


class TenantsShip(Workflow):
    name = "tenants-ship"

    @step
    def ask(self, ctx: Any) -> Await:
        return Await("paid", then="end", state={"asked": ctx.input})

    @step
    def end(self, ctx: Any) -> Done | Stop:
        told = ctx.awaited[0].payload
        return Stop(told["stop"]) if "stop" in told else Done(told)


class TenantsBegin(Workflow):
    name = "tenants-begin"
    on_event = "tenants.opened"

    @step
    def end(self, ctx: Any) -> Done:
        return Done()


class TenantsListen(Workflow):
    name = "tenants-listen"

    @step
    def ask(self, ctx: Any) -> Await:
        return Await(event("tenants.closed"), then="end")

    @step
    def end(self, ctx: Any) -> Done:
        return Done()


@durable(name="tenants-ask")
def ask(ctx: Any, signal: str, timeout: str = "10d", title: str = "") -> Any:
    schema = {"title": title, "type": "object", "properties": {"n": {"type": "number"}}}
    return ctx.wait_for_signal("gate", signal=signal, timeout=timeout, schema=schema)


class TenantsLimited(Workflow):
    """Never started: its queue and limits are what a tenant may set."""

    name = "tenants-limited"
    queue = "tenants"
    concurrency = Concurrency("tenants:{customer}", 5)
    rate = Rate("tenants", 5, per="1s")

    @step
    def end(self, ctx: Any) -> Done:
        return Done()


@durable(name="tenants-person")
def person(ctx: Any, about: str) -> Any:
    return ctx.wait_for("look", "api", input={"about": about}, assignee="acme-ann", group="acme-desk", timeout="10d")


class TenantsApprove(Workflow):
    name = "tenants-approve"

    @step
    def ask(self, ctx: Any) -> Await:
        title = f"Pay {CANARY}"
        asked = {"assignees": ["acme-ann"], "groups": ["acme-desk"], **ctx.input}
        return Await(Approval(title, **asked), then="end", timeout="10d")

    @step
    def end(self, ctx: Any) -> Done:
        return Done()


@dataclass
class Tenant:
    """What a workspace has, by its state."""

    workspace: Workspace
    api: Api
    instances: dict[str, str] = field(default_factory=dict)
    keys: dict[str, str] = field(default_factory=dict)
    #: Interaction ids and signal ids.
    questions: dict[str, tuple[str, str]] = field(default_factory=dict)
    reviews: dict[str, str] = field(default_factory=dict)
    cursors: dict[str, str] = field(default_factory=dict)


def populate(workspace: Workspace, api: Api) -> Tenant:
    """Instances and questions in every state there is, made through the API with the key that is used for all."""
    found = Tenant(workspace, api)
    for state, then in (("live", None), ("done", "go"), ("failed", "stop"), ("cancelled", None)):
        key = found.keys[state] = f"acme-{state}"
        body = {"workflow": "tenants-ship", "input": {"order": CANARY}, "key": key}
        found.instances[state] = api.post("/v1/instances", body, {"Idempotency-Key": f"order-7-{state}"}).json()["id"]
        drain()
        if then is not None:
            api.post(
                f"/v1/instances/{found.instances[state]}/signals", {"name": "paid", "payload": {then: CANARY}}, USED
            )
    api.post(f"/v1/instances/{found.instances['cancelled']}/cancel", {"reason": CANARY}, USED)
    with workflows.workspace(workspace.slug):
        workflows.start("tenants-listen")
        workflows.start("tenants-person", {"about": CANARY})
        for state in ("pending", "completed", "cancelled", "expired"):
            timeout = "1h" if state == "expired" else "10d"
            row = workflows.start("tenants-ask", {"signal": f"acme-{state}", "timeout": timeout, "title": CANARY})
            drain()
            asked = Interaction.objects.get(instance=row)
            found.questions[state] = (str(asked.pk), asked.signal_id)
            found.instances[f"asks {state}"] = str(row.pk)
    id, signal_id = found.questions["completed"]
    for path in (f"/v1/interactions/{id}", f"/v1/signals/{signal_id}"):
        api.post(f"{path}/complete", {"data": {"n": 7, "why": CANARY}}, USED)
    api.post("/v1/interactions/complete", [{"id": id, "data": CANARY, "idempotency_key": "k"}], USED)
    api.post(f"/v1/instances/{found.instances['asks cancelled']}/cancel", {}, USED)
    advance("2h")
    api.post("/v1/instances", {"workflow": "tenants-ship", "key": "acme-key"}, USED)
    api.post("/v1/schedules", {"name": "acme-nightly", **SCHEDULE}, USED)
    api.post("/v1/signals", {"key": "acme-live", "name": "note", "payload": CANARY, "dedup_key": "d"}, USED)
    api.post("/v1/signals/bulk", [{"key": "acme-live", "name": "note", "dedup_key": "e"}], USED)
    api.post("/v1/keys/acme-live/signals", {"name": "note", "dedup_key": "f"}, USED)
    api.post("/v1/events", {"event": "tenants.heard", "data": CANARY, "dedup_key": "d"}, USED)
    drain()
    ask_people(found)
    for name in ("instances", "interactions", "approvals"):
        path = f"/v1/{name}"
        found.cursors[name] = api.get(path, limit=2).json()["next"].partition("cursor=")[2]
    control_flow(api)
    return found


def control_flow(api: Api) -> None:
    """Everything that can be set at run time, and what is paused."""
    assert api.post("/v1/workflows/tenants-approve/pause", {}, USED).status_code == 200
    assert api.patch("/v1/queues/tenants", {"limit": 7, "rate": "77/s", "paused": True}, USED).status_code == 200
    for key in (f"tenants:{CANARY}", "tenants:7"):
        assert api.patch(f"/v1/limits/concurrency/{key}", {"limit": 7}, USED).status_code == 200
    assert api.patch("/v1/limits/rate/tenants", {"rate": "77/s"}, USED).status_code == 200


def ask_people(found: Tenant) -> None:
    """Reviews in every state, with a person of the workspace who used that key for everything too."""
    ann = User.objects.create_user("acme-ann", last_name=CANARY)
    ben = User.objects.create_user("acme-ben")
    ann.groups.add(Group.objects.create(name="acme-desk"))
    for user in (ann, ben):
        found.workspace.members.add(user)
    client = Client(raise_request_exception=False)
    client.force_login(ann)
    person = Api(client=client)
    for state in ("open", "claimed", "voted", "grace", "decided", "withdrawn"):
        with workflows.workspace(found.workspace.slug):
            both = {"assignees": ["acme-ann", "acme-ben"], "groups": [], "quorum": 2, "four_eyes": False}
            row = workflows.start("tenants-approve", both if state == "voted" else {}, actor=ben)
            drain()
        review = Review.objects.get(instance=row)
        found.instances[f"approves {state}"] = str(row.pk)
        found.reviews[state] = str(review.pk)
        path = f"/v1/approvals/{review.pk}"
        if state == "claimed":
            assert person.post(f"{path}/claim", {}, USED).status_code == 200
        elif state in ("voted", "decided"):
            body = {"outcome": "approve", "reason": CANARY}
            assert person.post(f"{path}/decide", body, USED).status_code == 200
        elif state == "grace":
            decide(review, "approve", actor=ann, grace=True)
        elif state == "withdrawn":
            withdraw(review, actor=ben)
        assert person.post(f"{path}/comment", {"text": CANARY}, USED).status_code == 200
    drain()


@dataclass(frozen=True)
class Call:
    """One request about something; `body` as it is sent."""

    method: str
    path: str
    body: bytes | None = None
    headers: tuple[tuple[str, str], ...] = ()

    def send(self, api: Api) -> Any:
        """The answer."""
        options = {} if self.body is None else {"data": self.body, "content_type": "application/json"}
        return api.call(self.method, self.path, headers=dict(self.headers), **options)


def list_calls(a: Tenant, share: int = 0, shares: int = 1) -> Iterator[tuple[str, Call, Call]]:
    """(address, a call about what is A's, the same call about what is nobody's).

    All of them, or one of several shares: together these are all. A share asks about every row of every address, and
    sends every body somewhere, as its place within a row changes from row to row.
    """
    for place, route in enumerate(list_routes()):
        if route.name in EXEMPT:
            continue
        for n, (theirs, nobodys) in enumerate(ABOUT[route.name](a)):
            methods = sorted({*METHODS, *OTHERS} if n == 0 else route.methods & OWN)
            asked = [
                (method, body, headers)
                for method in methods
                for body, headers in (list_bodies(route.name) if method in {"POST", "PATCH"} else [(None, ())])
            ]
            chosen = take_share([n], asked, share - place - n, shares if len(asked) >= shares else 1)
            for _, (method, body, headers) in chosen:
                yield (
                    route.name,
                    Call(method, fill(route.path, theirs), write(body, theirs), headers),
                    Call(method, fill(route.path, nobodys), write(body, nobodys), headers),
                )


METHODS = ("GET", "HEAD", "POST")
OTHERS = ("PUT", "PATCH", "DELETE", "OPTIONS", "TRACE")
#: Every method is asked for once at each address. These are asked for with everything there, by the addresses that have
#: them: what is refused before anything is looked for is refused alike, and HEAD is what GET answers.
OWN = {"GET", "POST", "PATCH", "DELETE"}
#: Addresses at which no tenant has anything, and why.
EXEMPT = {
    "": "there is nothing",
    "healthz": "it tells of the process",
    "readyz": "it tells of the site",
    "metrics": "numbers on a connection of their own: tests/workflows/operations/test_metrics.py",
    "resume": "whoever holds a token may answer, of whatever tenant: tests/workflows/callbacks/test_token_view.py",
    "hooks": "a hook is of the workspace that its definition names: tests/workflows/hooks/test_hook_requests.py",
    "api-schema": "it is the same for everybody",
    "api-docs": "it is the same for everybody",
}

Pair = tuple[dict[str, str], dict[str, str]]


def about_instances(a: Tenant) -> list[Pair]:
    return [({"id": id}, {"id": str(uuid.uuid4())}) for id in a.instances.values()]


def about_keys(a: Tenant) -> list[Pair]:
    keys = [*a.keys.values(), "acme-key"]
    return [
        ({"key": key, "id": a.instances["live"]}, {"key": "no-" + key[3:], "id": str(uuid.uuid4())}) for key in keys
    ]


def about_signal_ids(a: Tenant) -> list[Pair]:
    return [({"signal_id": name}, {"signal_id": "no-" + name[3:]}) for _, name in a.questions.values()]


def about_questions(a: Tenant) -> list[Pair]:
    return [({"id": id}, {"id": str(uuid.uuid4())}) for id, _ in a.questions.values()]


def about_many(a: Tenant) -> list[Pair]:
    return [
        ({"id": id, "signal_id": name}, {"id": str(uuid.uuid4()), "signal_id": "no-" + name[3:]})
        for id, name in a.questions.values()
    ]


def about_units(a: Tenant) -> list[Pair]:
    ids = AwaitUnit.objects.filter(workspace=a.workspace).values_list("pk", flat=True)
    return [({"id": str(id)}, {"id": str(uuid.uuid4())}) for id in ids]


def about_schedules(a: Tenant) -> list[Pair]:
    return [({"schedule": "acme-nightly", "name": "acme-nightly"}, {"schedule": "nob-nightly", "name": "nob-nightly"})]


def about_reviews(a: Tenant) -> list[Pair]:
    return [({"id": id, "to": "acme-ann"}, {"id": str(uuid.uuid4()), "to": "no-ann"}) for id in a.reviews.values()]


def about_lists(**filters: str) -> Callable[[Tenant], list[Pair]]:
    def about(a: Tenant) -> list[Pair]:
        asked = [(f"?{name}={value}", f"?{name}=no-{value[3:]}") for name, value in filters.items()]
        asked += [(f"?cursor={cursor}", f"?cursor={make_nobodys(name)}") for name, cursor in a.cursors.items()]
        return [
            ({"query": theirs, "key": "acme-key"}, {"query": nobodys, "key": "nob-key"}) for theirs, nobodys in asked
        ]

    return about


def make_nobodys(name: str) -> str:
    """A cursor of the same list, at a place where nothing is."""
    id = str(uuid.uuid4())
    if name == "approvals":
        return make_cursor([False, 1, id])
    return make_cursor([False, 0, id] if name == "instances" else [False, 0, "2027-01-01T00:00:00.000001+00:00", id])


def about_events(a: Tenant) -> list[Pair]:
    return [({"event": name}, {"event": "nobody." + name[8:]}) for name in ("tenants.closed", "tenants.heard")]


def about_known(a: Tenant) -> list[Pair]:
    """A list of what the code names has nothing of A's but what A has set."""
    return [({"query": "?limit=500"}, {"query": "?limit=500"})]


def about_names(name: str) -> Callable[[Tenant], list[Pair]]:
    """What the code names is there for every tenant; that A has set something of it makes no difference."""
    return lambda a: [({"name": name}, {"name": name})]


ABOUT: dict[str, Callable[[Tenant], list[Pair]]] = {
    "instances": about_lists(key="acme-live", workflow="tenants-ship"),
    "instance": about_instances,
    "instance-events": about_instances,
    "instance-signals": about_instances,
    "instance-cancel": about_instances,
    "instance-retry": about_instances,
    "instance-fork": about_instances,
    "key-signals": about_keys,
    "signals": about_keys,
    "signals-bulk": about_keys,
    "signal-complete": about_signal_ids,
    "events": about_events,
    "interactions": about_lists(
        assignee="acme-ann",
        group="acme-desk",
        workflow="tenants-ask",
        step="gate",
        channel="signal",
        correlation_id="acme-live",
    ),
    "units": about_lists(step="gate", instance="01900000-0000-7000-8000-000000000000"),
    "unit": about_units,
    **dict.fromkeys(("workflows", "queues", "limits"), about_known),
    **dict.fromkeys(("workflow-pause", "workflow-unpause"), about_names("tenants-approve")),
    "queue": about_names("tenants"),
    "limit-concurrency": about_names("tenants:7"),
    "limit-rate": about_names("tenants"),
    "schedules": lambda a: about_lists(workflow="tenants-ship")(a) + about_schedules(a),
    "schedule": about_schedules,
    "schedule-run": about_schedules,
    "approvals": about_lists(
        assignee="acme-ann", group="acme-desk", requester="acme-ben", workflow="tenants-approve", step="ask"
    ),
    **dict.fromkeys(
        (
            "approval",
            "approval-decide",
            "approval-claim",
            "approval-release",
            "approval-delegate",
            "approval-comment",
            "approval-request-info",
            "approval-undo",
        ),
        about_reviews,
    ),
    "interaction": about_questions,
    "interaction-events": about_questions,
    "interaction-fail": about_questions,
    "interaction-retry": about_questions,
    "interaction-redrive": about_questions,
    "interaction-dispatches": about_questions,
    "interaction-complete": about_questions,
    "interactions-complete": about_many,
}

SCHEDULE = {"workflow": "tenants-ship", "every": "1000d", "input": {"order": CANARY}}
ANSWERS = [
    {"data": {"n": 7, "why": CANARY}},
    {"data": {"n": "x"}},
    {},
    {"data": {"n": 7}, "version": 99},
]
#: Bodies that are in order, with what is asked about in capitals; those of A's own calls among them.
GOOD: dict[str, list[Any]] = {
    "instances": [{"workflow": "tenants-ship", "key": "KEY"}],
    "instance-signals": [{"name": "paid", "payload": {"go": CANARY}}, {"name": "note", "dedup_key": "d"}],
    "instance-cancel": [{"reason": CANARY}, {}],
    "instance-retry": [{}],
    "instance-fork": [{}, {"at": CANARY, "key": "KEY"}],
    "key-signals": [{"name": "note", "dedup_key": "f"}],
    "signals": [{"key": "KEY", "name": "note", "payload": CANARY, "dedup_key": "d"}],
    "signals-bulk": [[{"key": "KEY", "name": "note", "dedup_key": "e"}], [{"instance": "ID", "name": "note"}, {}]],
    "signal-complete": ANSWERS,
    "interaction-complete": ANSWERS,
    "interaction-fail": [{"reason": CANARY}],
    "interaction-retry": [{}],
    "interaction-redrive": [{}],
    "workflow-pause": [{}],
    "workflow-unpause": [{}],
    "queue": [{"limit": 7}, {"paused": True}, {"rate": "77/s"}],
    "limit-concurrency": [{"limit": 7}, {"limit": None}],
    "limit-rate": [{"rate": "77/s"}, {"rate": None}],
    "interactions-complete": [
        [{"id": "ID", **answer}, {"signal_id": "SIGNAL_ID", **answer}, {"id": "ID", **answer, "idempotency_key": "k"}]
        for answer in ANSWERS
    ],
    "approval-decide": [{"outcome": "approve", "reason": CANARY}, {"outcome": "nothing", "version": 99}],
    "approval-claim": [{}],
    "approval-release": [{}],
    "approval-delegate": [{"to": "TO"}],
    "approval-comment": [{"text": CANARY}],
    "approval-request-info": [{"text": CANARY}],
    "approval-undo": [{}],
    "schedules": [{"name": "NAME", "workflow": "tenants-ship", "every": "1000d"}],
    "schedule": [{"enabled": False}],
    "schedule-run": [{}],
    "events": [{"event": "EVENT", "data": CANARY, "dedup_key": "d"}],
}


def list_bodies(name: str) -> Iterator[tuple[bytes, tuple[tuple[str, str], ...]]]:
    """In order, with the idempotency key that A has used and without; and some that are not."""
    for body in GOOD.get(name, []):
        yield json.dumps(body).encode(), tuple(USED.items())
        yield json.dumps(body).encode(), ()
    yield b'{"cut":', ()
    yield b'{"unknown":1}', tuple(USED.items())


def fill(path: str, values: dict[str, str]) -> str:
    return path.format(**values) + values.get("query", "")


def write(body: bytes | None, values: dict[str, str]) -> bytes | None:
    for name, value in values.items():
        body = None if body is None else body.replace(f'"{name.upper()}"'.encode(), f'"{value}"'.encode())
    return body


def take_picture(workspace: Workspace) -> dict[str, Any]:
    """Every row that a workspace has, of every table of the engine; and of those tables that know no workspace, all."""
    found: dict[str, Any] = {}
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT table_name, array_agg(column_name::text) FROM information_schema.columns "
            "WHERE table_name LIKE 'holdpoint\\_%%' AND table_schema = 'public' GROUP BY 1"
        )
        for table, columns in cursor.fetchall():
            mine = ""
            if "workspace_id" in columns:
                mine = f"WHERE t.workspace_id = {workspace.pk}"
            elif "instance_id" in columns:
                mine = f"WHERE t.instance_id IN (SELECT id FROM holdpoint_instance WHERE workspace_id = {workspace.pk})"
            elif "schedule_id" in columns:
                mine = f"WHERE t.schedule_id IN (SELECT id FROM holdpoint_schedule WHERE workspace_id = {workspace.pk})"
            cursor.execute(f"SELECT array_agg(t::text ORDER BY t::text) FROM {table} t {mine}")
            found[table] = cursor.fetchone()[0]
    assert found["holdpoint_instance"]
    return found


def list_ids(workspace: Workspace) -> set[str]:
    """Of all its instances and questions."""
    rows = [Instance.objects.filter(workspace=workspace), Interaction.objects.filter(workspace=workspace)]
    return {str(pk) for some in rows for pk in some.values_list("pk", flat=True)}
