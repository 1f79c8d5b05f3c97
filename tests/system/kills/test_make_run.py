"""`make run` as one process tree: it comes up whole, heals, and ends whole."""

import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from io import StringIO
from typing import Any
from urllib.parse import urlsplit

import psutil
import psycopg
import pytest
import urllib3
from django.core.management import call_command
from psycopg import sql

import workflows
from config.ports import find_free_port
from tests.support.openapi_document import OPERATIONS, ROUTES
from tests.support.other_server import elsewhere, fill
from tests.support.processes import find_environment
from workflows.client import (
    AnsweredElsewhere,
    Client,
    DuplicateKey,
    Gone,
    IdempotencyConflict,
    InstanceCancelled,
    InstanceFailed,
    InvalidData,
    NotFinished,
    NotPossible,
    StaleVersion,
    UnknownWorkflow,
)
from workflows.definitions import callback_tokens
from workflows.hooks import stripe
from workflows.models import Interaction
from workflows.testing import drain

#: Without it there is no database of the tests, whose tables that of the site has.
pytestmark = pytest.mark.django_db(transaction=True)

PATIENCE = 300
#: With which the payment service of the demo signs.
SECRET = "whsec_of_the_payment_service"


@dataclass
class Site:
    """A running supervisor, what it said so far, and the processes below it."""

    process: subprocess.Popen[str]
    port: int
    lines: list[str] = field(default_factory=list)
    heard: threading.Condition = field(default_factory=threading.Condition)

    def __post_init__(self) -> None:
        self.listener = threading.Thread(target=self.listen)

    def listen(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            with self.heard:
                self.lines.append(line.rstrip())
                self.heard.notify_all()

    def wait_for(self, text: str) -> None:
        with self.heard:
            found = self.heard.wait_for(lambda: any(text in line for line in self.lines), PATIENCE)
        assert found, "\n".join([f"nothing said {text!r}:", *self.lines])

    def wait_until_ready(self) -> None:
        """Whatever a test did to it: it serves, and somebody pumps."""
        probe = urllib3.HTTPConnectionPool("127.0.0.1", self.port, retries=False, timeout=5)
        until = time.monotonic() + PATIENCE
        while True:
            with suppress(urllib3.exceptions.HTTPError):
                if probe.request("GET", "/readyz?require=cluster").status == 200:
                    return
            assert time.monotonic() < until, "\n".join(["it is not ready:", *self.lines])
            time.sleep(0.05)

    def end(self) -> None:
        self.process.terminate()
        self.process.wait(60)
        self.listener.join(60)
        assert self.process.stdout is not None
        self.process.stdout.close()

    def list_tree(self) -> list[psutil.Process]:
        return psutil.Process(self.process.pid).children(recursive=True)

    def find_main(self, command: str) -> psutil.Process:
        (main,) = (child for child in psutil.Process(self.process.pid).children() if command in child.cmdline())
        return main


def list_survivors(processes: list[psutil.Process]) -> list[psutil.Process]:
    _, alive = psutil.wait_procs(processes, timeout=30)
    return [process for process in alive if process.status() != psutil.STATUS_ZOMBIE]


def begin_site(**more: str) -> Site:
    port = find_free_port()
    process = subprocess.Popen(
        [sys.executable, "-m", "config.run"],
        env={**os.environ, "PORT": str(port), "PAYMENTS_SECRETS": SECRET, **more},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )
    site = Site(process, port)
    site.listener.start()
    return site


@pytest.fixture(scope="module", autouse=True)
def own_database(django_db_setup: None, django_db_blocker: Any) -> Iterator[None]:
    """A site migrates when it starts: two at a time, for two workers of the test run, would be in each other's way.

    It is like the migrated one and lacks the tables of an app, because to migrate all takes five seconds. Something has
    happened in it, so the demo makes its people and not its world, which takes ten (`test_demo` makes that).
    """
    given = urlsplit(os.environ["DATABASE_URL"])
    name = f"site_{os.environ.get('PYTEST_XDIST_WORKER', 'main')}"
    url = given._replace(path=f"/{name}").geturl()
    with psycopg.connect(given.geturl(), autocommit=True) as db:
        db.execute(sql.SQL("DROP DATABASE IF EXISTS {} WITH (FORCE)").format(sql.Identifier(name)))
        db.execute(sql.SQL("CREATE DATABASE {}").format(sql.Identifier(name)))
    with pytest.MonkeyPatch.context() as patch, django_db_blocker.unblock():
        fill(url, find_environment()["DATABASE_URL"])
        with psycopg.connect(url) as db:
            db.execute("DROP TABLE django_session")
            db.execute("DELETE FROM django_migrations WHERE app = 'sessions'")
        with elsewhere(url):
            workflows.start("demo.ship", {"order": 7})
            drain()
        patch.setenv("DATABASE_URL", url)
        yield


@pytest.fixture(scope="module")
def begun(own_database: None) -> Iterator[list[Site]]:
    """The sites that tests of this file have begun, of which the last may still run."""
    sites: list[Site] = []
    yield sites
    for site in sites:
        site.end()


@pytest.fixture
def site(begun: list[Site]) -> Site:
    """One that is ready: that of the test before, unless it was stopped there. Beginning one costs some ten seconds."""
    if not begun or begun[-1].process.poll() is not None:
        begun.append(begin_site(**({"DEMO": "0"} if begun else {})))  # the first has made its people
        begun[-1].wait_for("Holdpoint is ready")
    begun[-1].wait_until_ready()
    return begun[-1]


# --- what another program sees of it ------------------------------------------------------------------


def make_key(name: str) -> str:
    """What `manage.py api_key create` prints."""
    told = StringIO()
    with elsewhere(os.environ["DATABASE_URL"]):
        call_command("api_key", "create", name, "--workspace", "default", stdout=told)
    return told.getvalue().strip()


def let_send(id: str) -> None:
    with psycopg.connect(os.environ["DATABASE_URL"]) as db:
        db.execute("UPDATE holdpoint_interaction SET config = '{}' WHERE id = %s", [id])


def find_link(id: str) -> str:
    with elsewhere(os.environ["DATABASE_URL"]):
        one = Interaction.objects.select_related("unit").get(pk=id)
        return callback_tokens.make_token(one.pk, workspace=one.workspace_id, visit=one.unit.visit)[0]


#: What the document promises of every row: (operation, status). A person drives the rows of approvals.
PROMISED = {
    (operation["operationId"], int(status))
    for _, path, operation in OPERATIONS
    for status in operation["responses"]
    if status < "300"
    and not path.startswith("/v1/approvals")
    # Nothing of the demo has a key or a rate of its own: test_openapi_truth drives these two.
    and operation["operationId"] not in ("changeConcurrency", "changeRate")
}


@pytest.fixture
def answered(monkeypatch: pytest.MonkeyPatch) -> set[tuple[str, int]]:
    """What this program has been told by the site: (operation, status)."""
    told: set[tuple[str, int]] = set()
    send = urllib3.HTTPConnectionPool.urlopen

    def remember(pool: Any, method: str, url: str, *args: Any, **kwargs: Any) -> Any:
        response = send(pool, method, url, *args, **kwargs)
        meant = [one for verb, route, one in ROUTES if verb == method and route.match(url)]
        told.update((one["operationId"], response.status) for one in meant)
        return response

    monkeypatch.setattr(urllib3.HTTPConnectionPool, "urlopen", remember)
    return told


def test_another_program_drives_every_row_of_the_api(site: Site, answered: set[tuple[str, int]]) -> None:
    """With the client, and by hand where it has no call for a row: each to every success that its document promises."""
    port = site.port
    address = f"http://127.0.0.1:{port}"
    key = make_key("robot")

    by_hand = urllib3.HTTPConnectionPool("127.0.0.1", port, timeout=40)

    def look(path: str, **headers: str) -> tuple[int, bytes]:
        answer = by_hand.urlopen("GET", path, headers=headers, redirect=False)
        return answer.status, answer.data

    with Client(address, key) as client:
        order = client.start("demo.ship", {"order": 1}, key="robot-1")
        assert (
            client.start("demo.ship", idempotency_key="robot-2").id
            == client.start("demo.ship", idempotency_key="robot-2").id
        )
        with pytest.raises(DuplicateKey):
            client.start("demo.ship", key="robot-1")
        with pytest.raises(UnknownWorkflow):
            client.start("demo.shop")
        assert [one.id for one in client.list_instances(key="robot-1", status="")] == [order.id]
        assert client.get(order.id).workflow == "demo.ship"
        with pytest.raises(NotFinished):
            client.wait(order.id, timeout=1)
        first = client.signal(order.id, "note", 1, dedup_key="d")
        assert client.signal("robot-1", "note", 1, dedup_key="d").duplicate
        assert not first.duplicate
        assert look("/v1/keys/robot-1/signals")[0] == 401
        allowed = {"Authorization": f"Bearer {key}", "Content-Type": "application/json"}
        for holder, status in (("robot-1", 202), ("nobody", 404)):
            path = f"/v1/keys/{holder}/signals"
            assert by_hand.urlopen("POST", path, b'{"name": "x"}', allowed, redirect=False).status == status
        told = client.signal_many([("robot-1", "payment_confirmed", {"amount": 5}), ("nobody", "x")])
        assert [one.refused for one in told] == [None, "no_target"]
        assert client.wait(order.id, timeout=60) == {"paid": {"amount": 5}}
        assert next(client.events(order.id)).kind == "started"

        assert client.emit("git.pushed", {"commit": "abc"}).started == 1
        deploy = next(client.list_instances(workflow="demo.deploy"))
        while client.get(deploy.id).status != "awaiting":
            client.get(deploy.id)
        assert client.emit("ci.finished", {"commit": "abc", "green": True}).woke == 1
        assert client.wait(deploy.id, timeout=60) == {"deployed": "abc"}

        asking = client.start("demo.pay_in_a_function", {"amount": 7})
        while not (asked := [one for one in client.interactions(status="pending") if one.instance == asking.id]):
            client.get(asking.id)
        assert client.interaction(asked[0].id).schema
        with pytest.raises(InvalidData):
            client.complete_interaction(asked[0].id, {"payment_id": "p0", "amount": "much"})
        with pytest.raises(StaleVersion):
            client.complete_interaction(asked[0].id, {"payment_id": "p0", "amount": 7}, version=9)
        paid = {"payment_id": "p0", "amount": 7}
        done = client.complete(asked[0].signal_id, paid, idempotency_key="yes")
        assert client.complete(asked[0].signal_id, paid, idempotency_key="yes").replayed
        with pytest.raises(IdempotencyConflict):
            client.complete(asked[0].signal_id, {**paid, "amount": 8}, idempotency_key="yes")
        with pytest.raises(Gone):
            client.complete_interaction(done.id, paid)
        assert client.wait(asking.id, timeout=60) == {"payment_id": "p0"}

        discount = client.start("demo.discount", {"customer": "Robot", "percent": 20})
        while not (asked := [one for one in client.interactions(status="pending") if one.instance == discount.id]):
            client.get(discount.id)
        assert (asked[0].channel, asked[0].group) == ("approval", "Sales leads")
        with pytest.raises(AnsweredElsewhere):
            client.complete_interaction(asked[0].id, {"outcome": "approve"})

        paying = client.start("demo.pay_in_a_function", {"amount": 5})
        while not (asked := [one for one in client.interactions(status="pending") if one.instance == paying.id]):
            client.get(paying.id)
        token = find_link(asked[0].id)
        assert look(f"/resume/{token}")[0] == 405
        assert b"<form" in look(f"/resume/{token}", Accept="text/html")[1]
        assert client.resume(f"{address}/resume/{token}", {"payment_id": "p1", "amount": 5}).instance == paying.id
        assert client.wait(paying.id, timeout=60) == {"payment_id": "p1"}

        buying = client.start("demo.pay_in_a_function", {"amount": 6})
        while not (asked := [one for one in client.interactions(status="pending") if one.instance == buying.id]):
            client.get(buying.id)
        # Nothing of the demo sends its questions; what is looked at is whether the row answers.
        let_send(asked[0].id)
        assert client.redrive(asked[0].id).id == asked[0].id
        assert look(f"/v1/interactions/{asked[0].id}/dispatches", **allowed)[0] == 200
        assert client.complete_interaction(asked[0].id, {"payment_id": "p2", "amount": 6}).instance == buying.id
        assert client.wait(buying.id, timeout=60) == {"payment_id": "p2"}

        last = client.start("demo.pay_in_a_function", {"amount": 8})
        while not (asked := [one for one in client.interactions(status="pending") if one.instance == last.id]):
            client.get(last.id)
        lines = [(asked[0].id, {"payment_id": "p3", "amount": 8}), ("nobody", 1)]
        assert [one.refused for one in client.complete_many(lines)] == [None, "not_found"]
        assert client.wait(last.id, timeout=60) == {"payment_id": "p3"}

        [unit] = client.units(instance=last.id)
        assert client.unit(unit.id).instance == last.id
        for part in ("events", "dispatches"):
            assert look(f"/v1/interactions/{asked[0].id}/{part}", **allowed)[0] == 200

        dead = client.start("demo.pay_in_a_function", {"amount": 9})
        while not (asked := [one for one in client.interactions(status="pending") if one.instance == dead.id]):
            client.get(dead.id)
        assert client.fail(asked[0].id, "no such account").status == "failed"
        with pytest.raises(InstanceFailed, match="no such account"):
            client.wait(dead.id, timeout=60)

        quotes = client.start("demo.quotes", {"part": "belt", "suppliers": ["Nord", "Sud"]})
        while len(asked := [one for one in client.interactions(status="pending") if one.instance == quotes.id]) < 2:
            client.get(quotes.id)
        [unit] = client.units(instance=quotes.id)
        first, second = client.interactions(unit=unit.id)
        assert client.fail(first, "we make no belts").status == "failed"
        assert client.retry_item(first).id == first.id
        while client.interaction(first.id).status != "pending":
            client.get(quotes.id)
        lines = [(first, {"price": 80}), (second, {"price": 90})]
        assert [one.refused for one in client.complete_many(lines)] == [None, None]
        assert client.wait(quotes.id, timeout=60) == {"best": {"supplier": "Nord", "price": 80}, "without": []}

        collecting = client.start("demo.collect", {"amount": 120})
        paid = {"id": "evt_1", "type": "payment_intent.succeeded", "data": {"object": {"id": f"pi_{collecting.id}"}}}
        signed = {"Content-Type": "application/json", **stripe(SECRET).sign(json.dumps(paid).encode())}
        assert by_hand.urlopen("POST", "/hooks/payments", json.dumps(paid).encode(), signed).status == 200
        assert client.wait(collecting.id, timeout=60) == {"intent": f"pi_{collecting.id}", "status": "paid"}

        ignored = client.start("demo.remind", {"times": 1, "every": "1s"})
        with pytest.raises(InstanceFailed, match="nobody reacted"):
            client.wait(ignored.id, timeout=60)
        assert client.retry(ignored.id).id == ignored.id
        with pytest.raises(InstanceFailed, match="nobody reacted"):
            client.wait(ignored.id, timeout=60)

        forked = client.fork(order.id)
        assert client.get(forked.id).id != order.id
        client.cancel(forked.id, "robot")

        def send(method: str, path: str, **body: Any) -> tuple[int, Any]:
            answer = by_hand.urlopen(method, path, json.dumps(body).encode(), allowed)
            return answer.status, json.loads(answer.data or b"null")

        for path in ("/v1/workflows", "/v1/queues", "/v1/queues/default", "/v1/limits"):
            assert look(path, **allowed)[0] == 200
        assert send("PATCH", "/v1/queues/default", limit=500)[1]["limit"] == 500
        assert send("PATCH", "/v1/queues/default", limit=None)[1]["limit"] is None
        for word in ("pause", "unpause"):
            assert send("POST", f"/v1/workflows/demo.remind/{word}")[1]["paused"] is (word == "pause")
        nightly = {"name": "nightly", "workflow": "demo.ship", "cron": "0 3 1 1 *", "tz": "Europe/Berlin"}
        assert send("POST", "/v1/schedules", **nightly)[0] == 201
        for path in ("/v1/schedules", "/v1/schedules/nightly"):
            assert look(path, **allowed)[0] == 200
        assert send("PATCH", "/v1/schedules/nightly", enabled=False)[1]["enabled"] is False
        status, run = send("POST", "/v1/schedules/nightly/run")
        assert status in (200, 201), run
        assert by_hand.urlopen("DELETE", "/v1/schedules/nightly", headers=allowed).status == 204

        gone = client.start("demo.ship")
        assert client.cancel(gone.id, "robot").status == "cancelled"
        with pytest.raises(NotPossible):
            client.retry(gone.id)
        with pytest.raises(InstanceCancelled):
            client.wait(gone.id, timeout=5)

    assert look("/healthz")[0] == look("/readyz?require=cluster")[0] == 200
    assert look("/metrics")[0] == 401
    assert b"holdpoint_deliveries_total" in look("/metrics", **allowed)[1]
    assert b'"openapi": "3.1.0"' in look("/v1/schema")[1]
    assert look("/v1/docs")[0] == 200
    assert {one for one in answered if one[1] < 300} == PROMISED
    with elsewhere(os.environ["DATABASE_URL"]):
        call_command("api_key", "revoke", key[:11], stdout=StringIO())
    until = time.monotonic() + 60
    while look("/v1/instances", **allowed)[0] != 401:
        assert time.monotonic() < until, "a revoked key goes on opening"


def test_a_site_makes_the_tables_that_its_database_lacks(site: Site) -> None:
    with psycopg.connect(os.environ["DATABASE_URL"]) as db:
        assert db.execute("SELECT count(*) FROM django_session").fetchone() == (0,)


def test_requests_that_never_end_leave_threads_for_the_others(site: Site) -> None:
    """More of them than the site has threads: from strangers, with a key, and as a form."""
    key = make_key("slow")
    kinds = [
        ("/resume/x", "Content-Type: application/json"),
        ("/resume/x", "Content-Type: application/x-www-form-urlencoded\r\nAccept: text/html"),
        ("/v1/signals", f"Content-Type: application/json\r\nAuthorization: Bearer {key}"),
        ("/accounts/login/", "Content-Type: application/x-www-form-urlencoded"),
    ]
    by_hand = urllib3.HTTPConnectionPool("127.0.0.1", site.port, retries=False)
    with ExitStack() as half_sent:
        for path, headers in kinds:
            for _ in range(48):
                one = half_sent.enter_context(socket.create_connection(("127.0.0.1", site.port), timeout=10))
                told = f"POST {path} HTTP/1.1\r\nHost: localhost\r\nContent-Length: 200\r\n{headers}\r\n\r\n" + '{"'
                one.sendall(told.encode())
            for _ in range(8):
                assert by_hand.request("GET", "/healthz", timeout=5).status == 200, path
        signal = {"Content-Type": "application/json", "Authorization": f"Bearer {key}"}
        until = time.monotonic() + 60
        while (told := by_hand.request("POST", "/v1/signals", body=b"{}", headers=signal, timeout=5)).status == 400:
            assert time.monotonic() < until
        assert (told.status, told.headers["Retry-After"]) == (503, "5")
    until = time.monotonic() + 20
    while by_hand.request("POST", "/v1/signals", body=b"{}", headers=signal, timeout=5).status != 400:
        assert time.monotonic() < until, "what has ended still takes a place"


def test_waits_and_bodies_together_leave_threads_for_the_others(site: Site) -> None:
    """Either kind alone leaves some; together they had all of them."""
    key = make_key("both")
    by_hand = urllib3.HTTPConnectionPool("127.0.0.1", site.port, retries=False)
    allowed = {"Authorization": f"Bearer {key}"}
    one = json.loads(by_hand.request("GET", "/v1/instances?status=awaiting&limit=1", headers=allowed).data)
    path = f"/v1/instances/{one['results'][0]['id']}?wait=20"
    with ExitStack() as held:
        for _ in range(60):
            waits = held.enter_context(socket.create_connection(("127.0.0.1", site.port), timeout=10))
            waits.sendall(f"GET {path} HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {key}\r\n\r\n".encode())
        for _ in range(40):
            half = held.enter_context(socket.create_connection(("127.0.0.1", site.port), timeout=10))
            kind = "Content-Type: application/x-www-form-urlencoded"
            half.sendall(f"POST /login/ HTTP/1.1\r\nHost: localhost\r\nContent-Length: 99\r\n{kind}\r\n\r\nx".encode())
        for _ in range(8):
            assert by_hand.request("GET", "/healthz", timeout=5).status == 200


def test_a_page_takes_no_upload_of_any_size(site: Site) -> None:
    announced = 60 * 1024 * 1024
    for path in ("/login/", "/admin/login/", "/", "/demo/"):
        with socket.create_connection(("127.0.0.1", site.port), timeout=10) as one:
            kind = "Content-Type: multipart/form-data; boundary=x"
            head = f"POST {path} HTTP/1.1\r\nHost: localhost\r\nContent-Length: {announced}\r\n{kind}\r\n\r\n"
            one.sendall(head.encode() + b"--x\r\n")
            assert one.recv(100).startswith(b"HTTP/1.1 413 "), path


# --- kills, and the end ---------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["qcluster", "granian"])
def test_a_killed_child_takes_its_own_children_with_it_and_is_started_again(site: Site, name: str) -> None:
    main = site.find_main(name)
    family = [main, *main.children(recursive=True)]
    main.kill()
    label = {"qcluster": "queue", "granian": "web"}[name]
    site.wait_for(f"{label} ended (SIGKILL); starting it again")
    assert list_survivors(family) == []
    site.wait_until_ready()


@pytest.mark.parametrize("signum", [signal.SIGINT, signal.SIGTERM])
def test_a_stop_ends_every_process(site: Site, signum: signal.Signals) -> None:
    tree = site.list_tree()
    site.process.send_signal(signum)
    assert site.process.wait(60) == 0
    assert list_survivors(tree) == []


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="only Linux signals the children of a killed process")
def test_a_killed_supervisor_leaves_nothing_behind(site: Site) -> None:
    tree = site.list_tree()
    site.process.kill()
    site.process.wait()
    assert list_survivors(tree) == []


def test_a_taken_port_is_refused_with_the_remedy() -> None:
    port = find_free_port()
    with socket.socket() as other:
        other.bind(("127.0.0.1", port))
        other.listen()
        answer = subprocess.run(
            [sys.executable, "-m", "config.run"],
            env={**os.environ, "PORT": str(port)},
            capture_output=True,
            text=True,
            check=False,
        )
    assert answer.returncode == 1
    assert f"PORT={port + 1} make run" in answer.stderr
