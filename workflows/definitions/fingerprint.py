"""Fingerprints of definitions: one number that tells whether a deploy changed what an instance was started with.

Lives here: making the number, and reading a function's code for it. Invariants owned: the same definition has
the same number in every process and under every Python (so no `hash()`, no bytecode, no `ast.dump`, whose
text differs between versions); comments, layout, docstrings and annotations do not count; 0 means unknown
and equals everything.
"""

from __future__ import annotations

import ast
import hashlib
import inspect
import json
import tokenize
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from workflows.definitions.registry import StepOptions

UNKNOWN = 0

#: Of no weight for what a function does, or absent under some versions of Python.
_IGNORED = frozenset({"annotation", "returns", "type_comment", "type_params", "kind", "ctx"})


def compute_fingerprint(kind: str, parts: Iterable[str]) -> int:
    """A signed 32-bit number over a style's name and its parts, whose order counts; never 0.

    >>> compute_fingerprint("steps", ["ask", "ship"])
    -1840048247
    """
    text = json.dumps([kind, *parts], separators=(",", ":"))
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:4], signed=True) or 1


def fingerprint_steps(steps: Mapping[str, StepOptions]) -> int:
    """Of the step style: names and options. What a step does may change while instances wait to run it."""
    return compute_fingerprint(
        "steps", [f"{name} {options.atomic} {options.step_timeout}" for name, options in sorted(steps.items())]
    )


def fingerprint_function(function: Callable[..., Any]) -> int:
    """Of the function style: its code, because a replay depends on all of it; 0 where the source is not at hand."""
    try:
        source = inspect.getsource(function)
        # Inside an `if`, indented source needs no dedenting, which would change texts of several lines.
        tree = ast.parse(f"if 1:\n{source}" if source[:1].isspace() else source)
        for node in ast.walk(tree):
            if isinstance(node, ast.FunctionDef):
                # Neither its name (the workflow has one of its own) nor its decorators (they hold version and name).
                return compute_fingerprint("function", [*_describe(node.args), *_describe(_without_docstring(node))])
    except (OSError, TypeError, SyntaxError, tokenize.TokenError, ValueError, RecursionError):
        pass  # typed into a shell, generated, or nested beyond reason
    return UNKNOWN


def has_changed(started: int, now: int) -> bool:
    """Whether an instance was started with another definition than this one, as far as both are known."""
    return UNKNOWN not in (started, now) and started != now


def _describe(value: object) -> Iterator[str]:
    """A syntax tree as words. Fields that are empty are left out: newer versions of Python add such."""
    if isinstance(value, list):
        yield "["
        for one in value:
            yield from _describe(one)
        yield "]"
    elif not isinstance(value, ast.AST):
        yield f"{type(value).__name__} {value!a}"  # ASCII: what `repr` escapes differs between versions
    else:
        yield f"({type(value).__name__}"
        for name in sorted(set(value._fields) - _IGNORED):
            field = getattr(value, name, None)
            if name == "body" and isinstance(value, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
                field = _without_docstring(value)
            if field is not None and field != []:
                yield name
                yield from _describe(field)
        yield ")"


def _without_docstring(node: ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef) -> list[ast.stmt]:
    """The statements that do something: neither the docstring nor a `pass` that fills its place."""
    return [
        one
        for position, one in enumerate(node.body)
        if not (isinstance(one, ast.Pass) or (position == 0 and _is_text(one)))
    ]


def _is_text(statement: ast.stmt) -> bool:
    return (
        isinstance(statement, ast.Expr)
        and isinstance(statement.value, ast.Constant)
        and isinstance(statement.value.value, str)
    )
