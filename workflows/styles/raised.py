"""An exception that a function caught, kept as JSON and raised again in its later runs.

Invariant owned: what is raised again is of the same class with the same message, or says plainly why it
cannot be. Nothing but text and plain values is stored, and nothing is executed to bring it back.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

from workflows.exceptions import CallRaised, InvalidCall
from workflows.jsontext import dump_value
from workflows.styles.steps import describe_error


def describe_raised(error: Exception) -> str:
    """The exception as JSON text: its class, what it carries as far as that is plain, its words."""
    cls = type(error)
    told: dict[str, Any] = {"type": f"{cls.__module__}:{cls.__qualname__}", "text": describe_error(error)}
    if _is_plain(list(error.args)):
        told["args"] = list(error.args)
    told["state"] = {name: value for name, value in vars(error).items() if _is_plain(value)}
    try:
        return dump_value(told, "an exception")
    except InvalidCall:
        return dump_value({"type": told["type"], "text": told["text"]}, "an exception")


def _is_plain(value: Any) -> bool:
    try:
        dump_value(value, "what an exception carries")
    except InvalidCall:
        return False
    return True


def revive_error(told: dict[str, Any]) -> Exception:
    """The exception to raise; its constructor is not called, because it may want what was not kept."""
    module, _, name = told["type"].partition(":")
    try:
        cls: Any = import_module(module)
        for part in name.split("."):
            cls = getattr(cls, part)
        error = cls.__new__(cls, *told.get("args", [told["text"]]))
    except Exception:
        return CallRaised(told["text"])
    if not isinstance(error, Exception):
        return CallRaised(told["text"])
    error.args = tuple(told.get("args", [told["text"]]))
    error.__dict__.update(told.get("state", {}))
    return error
