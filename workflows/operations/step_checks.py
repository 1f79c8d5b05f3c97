"""What can be said of steps from their text alone: literal names of steps that are not there.

Lives here: one check, which reads the source of registered workflows. Must not live here: running any of it. A name
that is computed says nothing before it runs, and so is left to the run.
"""

from __future__ import annotations

import ast
import functools
import inspect
import textwrap
from collections.abc import Iterator
from types import CodeType

from django.core.checks import CheckMessage, Warning

from workflows.definitions import registry
from workflows.definitions.outcomes import Await, Next, Spawn
from workflows.definitions.registry import Definition

#: Where an outcome names the step that comes next: by its first argument, or as `then=`.
_FIRST, _THEN = Next.__name__, (Await.__name__, Spawn.__name__)


def check_targets() -> Iterator[CheckMessage]:
    """Steps that lead to a step that their workflow does not have."""
    for definition in registry.list_definitions():
        if definition.workflow is not None:
            yield from _check_definition(definition, definition.workflow)


def _check_definition(definition: Definition, workflow: type) -> Iterator[CheckMessage]:
    for name in (*definition.steps, "handle"):
        for target in _find_targets(getattr(workflow, name, None)):
            if target not in definition.steps:
                known = ", ".join(definition.steps)
                yield Warning(
                    f"Step {name!r} of workflow {definition.source} leads to {target!r}, which is none of its steps.",
                    hint=f"It has {known}.",
                    id="holdpoint.W060",
                )


def _find_targets(method: object) -> tuple[str, ...]:
    code = getattr(inspect.unwrap(method), "__code__", None) if callable(method) else None
    return () if code is None else _read_targets(code)


@functools.cache  # who checks often, as tests do, reads the text of a step once
def _read_targets(code: CodeType) -> tuple[str, ...]:
    try:
        tree = ast.parse(textwrap.dedent(inspect.getsource(code)))
    except (OSError, TypeError, SyntaxError):
        return ()  # made at run time, or nothing that has a text
    found = []
    for call in ast.walk(tree):
        if isinstance(call, ast.Call):
            target = _read_target(call)
            if isinstance(target, ast.Constant) and isinstance(target.value, str):
                found.append(target.value)
    return tuple(sorted(set(found)))


def _read_target(call: ast.Call) -> ast.expr | None:
    name = getattr(call.func, "id", None) or getattr(call.func, "attr", None)
    wanted = "step" if name == _FIRST else "then" if name in _THEN else None
    if wanted is None:
        return None
    if name == _FIRST and call.args:
        return call.args[0]
    return next((one.value for one in call.keywords if one.arg == wanted), None)
