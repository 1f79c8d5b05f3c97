"""`@hook`: which hooks there are, each with its verifier and its function.

Lives here: defining and finding hooks. Must not live here: requests. Invariants owned: no hook exists without a
verifier and without a way to tell a message that comes again; one name is one hook in a process.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

from workflows.definitions.registry import may_replace
from workflows.exceptions import InvalidDefinition, show

if TYPE_CHECKING:
    from django.http import HttpRequest

    from workflows.hooks.message import HookMessage

Function: TypeAlias = "Callable[[HookMessage], Any]"
#: Returns True for a request of the provider, and raises for any other, or returns what is not true.
Verify: TypeAlias = "Callable[[HttpRequest], Any]"
FindId: TypeAlias = "Callable[[HookMessage], str | int | None]"
FindWorkspace: TypeAlias = "Callable[[HookMessage], str]"

F = TypeVar("F", bound="Callable[[HookMessage], Any]")

_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,99}")


@dataclass(frozen=True, slots=True, eq=False)
class Hook:
    """One address, `/hooks/<name>`, and what becomes of what is posted there."""

    name: str
    function: Function
    verify: Verify
    #: The provider's own id of a message.
    find_id: FindId
    #: A slug, a function of the message that returns one, or None for the default workspace.
    workspace: str | FindWorkspace | None
    #: The largest body in bytes; None is `MAX_BODY`.
    max_body: int | None
    #: module.qualname of the function, for messages and to recognise a reload.
    source: str

    @property
    def actor(self) -> str:
        """Who acts where its function names nobody."""
        return f"hook:{self.name}"


def hook(
    name: str,
    *,
    verify: Verify | None = None,
    id: FindId | None = None,
    workspace: str | FindWorkspace | None = None,
    max_body: int | None = None,
) -> Callable[[F], F]:
    """Let a function take what a provider posts to `/hooks/<name>`; the function itself stays as it is.

    `verify` is `standard_webhooks(…)`, `stripe(…)`, `github(…)` or a function of the request. These three know where
    the provider writes the id of a message; with a function of your own say `id=lambda message: …` too.

    >>> @hook("shop", verify=standard_webhooks("whsec_c2VjcmV0LXNlY3JldC1zZWNyZXQh"))
    ... def take_orders(message):
    ...     workflows.emit("order.placed", message.data)
    """
    what = f"hook {name!r:.120}"
    _check_name(name, what)
    if verify is None:
        raise InvalidDefinition(
            f"{what} has no verify=: anybody could post to it. Write verify=standard_webhooks(…), stripe(…), "
            "github(…), or a function of the request that raises NotVerified"
        )
    _check_function(verify, f"{what}: verify=")
    find_id = id if id is not None else getattr(verify, "find_id", None)
    if find_id is None:
        raise InvalidDefinition(
            f"{what}: say where its provider writes the id of a message, which is the same each time it is sent: "
            'id=lambda message: message.headers["X-Event-Id"]'
        )
    _check_function(find_id, f"{what}: id=")
    if workspace is not None and not isinstance(workspace, str):
        _check_function(workspace, f"{what}: workspace=")
    if max_body is not None:
        _check_size(max_body, what)

    def register(function: F) -> F:
        _check_function(function, f"{what}: what it decorates")
        source = f"{getattr(function, '__module__', '?')}.{getattr(function, '__qualname__', show(function))}"
        known = _hooks.get(name)
        if known is not None and not may_replace(known.source, source):
            raise InvalidDefinition(f"{what} is defined twice, in {known.source} and {source}: give each its own name")
        _hooks[name] = Hook(name, function, verify, find_id, workspace, max_body, source)
        return function

    return register


def find_hook(name: str) -> Hook | None:
    """The hook of this name."""
    return _hooks.get(name)


def list_hooks() -> list[Hook]:
    """All hooks, by name."""
    return [_hooks[name] for name in sorted(_hooks)]


_hooks: dict[str, Hook] = {}


def _check_name(name: object, what: str) -> None:
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        raise InvalidDefinition(
            f"{what}: a name is part of an address: letters, digits, hyphens, underscores and dots, at most 100"
        )


def _check_size(size: object, what: str) -> None:
    if not isinstance(size, int) or isinstance(size, bool) or size < 1:
        raise InvalidDefinition(f"{what}: max_body is a number of bytes, not {show(size)}")


def _check_function(value: Any, what: str) -> None:
    if not callable(value):
        raise InvalidDefinition(f"{what} must be a function, not {show(value)}")
    if inspect.iscoroutinefunction(value) or inspect.isasyncgenfunction(value) or inspect.isgeneratorfunction(value):
        raise InvalidDefinition(
            f"{what} must be an ordinary function: it is called, and neither awaited nor iterated. Call async code "
            "through asgiref.sync.async_to_sync"
        )
