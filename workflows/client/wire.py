"""What is sent and what comes back, as text: ids, addresses, bodies and their reading. No connection is made here.

Invariants owned: whatever a caller names becomes exactly one segment of an address; and an address that the server
names is only looked into, for a cursor, and only if it is of the host that we talk to.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from datetime import date
from decimal import Decimal
from typing import Any
from urllib.parse import parse_qs, quote, urlsplit
from uuid import UUID

from workflows.client.errors import read_problem, refuse_answer
from workflows.client.transport import Reply
from workflows.client.values import Answered, Completion, Delivery, Instance, Interaction, Unit, Value, read_value

# --- what is sent -----------------------------------------------------------------------------------------


def write_json(value: Any) -> bytes:
    """A body. Ids, times and decimals are written as text.

    >>> write_json({"id": UUID(int=0)})
    b'{"id":"00000000-0000-0000-0000-000000000000"}'
    """
    text = json.dumps(value, default=_write_other, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    return text.encode()


def write_id(value: Instance | Interaction | Unit | UUID | str) -> str:
    """An id, for an address or a body; `ValueError` if it is none.

    >>> write_id("00000000-0000-0000-0000-00000000000A")
    '00000000-0000-0000-0000-00000000000a'
    """
    if isinstance(value, Instance | Interaction | Unit):
        value = value.id
    try:
        return str(value if isinstance(value, UUID) else UUID(value))
    except (ValueError, TypeError, AttributeError):
        raise ValueError(
            f"{value!r:.80} is no id: pass an object with one, a UUID, or its text (list_instances finds it by key)"
        ) from None


def write_segment(text: str) -> str:
    """Any text as one segment of an address; `ValueError` for those that an address cannot hold.

    >>> write_segment("a/b?c")
    'a%2Fb%3Fc'
    """
    if text in ("", ".", ".."):
        raise ValueError(f"{text!r} cannot be part of an address")
    return quote(text, safe="")


def write_line(line: Sequence[Any]) -> dict[str, Any]:
    """`(target, name[, payload[, dedup_key]])` as the API takes it.

    >>> write_line(("order-7", "paid", {"amount": 120}))
    {'key': 'order-7', 'name': 'paid', 'payload': {'amount': 120}}
    """
    if isinstance(line, str) or not 2 <= len(line) <= 4:
        raise ValueError(f"{line!r:.80} is no line: write (target, name[, payload[, dedup_key]])")
    target, name, payload, dedup_key = (*line, None, None)[:4]
    to = {"key": target} if isinstance(target, str) else {"instance": write_id(target)}
    return to | {"name": name, "payload": payload} | leave_out(dedup_key=dedup_key)


def write_answer(line: Sequence[Any]) -> dict[str, Any]:
    """`(target, data[, idempotency_key[, version]])` as the API takes it; a text is a signal id.

    >>> write_answer(("approval-7", {"approved": True}, "line-1"))
    {'signal_id': 'approval-7', 'data': {'approved': True}, 'idempotency_key': 'line-1'}
    """
    if isinstance(line, str) or not 2 <= len(line) <= 4:
        raise ValueError(f"{line!r:.80} is no line: write (target, data[, idempotency_key[, version]])")
    target, data, once, version = (*line, None, None)[:4]
    to = {"signal_id": target} if isinstance(target, str) else {"id": write_id(target)}
    return to | {"data": data} | leave_out(version=version, idempotency_key=once)


def leave_out(**members: Any) -> dict[str, Any]:
    """Those that are given.

    >>> leave_out(key="order-7", input=None)
    {'key': 'order-7'}
    """
    return {name: value for name, value in members.items() if value is not None}


def check_header(text: Any, what: str) -> str:
    """Text that a header can carry; the error does not show it."""
    if not isinstance(text, str) or not text or not text.isascii() or not text.isprintable() or " " in text:
        raise ValueError(f"{what} must be of visible ASCII characters; is there a space or a line break at its end?")
    return text


def read_token(text: str, host: str) -> str:
    """The token of a callback, also out of its address, which must be of this host. The error does not show it.

    >>> read_token("https://holdpoint.example/resume/abc", "holdpoint.example")
    'abc'
    """
    if "/" not in text:
        return text
    url = urlsplit(text)
    if url.hostname is not None and url.hostname != host.strip("[]"):
        raise ValueError(
            f"this address is of {url.hostname}, and base_url of {host}; if both are one site, pass the token alone"
        )
    _, found, token = url.path.rstrip("/").rpartition("/resume/")
    if not found or "/" in token:
        raise ValueError("this is not the address of a callback: it ends with /resume/ and a token")
    return token


def _write_other(value: Any) -> str:
    if isinstance(value, date):  # and datetime
        return value.isoformat()
    if isinstance(value, UUID | Decimal):
        return str(value)
    raise TypeError(f"{value!r:.80} is no JSON value")


# --- what comes back --------------------------------------------------------------------------------------


def read_as(kind: type[Value], reply: Reply) -> Value:
    """The one value that an answer tells."""
    return _read_row(kind, reply.body, reply)


def read_completion(reply: Reply) -> Completion:
    """The same, with what only a header says."""
    told = dict(reply.body) if isinstance(reply.body, Mapping) else {}
    return _read_row(Completion, told | {"replayed": reply.replayed}, reply)


def read_page(kind: type[Value], reply: Reply, host: str) -> tuple[list[Value], str | None]:
    """The rows of a page, and the cursor of the next one."""
    rows = _read_results(reply)
    return [_read_row(kind, row, reply) for row in rows], _read_cursor(reply, host)


def read_deliveries(reply: Reply, count: int) -> list[Delivery]:
    """What became of each signal of many."""
    rows = _read_results(reply)
    if len(rows) != count:
        raise refuse_answer(reply.status, f"it has {len(rows)} results for {count} signals")
    return [_read_delivery(row, reply) for row in rows]


def read_answers(reply: Reply, count: int) -> list[Answered]:
    """What became of each answer of many."""
    rows = _read_results(reply)
    if len(rows) != count:
        raise refuse_answer(reply.status, f"it has {len(rows)} results for {count} answers")
    return [_read_answered(row, reply) for row in rows]


def _read_answered(row: Any, reply: Reply) -> Answered:
    status = _read_status(row, reply)
    if status < 400:
        return _read_row(Answered, row, reply)
    problem = read_problem(status, row)
    why = problem.type.rpartition(":")[2].replace("-", "_")
    return Answered(status=status, refused=why, detail=problem.detail, errors=problem.errors or None)


def _read_status(row: Any, reply: Reply) -> int:
    status = row.get("status") if isinstance(row, Mapping) else None
    if not isinstance(status, int):
        raise refuse_answer(reply.status, "a result has no status")
    return status


def _read_delivery(row: Any, reply: Reply) -> Delivery:
    status = _read_status(row, reply)
    if status < 400:
        return _read_row(Delivery, row, reply)
    problem = read_problem(status, row)
    why = "no_target" if status == 404 else problem.type.rpartition(":")[2].replace("-", "_")
    return Delivery(None, refused=why, detail=problem.detail)


def _read_results(reply: Reply) -> list[Any]:
    rows = reply.body.get("results") if isinstance(reply.body, Mapping) else None
    if not isinstance(rows, list):
        raise refuse_answer(reply.status, "it has no results")
    return rows


def _read_cursor(reply: Reply, host: str) -> str | None:
    following = reply.body.get("next")
    if following is None:
        return None
    try:
        url = urlsplit(following)
        cursors = parse_qs(url.query).get("cursor", [])
    except (ValueError, TypeError, AttributeError):
        raise refuse_answer(reply.status, "its next page has no address") from None
    if url.hostname is not None and url.hostname != host.strip("[]"):
        raise refuse_answer(reply.status, f"its next page is at {url.hostname}; have the proxy pass on the Host header")
    if len(cursors) != 1:
        raise refuse_answer(reply.status, "its next page has no cursor")
    return str(cursors[0])


def _read_row(kind: type[Value], row: Any, reply: Reply) -> Value:
    try:
        return read_value(kind, row)
    except ValueError as error:
        raise refuse_answer(reply.status, str(error)) from None
