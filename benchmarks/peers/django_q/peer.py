"""django-q2's side of the benchmark, with its ORM broker and its defaults; in the environment of the benchmark itself.

client     one process that calls `async_task` in a loop, as a web process would
manage     a command of Django with these settings: `python peer.py manage URL qcluster`

Only stdout speaks to the benchmark: one line of JSON for each line of JSON that came.
"""

from __future__ import annotations

import json
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

ROOT = str(Path(__file__).resolve().parents[3])
INPUT = {"order": 1234567, "customer": "c-0042", "note": "x" * 88}


def call(order: dict[str, Any]) -> None:
    """Do nothing: what is measured is the queue."""


def start_django(url: str) -> None:
    """Settings with the queue in them, and nothing else."""
    sys.path.insert(0, ROOT)  # where the cluster finds `call`
    import django
    from django.conf import settings

    from config.environment import parse_database_url

    settings.configure(
        SECRET_KEY="benchmark",
        USE_TZ=True,
        INSTALLED_APPS=["django_q"],
        DATABASES={"default": parse_database_url(url) | {"ENGINE": "django.db.backends.postgresql"}},
        DEFAULT_AUTO_FIELD="django.db.models.BigAutoField",
        Q_CLUSTER={"name": "bench", "orm": "default", "timeout": 60, "retry": 120, "save_limit": 0},
        LOGGING={"version": 1, "root": {"level": "ERROR"}},
    )
    django.setup()


def main(role: str, url: str, *arguments: str) -> None:
    start_django(url)
    if role == "manage":
        from django.core.management import execute_from_command_line

        execute_from_command_line(["manage.py", *arguments])
        return
    from django_q.tasks import async_task

    def enqueue(count: int) -> None:
        for _ in range(count):
            async_task("benchmarks.peers.django_q.peer.call", INPUT)

    print(json.dumps("ready"), flush=True)
    with ThreadPoolExecutor(max_workers=64) as pool:
        for line in sys.stdin:
            command = json.loads(line)
            each, more = divmod(command["count"], threads := command["threads"])
            list(pool.map(enqueue, [each + (n < more) for n in range(threads)]))
            print(json.dumps("done"), flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
