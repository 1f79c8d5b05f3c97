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
    for name, value in (("args", list(error.args)), ("state", vars(error))):
        try:
            dump_value(value, name)
        except InvalidCall:
            continue  # the class and the words are kept all the same
        told[name] = value
    try:
        return dump_value(told, "an exception")
    except InvalidCall:
        return dump_value({"type": told["type"], "text": told["text"]}, "an exception")


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
