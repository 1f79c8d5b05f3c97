"""The first row of an instance: its input checked against the workflow, serialised, and given an id.

Invariant owned: an instance that is stored has an input that its workflow takes.
"""

from __future__ import annotations

import json
from typing import Any

from workflows.definitions import registry
from workflows.definitions.outcomes import Child
from workflows.definitions.registry import Definition
from workflows.exceptions import (
    InvalidData,
    InvalidInput,
)
from workflows.store import NewInstance
from workflows.uuid7 import make_uuid7
from workflows.values.json_text import dump_value


def plan_instance(definition: Definition, input: Any, key: str | None, what: str = "the input") -> NewInstance:
    """The first row of an instance, checked and serialised."""
    text = dump_value(input, what)
    check_input(definition, json.loads(text))
    return NewInstance(
        id=make_uuid7(),
        workflow=definition.name,
        version=definition.version,
        step=definition.initial,
        input=text,
        key=key,
        solo=definition.max_attempts == 1,
        fingerprint=definition.fingerprint,
    )


def plan_child(workflow: Any, input: Any) -> NewInstance:
    """A child that a function invokes."""
    definition = registry.resolve(workflow)
    return plan_instance(definition, {} if input is None else input, None, f"the input of child {definition.name!r}")


def check_input(definition: Definition, input: Any) -> None:
    """Refuse an input that the workflow cannot take: its `accepts`, or a function's parameters."""
    if definition.signature is not None:
        if not isinstance(input, dict):
            raise InvalidInput(definition.name, {"": "must be an object with the function's parameters"})
        ctx, *parameters = definition.signature.parameters.values()
        known = {one.name for one in parameters if one.kind in (one.POSITIONAL_OR_KEYWORD, one.KEYWORD_ONLY)}
        takes_any = any(one.kind is one.VAR_KEYWORD for one in parameters)
        errors = {
            one.name: "is required"
            for one in parameters
            if one.name in known and one.default is one.empty and one.name not in input
        }
        if takes_any and ctx.name in input:
            errors[ctx.name] = "is the function's own first parameter"
        if not takes_any:
            errors |= {name: "is no parameter of the function" for name in input if name not in known}
        if errors:
            raise InvalidInput(definition.name, errors)
    if definition.accepts is not None:
        try:
            definition.accepts.check(input)
        except InvalidData as error:
            raise InvalidInput(definition.name, error.errors) from error


def plan_spawned(child: Child) -> NewInstance:
    """A child that a step spawns."""
    definition = registry.resolve(child.workflow)
    return plan_instance(definition, child.input, child.key, f"the input of child {definition.name!r}")
