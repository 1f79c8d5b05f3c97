"""An exception that a function caught, kept as JSON and raised again in its later runs.

Invariant owned: what is raised again is of the same class with the same message, or says plainly why it
cannot be. Nothing but text and plain values is stored, and nothing is executed to bring it back.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

from workflows.exceptions import CallRaised, InvalidCall, describe_error
from workflows.values.json_text import dump_value


def is_authors(error: BaseException) -> bool:
    """Whether a function may catch it and go on: not what is meant for the process, nor what the engine raises.

    That is Ctrl-C, subclasses of SystemExit (django-q ends a task with one) and the end of a step's time.
    """
    if isinstance(error, Exception) or type(error) is SystemExit:
        return True
    if isinstance(error, KeyboardInterrupt | SystemExit | GeneratorExit):
        return False
    return type(error).__module__.partition(".")[0] != "workflows"


def describe_raised(error: BaseException) -> str:
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


def _is_plain(value: object) -> bool:
    try:
        dump_value(value, "what an exception carries")
    except InvalidCall:
        return False
    return True


def revive_error(told: dict[str, Any]) -> BaseException:
    """The exception to raise; its constructor is not called, because it may want what was not kept."""
    module, _, name = told["type"].partition(":")
    try:
        cls: Any = import_module(module)
        for part in name.split("."):
            cls = getattr(cls, part)
        error = cls.__new__(cls, *told.get("args", [told["text"]]))
    except Exception:
        return CallRaised(told["text"])
    if not isinstance(error, BaseException) or not is_authors(error):
        return CallRaised(told["text"])
    error.args = tuple(told.get("args", [told["text"]]))
    if isinstance(error, SystemExit):
        error.code = error.args[0] if len(error.args) == 1 else error.args or None  # type: ignore[assignment]
    error.__dict__.update(told.get("state", {}))
    return error
