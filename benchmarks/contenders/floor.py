"""The limit over HTTP: a WSGI application that reads JSON, executes one of raw's statements and answers.

No key, no routing, no check, no framework. Runs in the web server's processes, on the database of RAW_URL.
"""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Callable, Iterable
from typing import Any

import psycopg

from benchmarks.contenders.raw import DELIVER, DELIVER_MANY

_local = threading.local()


def application(environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
    """POST one `{"id", "payload"}`, or a list of them."""
    raw = environ["wsgi.input"].read(int(environ.get("CONTENT_LENGTH") or 0))
    answer = json.dumps(deliver(json.loads(raw)) if raw else None).encode()
    start_response("200 OK", [("Content-Type", "application/json"), ("Content-Length", str(len(answer)))])
    return [answer]


def deliver(body: Any) -> Any:
    cursor = find_connection().cursor()
    if isinstance(body, list):
        ids, payloads = [one["id"] for one in body], [json.dumps(one["payload"]) for one in body]
        cursor.execute(DELIVER_MANY, {"ids": ids, "payloads": payloads})
        return {"results": [{"status": 202, "id": id} for id in ids]}
    cursor.execute(DELIVER, {"id": body["id"], "payload": json.dumps(body["payload"])})
    return {"status": cursor.fetchall()[0][0]}


def find_connection() -> psycopg.Connection[Any]:
    """One per thread, which stays open."""
    if not hasattr(_local, "db"):
        _local.db = psycopg.connect(os.environ["RAW_URL"], autocommit=True, prepare_threshold=0)
    db: psycopg.Connection[Any] = _local.db
    return db
