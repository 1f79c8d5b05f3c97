"""The engine under everything at once, on a server of its own: `python -m tests.support.apps.stressed SEED SECONDS`.

Workflows choose at random, clients signal, answer, emit, cancel and retry, workers are killed and stopped, backends
ended, the server restarted. Then everything is let run out, and a checker reads the tables. Exit code 1 tells what is
wrong; the seed repeats the choices, not the moments.
"""

from __future__ import annotations

import contextlib
import os
import random
import signal
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from config.lifeline import tie_to_parent
from config.postgres import Server, temporary_server
from config.postgres.server import launch
from tests.support.prepared_parent import Forked, Parent

WORKERS = 3
DRAIN_SECONDS = 90.0
#: So many faults at the least, and no longer than this whatever the machine.
FAULTS = 8
LONGEST_SECONDS = 90.0


class Workers:
    """So many worker processes, whatever happens to each."""

    def __init__(self, log: Path) -> None:
        self.log = log.open("ab")
        self.parent = Parent({**os.environ}, tie_to_parent(signal.SIGKILL, os.getpid()))
        self.all = [self._start() for _ in range(WORKERS)]

    def _start(self) -> Forked:
        return self.parent.fork(["manage.py", "workflow_worker"], os.environ, str(Path.cwd()), self.log.fileno())

    def replace(self, at: int, signum: int) -> None:
        self.all[at].send_signal(signum)
        self.all[at].wait(30)
        self.all[at] = self._start()

    def stop(self) -> None:
        for one in self.all:
            one.terminate()
        for one in self.all:
            one.wait(30)
        self.log.close()
        self.parent.end()


def keep_what_was_told() -> None:
    """Written, if not synced to the disk, before anybody is told: a server that is restarted forgets nothing."""
    from django.db import connection

    with connection.cursor() as cursor:
        name = connection.ops.quote_name(connection.settings_dict["NAME"])
        cursor.execute(f"ALTER DATABASE {name} SET synchronous_commit = on")
    connection.close()


def restart(server: Server, signum: int) -> None:
    """The server goes down, fast or at once, and comes up again."""
    assert server.process is not None
    server.process.send_signal(signum)
    server.process.wait(30)
    server.process = launch(server.home, durable=False, detached=False, deadline=time.monotonic() + 60)


def main(seed: int, seconds: float) -> int:
    with temporary_server() as server, tempfile.TemporaryDirectory() as folder:
        os.environ |= {
            "DATABASE_URL": server.url,
            "DJANGO_SETTINGS_MODULE": "tests.support.apps.stressed.settings",
            "SECRET_KEY": "stress-" * 8,
            "DEBUG": "1",
            "BASE_URL": "https://stress.example",
        }
        import django

        django.setup()
        from django.core.management import call_command

        if source := os.environ.get("STRESS_SOURCE"):
            from tests.support.other_server import fill

            fill(server.url, source)
        else:
            call_command("migrate", verbosity=0)
        keep_what_was_told()
        log = Path(folder) / "workers.log"
        workers = Workers(log)
        try:
            clients = stress(seed, seconds, server, workers)
            wrong = drain()
        finally:
            workers.stop()
        wrong += check() + [one for client in clients for one in client.find_lost()]
        for one in wrong:
            print(f"seed {seed}: {one}")
        if wrong:
            print(log.read_text(errors="replace")[-20_000:])
        return bool(wrong)


def stress(seed: int, seconds: float, server: Server, workers: Workers) -> list[Client]:
    ended = threading.Event()
    rng = random.Random(seed)
    errors: list[BaseException] = []

    def loop(act: Callable[[random.Random], None], own: random.Random, pause: float) -> None:
        from django.db import DatabaseError, InterfaceError, close_old_connections, connection

        from workflows.exceptions import WorkflowError

        try:
            while not ended.wait(own.uniform(0, pause)):
                try:
                    close_old_connections()
                    act(own)
                except WorkflowError:
                    pass
                except (DatabaseError, InterfaceError):
                    connection.close()
        except BaseException as error:
            errors.append(error)
            raise
        finally:
            connection.close()

    def break_something(own: random.Random) -> None:
        match own.choice(["kill", "kill", "term", "backends", "backends", "backends", "fast", "immediate"]):
            case "kill":
                workers.replace(own.randrange(WORKERS), signal.SIGKILL)
            case "term":
                workers.replace(own.randrange(WORKERS), signal.SIGTERM)
            case "backends":
                end_backends(own)
            case "fast":
                restart(server, signal.SIGINT)
            case "immediate":
                restart(server, signal.SIGQUIT)

    clients = [Client(seed, at) for at in range(3)]
    threads = [threading.Thread(target=loop, args=(one.act, one.rng, 0.02), daemon=True) for one in clients]
    for one in threads:
        one.start()
    # Here and in no thread: what is started is tied to the thread that starts it.
    wait_for_work(errors)
    began, broken = time.monotonic(), 0
    # On a slow machine a worker takes longer to start than it would be left alone: each fault shall meet work.
    while (spent := time.monotonic() - began) < LONGEST_SECONDS and not errors:
        if spent > seconds and broken >= FAULTS and all(one.answered for one in clients):
            break
        time.sleep(rng.uniform(0, 2.0))
        break_something(rng)
        broken += 1
        wait_for_work(errors)
    print(f"{broken} faults in {time.monotonic() - began:.0f} s")
    ended.set()
    for one in threads:
        one.join(60)
    if errors:
        raise errors[0]
    return clients


