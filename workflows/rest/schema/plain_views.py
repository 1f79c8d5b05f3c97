"""What the OpenAPI document says of the addresses that are plain views: resume links, hooks, probes, metrics."""

from __future__ import annotations

from typing import Any

from workflows.api.idempotency import LONGEST_KEY
from workflows.rest.protocol.bodies import SEEN
from workflows.rest.protocol.problems import CONTENT_TYPE

_PROBLEM = {CONTENT_TYPE: {"schema": {"$ref": "#/components/schemas/ProblemOut"}}}
_LATER = {
    "description": "Seconds to wait before the next call.",
    "required": True,
    "schema": {"type": "integer", "minimum": 1},
}
#: Prometheus' own text, and what it asks for since.
_METRICS = ("text/plain", "application/openmetrics-text")
_HEADERS = {
    "401": {
        "WWW-Authenticate": {
            "description": "What is missing: a key (`Bearer`), or the signature of a provider (`Signature`).",
            "required": True,
            "schema": {"type": "string"},
        }
    },
    "429": {"Retry-After": _LATER},
    "503": {"Retry-After": _LATER},
}


def _answers(good: dict[str, Any], *, headers: bool = True, **problems: str) -> dict[str, Any]:
    told = good.copy()
    for name, text in problems.items():
        status = name.removeprefix("s")
        told[status] = {"description": text, "content": _PROBLEM}
        if headers and status in _HEADERS:
            told[status]["headers"] = _HEADERS[status]
    return told


def _probe(name: str, summary: str, description: str, **problems: str) -> dict[str, Any]:
    answer = {"description": "Yes.", "content": {"application/json": {"schema": {"type": "object"}}}}
    return {
        "operationId": name,
        "tags": ["Operating"],
        "summary": summary,
        "description": description,
        "security": [],
        "responses": _answers({"200": answer}, headers=False, **problems),
    }


