"""What is written to a topic, and what is read from one: both envelopes, by their published schemas.

Invariant owned: whatever bytes come, they are either an answer or `Malformed` with the place of the mistake; members
that are not known are left alone, so that both sides may add some.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any, Literal
from uuid import UUID

from workflows.channels.outgoing import Outgoing
from workflows.conf import conf
from workflows.exceptions import WorkflowError, show
from workflows.values.json_reader import UnreadableJson, parse_json
from workflows.values.json_text import MISSING, dump_value

REQUEST = "holdpoint.request"
RESPONSE = "holdpoint.response"
VERSION = 1
MOST_ERROR = 2000

_UUID = re.compile(r"[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}")


class Malformed(WorkflowError):
    """A record that is no answer, by its envelope."""


@dataclass(frozen=True, slots=True)
class Response:
    """An answer as it was written to a topic."""

    workspace: str
    interaction: UUID
    #: `MISSING` where there is an error instead.
    data: Any
    error: str | None
    correlation_id: str | None


@cache
def read_schema(name: Literal["request", "response"]) -> Mapping[str, Any]:
    """The JSON Schema of an envelope.

    >>> read_schema("response")["$id"]
    'urn:holdpoint:kafka:response:1'
    """
    found: Mapping[str, Any] = json.loads(files(__package__).joinpath("schemas", f"{name}.json").read_text("utf-8"))
    return found


def write_request(question: Outgoing, answers: str) -> bytes:
    """The envelope of a question, whose answer is taken from the topic `answers`."""
    envelope = {"type": REQUEST, "version": VERSION, "id": question.key, **question.write_envelope()}
    return dump_value({**envelope, "answers": answers}, "a request", conf.max_bulk_body).encode()


def write_headers(question: Outgoing) -> list[tuple[str, str | bytes | None]]:
    """What can be read of a question without its value."""
    headers = {
        "content-type": "application/json",
        "holdpoint-type": f"{REQUEST}/{VERSION}",
        "holdpoint-id": question.key,
        "traceparent": question.traceparent,
        **question.config.get("headers", {}),
    }
    return [(name, value.encode()) for name, value in headers.items() if value is not None]


def read_response(raw: bytes | None) -> Response:
    """An answer of the bytes of a record; `Malformed` says what is wrong with them."""
    if raw is None:
        raise Malformed("the record has no value")
    if len(raw) > (most := conf.max_bulk_body):
        raise Malformed(f"the record has {len(raw)} bytes, the limit is {most}; send a reference instead")
    try:
        envelope = parse_json(raw)
    except UnreadableJson as unreadable:
        raise Malformed(str(unreadable)) from unreadable
    if not isinstance(envelope, dict):
        raise Malformed(f"at $: an answer is a JSON object, not {show(envelope)}")
    if envelope.get("type") != RESPONSE:
        raise Malformed(f"at $.type: it must be {RESPONSE!r}, not {show(envelope.get('type'))}")
    version = envelope.get("version")
    if isinstance(version, bool) or version != VERSION:
        raise Malformed(f"at $.version: it must be {VERSION}, not {show(version)}")
    if ("data" in envelope) == ("error" in envelope):
        raise Malformed("at $: an answer has either data or an error")
    interaction = _read_text(envelope, "interaction")
    if not _UUID.fullmatch(interaction):
        raise Malformed(f"at $.interaction: {show(interaction)} is no UUID")
    for name in ("correlation_id", "traceparent"):
        if not isinstance(envelope.get(name, ""), str):
            raise Malformed(f"at $.{name}: it must be a text, not {show(envelope[name])}")
    error = _read_text(envelope, "error") if "error" in envelope else None
    if error is not None and len(error) > MOST_ERROR:
        raise Malformed(f"at $.error: it has {len(error)} characters, the limit is {MOST_ERROR}")
    return Response(
        _read_text(envelope, "workspace"),
        UUID(interaction),
        envelope.get("data", MISSING),
        error,
        envelope.get("correlation_id"),
    )


def _read_text(envelope: Mapping[str, Any], name: str) -> str:
    value = envelope.get(name)
    if not isinstance(value, str) or not value:
        raise Malformed(f"at $.{name}: it must be a text that is not empty, not {show(value)}")
    return value