def wait_for_work(errors: list[BaseException]) -> None:
    """Until workers have claimed something more."""

    def count_claims() -> int:
        return int(ask("SELECT coalesce(sum(fence), 0) FROM holdpoint_instance")[0][0])

    from django.db import connection

    connection.close()  # its server may be another one by now
    before, until = count_claims(), time.monotonic() + 20
    while count_claims() < before + 20 and time.monotonic() < until and not errors:
        time.sleep(0.1)


def end_backends(own: random.Random) -> None:
    from django.db import connection

    connection.close()
    with connection.cursor() as cursor:
        cursor.execute("SELECT pid FROM pg_stat_activity WHERE backend_type = 'client backend' ORDER BY pid")
        pids = [pid for (pid,) in cursor.fetchall() if pid != connection.connection.info.backend_pid]
        cursor.execute("SELECT pg_terminate_backend(pid) FROM unnest(%s) pid", [own.sample(pids, len(pids) // 2)])


class Client:
    """Somebody who starts, signals, answers, emits, cancels and retries."""

    def __init__(self, seed: int, at: int) -> None:
        self.seed, self.number = seed, at * 1_000_000
        self.rng = random.Random(f"{seed}:client:{at}")
        #: What the engine has acknowledged: ids of instances, of signals and of questions; events by their number.
        self.started: list[Any] = []
        self.sent: list[str] = []
        self.answered: list[Any] = []
        self.emitted: list[int] = []

    def find_lost(self) -> list[str]:
        """What was acknowledged and is not there."""
        seen = {
            "started": (self.started, "SELECT id FROM holdpoint_instance"),
            "sent": (self.sent, "SELECT instance_id || ':' || n FROM holdpoint_signal"),
            "answered": (self.answered, "SELECT id FROM holdpoint_interaction WHERE status = 2"),
            "emitted": (self.emitted, "SELECT (data->>'n')::numeric FROM holdpoint_event WHERE data ? 'n'"),
        }
        lost = {what: set(told) - {row[0] for row in ask(query)} for what, (told, query) in seen.items()}
        print("acknowledged:", {what: len(told) for what, (told, _) in seen.items()})
        return [f"{len(ids)} x lost though it was acknowledged, {what}: {ids}" for what, ids in lost.items() if ids]

    def act(self, rng: random.Random) -> None:
        from django.db import transaction

        import workflows
        from tests.support.apps.stressed.workflows import EVENTS, StressMachine, StressSteps, function
        from workflows.models import Instance, Interaction

        def pick(rows: Any) -> Any:
            found = list(rows.order_by("-id")[:40])
            return rng.choice(found) if found else None

        live = Instance.objects.filter(finished_at=None)
        self.number += 1
        match rng.choice(
            ["start"] * 4 + ["signal"] * 4 + ["answer"] * 4 + ["emit"] * 2 + ["cancel", "retry", "undone"]
        ):
            case "start":
                input = {"seed": self.seed, "n": self.number, "depth": 0, "steps": rng.randint(2, 5)}
                key = f"key-{self.number}" if rng.random() < 0.5 else None
                for _ in range(rng.randint(1, 5)):
                    workflow = rng.choice([StressSteps, StressSteps, function, StressMachine])
                    started = workflows.start(workflow, {} if workflow is StressMachine else input, key=key)
                    self.started.append(started.pk)
                    key = None
            case "signal":
                if one := pick(live.filter(workflow="stress.steps")):
                    told = workflows.signal(one, rng.choice("ab"), {"x": 1}, dedup_key=rng.choice([None, "d1", "d2"]))
                    self.sent.append(str(told.id))
            case "answer":
                if one := pick(Interaction.objects.filter(status="pending")):
                    workflows.complete(one, {"ok": True})
                    self.answered.append(one.pk)
            case "emit":
                workflows.emit(rng.choice(EVENTS), {"n": self.number})
                self.emitted.append(self.number)
            case "cancel":
                if rng.random() < 0.2 and (one := pick(live)):
                    workflows.cancel(one, "stress")
            case "retry":
                if one := pick(Instance.objects.filter(status="failed")):
                    workflows.retry(one)
            case "undone":
                with contextlib.suppress(ZeroDivisionError), transaction.atomic():
                    if one := pick(live.filter(workflow="stress.steps")):
                        workflows.signal(one, "a", {"x": 2})
                    workflows.emit(rng.choice(EVENTS), {})
                    time.sleep(rng.uniform(0, 0.3))
                    raise ZeroDivisionError


#: Nothing that runs, may run or should have been woken.
BUSY = """SELECT count(*) FROM holdpoint_instance WHERE status IN (1, 2)
    OR status IN (3, 4, 5) AND due_at < clock_timestamp() + interval '10 minutes'"""


def drain() -> list[str]:
    """Wait until only what waits for an hour is left."""
    from django.db import connection

    connection.close()  # the one from before all that
    until = time.monotonic() + DRAIN_SECONDS
    while busy := ask(BUSY)[0][0]:
        if time.monotonic() > until:
            rows = ask(
                "SELECT id, workflow, step, status, runs, solo, due_at, names, error FROM holdpoint_instance "
                "WHERE status IN (1, 2) OR status IN (3, 4, 5) AND due_at < clock_timestamp() + interval '10 minutes' "
                "LIMIT 5"
            )
            return [f"{busy} instances still have something to do, among them {rows}"]
        time.sleep(0.2)
    return []


def ask(query: str) -> list[Any]:
    from django.db import connection

    with connection.cursor() as cursor:
        cursor.execute(query)
        return list(cursor.fetchall())


UNIT, WAIT = "'holdpoint:unit:' ||", "'holdpoint:event:' ||"
#: What must not be, each as a statement that finds it.
WRONG = {
    "failed, and was not told to": """SELECT id, workflow, step, error FROM holdpoint_instance
        WHERE status = 11 AND error NOT LIKE '%told to fail%'""",
    "counts another inbox than it has": """SELECT i.id, i.inbox FROM holdpoint_instance i WHERE i.inbox <>
        (SELECT count(*) FROM holdpoint_signal s WHERE s.instance_id = i.id AND s.consumed_at IS NULL)""",
    "waits for a question that is not open, or until another moment": f"""SELECT i.id FROM holdpoint_instance i
        WHERE i.status = 3 AND i.names[1] LIKE 'holdpoint:unit:%' AND NOT EXISTS (
          SELECT 1 FROM holdpoint_unit n JOIN holdpoint_interaction x ON x.unit_id = n.id
          WHERE i.names[1] = {UNIT} n.id AND n.closed_at IS NULL AND x.status = 1
            AND x.deadline IS NOT DISTINCT FROM i.due_at)""",
    "waits for an event without a wait": f"""SELECT i.id FROM holdpoint_instance i
        WHERE i.status = 3 AND i.names[1] LIKE 'holdpoint:event:%' AND NOT EXISTS (
          SELECT 1 FROM holdpoint_event_wait w WHERE i.names[1] = {WAIT} w.id AND w.closed_at IS NULL)""",
    "a question of nobody": """SELECT x.id FROM holdpoint_interaction x LEFT JOIN holdpoint_instance i
        ON i.id = x.instance_id WHERE x.status = 1 AND (i.id IS NULL OR i.status >= 10)""",
    "a wait of nobody": f"""SELECT w.id FROM holdpoint_event_wait w LEFT JOIN holdpoint_instance i
        ON i.id = w.instance_id WHERE w.closed_at IS NULL
        AND (i.id IS NULL OR i.status <> 3 OR i.names[1] <> {WAIT} w.id)""",
    "an answer that is not one signal": f"""SELECT x.id FROM holdpoint_interaction x WHERE x.status = 2 AND 1 <>
        (SELECT count(*) FROM holdpoint_signal s WHERE s.instance_id = x.instance_id AND s.name = {UNIT} x.unit_id)""",
    "counts other children than live": """SELECT i.id, i.pending FROM holdpoint_instance i WHERE i.status = 5
        AND i.pending <> (SELECT count(*) FROM holdpoint_instance c
          WHERE c.parent_id = i.id AND c.spawn_no = i.spawns AND c.status < 10)""",
    "lives below a cancelled parent": """SELECT c.id FROM holdpoint_instance c JOIN holdpoint_instance p
        ON p.id = c.parent_id WHERE p.status = 12 AND c.status < 10""",
    "a key held twice": """SELECT key FROM holdpoint_instance WHERE status < 10 AND key IS NOT NULL
        GROUP BY workspace_id, key HAVING count(*) > 1""",
}


def check() -> list[str]:
    """What is wrong in the tables."""
    wrong = [f"{len(rows)} x {what}: {rows[:3]}" for what, query in WRONG.items() if (rows := ask(query))]
    from django.db import connection

    from tests.support.folds import check_all_folds
    from workflows import ledger
    from workflows.models import Workspace

    counts = ask("SELECT workflow, status, count(*) FROM holdpoint_instance GROUP BY 1, 2 ORDER BY 1, 2")
    print("instances by workflow and status:", counts)
    if sum(row[2] for row in counts) < 50:
        wrong.append("next to nothing was run")
    try:
        check_all_folds()
    except AssertionError as error:
        wrong.append(str(error))
    while ledger.seal_ledger(connection):
        pass
    for workspace in Workspace.objects.all():
        wrong += [str(one) for one in _verify(connection, workspace)]
    return wrong


def _verify(db: Any, workspace: Any) -> Iterator[Any]:
    from workflows import ledger

    return ledger.verify_workspace(db, workspace.slug, workspace.pk)


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]), float(sys.argv[2])))