PATHS: dict[str, Any] = {
    "/resume/{token}": {
        "post": {
            "operationId": "resume",
            "tags": ["Interactions"],
            "summary": "Answer a callback by its link",
            "description": "Whoever holds the link of a callback answers it: no key is needed. "
            "The body is what `callback(…, body=…)` says; unless it says something else, the answer itself, as JSON or "
            'as a form, or `{"data": …}`. '
            "A browser that opens the link gets a page with a form; nothing but POST decides.",
            "security": [],
            "parameters": [
                {
                    "name": "token",
                    "in": "path",
                    "required": True,
                    "schema": {"type": "string", "minLength": 1},
                    "description": "From `resume_url`.",
                },
                {
                    "name": "Idempotency-Key",
                    "in": "header",
                    "schema": {"type": "string", "minLength": 1, "maxLength": LONGEST_KEY, "pattern": SEEN},
                    "description": "Names this call: sent again with the same body it is told the same answer.",
                },
            ],
            "requestBody": {
                "required": True,
                "content": {
                    "application/json": {
                        "schema": {
                            "description": "The answer: wrapped, or whatever a partner posts by itself.",
                            "anyOf": [
                                {
                                    "title": "Wrapped",
                                    "type": "object",
                                    "properties": {
                                        "data": {"description": "The answer. null is one."},
                                        "version": {
                                            "type": ["integer", "null"],
                                            "description": "The version that was shown: another one is 409.",
                                        },
                                    },
                                    "required": ["data"],
                                    "additionalProperties": False,
                                },
                                {
                                    "title": "A partner's own object",
                                    "type": "object",
                                    "not": {"required": ["data"], "propertyNames": {"enum": ["data", "version"]}},
                                },
                                {
                                    "title": "A partner's own value",
                                    "type": ["array", "string", "number", "boolean", "null"],
                                },
                            ],
                            "examples": [{"data": {"payment_id": "pay_1"}}, {"payment_id": "pay_1"}],
                        }
                    }
                },
            },
            "responses": _answers(
                {
                    "200": {
                        "description": "Taken, or taken before with the same idempotency key.",
                        "headers": {
                            "Idempotency-Replayed": {
                                "description": "Only with an answer that is told again.",
                                "schema": {"type": "string", "const": "true"},
                            }
                        },
                        "content": {"application/json": {"schema": {"$ref": "#/components/schemas/CompletionOut"}}},
                    }
                },
                s400="The body cannot be read.",
                s403="The project's policy refuses.",
                s404="The link is none, or what it asked was cancelled.",
                s409="Answered through another channel, or the idempotency key came with other data.",
                s410="Answered already, or past its deadline.",
                s413="The body is too large.",
                s415="The body is neither `application/json` nor a form.",
                s422="The data does not fit what was asked; `errors` says where.",
                s500="Something failed here.",
                s503="The database cannot be used at the moment.",
            ),
        }
    },
    "/hooks/{name}": {
        "post": {
            "operationId": "postHook",
            "tags": ["Signals"],
            "summary": "A provider's own webhook",
            "description": "A provider posts its own shape here, signed as it signs everything: no key is needed. "
            "What it means is said by the function of the hook. A message that comes again is told the first answer, "
            "and one that was not taken may be sent again: nothing happens twice.",
            "security": [],
            "parameters": [
                {
                    "name": "name",
                    "in": "path",
                    "required": True,
                    "schema": {"type": "string", "minLength": 1, "pattern": "^[^/]+$"},
                    "description": "The hook, as this site calls it.",
                },
            ],
            "requestBody": {
                "required": True,
                "content": {"*/*": {"schema": {"description": "Whatever the provider sends; these bytes are signed."}}},
            },
            "responses": _answers(
                {
                    "200": {
                        "description": "Taken, or taken before.",
                        "headers": {
                            "Idempotency-Replayed": {
                                "description": "Only with an answer that is told again.",
                                "schema": {"type": "string", "const": "true"},
                            }
                        },
                        "content": {
                            "application/json": {
                                "schema": {"description": "What the function of the hook returned."},
                                "examples": {"nothing was returned": {"value": {"received": True}}},
                            }
                        },
                    }
                },
                s400="The body cannot be read, not all of it came, or it names no id.",
                s401="It is not signed by the provider; nothing was stored.",
                s404="There is no such hook.",
                s409="What it is about cannot take it now; nothing was stored.",
                s413="The body is too large.",
                s415="The body is compressed.",
                s429="Too many messages: `Retry-After` says when to come back.",
                s500="The function of the hook failed; nothing was stored.",
                s503="The database cannot be used, or the hook has no secret: `Retry-After`.",
            ),
        }
    },
    "/healthz": {"get": _probe("healthz", "Is this process alive?", "Touches nothing but the process.")},
    "/readyz": {
        "get": _probe(
            "readyz",
            "Can this site serve?",
            "Asks the database and looks for unapplied migrations; the body tells the cluster's state, which fails the "
            "probe only with `?require=cluster`.",
            s400="`require` is none that is known.",
            s503="It cannot; the body says why.",
        )
        | {
            "parameters": [
                {"name": "require", "in": "query", "schema": {"type": "string", "enum": ["", "cluster"]}},
            ]
        }
    },
    "/metrics": {
        "get": {
            "operationId": "metrics",
            "tags": ["Operating"],
            "summary": "Metrics for Prometheus",
            "description": "Of the key's workspace; of the whole site without a key, where METRICS_PUBLIC allows it.",
            "security": [{"key": []}, {}],
            "x-scope": "read",
            "responses": _answers(
                {
                    "200": {
                        "description": "The metrics.",
                        "content": {kind: {"schema": {"type": "string"}} for kind in _METRICS},
                    }
                },
                s401="A key is needed.",
                s403="The key lacks the scope `read`.",
                s503="The database cannot be used at the moment.",
            ),
        }
    },
}
