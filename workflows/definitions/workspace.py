"""Which workspace a call means when it does not say, which instance makes it, and who acts.

Inside a step it is the instance's, inside `with workspace("acme")` (or a request) that one, else the
default. Invariant owned: all are context variables, so threads and async tasks never see each other's.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING

from workflows.exceptions import InvalidCall
from workflows.values.json_text import check_text

if TYPE_CHECKING:
    from contextlib import AbstractContextManager

    from workflows.models import Workspace

DEFAULT_WORKSPACE = "default"

#: A slug, or the id where the engine already has it.
_current: ContextVar[str | int] = ContextVar("holdpoint_workspace", default=DEFAULT_WORKSPACE)
#: The instance whose step is running here: what it starts goes back to whoever asked for it.
_running: ContextVar[str | None] = ContextVar("holdpoint_running", default=None)
#: Who acts where a call names nobody.
_actor: ContextVar[str] = ContextVar("holdpoint_actor", default="")


class _WorkspaceCalls:
    """`workflows.workspace`: enter one, or make one."""

    def __call__(self, slug: str) -> AbstractContextManager[None]:
        """Calls inside the block mean this workspace.

        >>> with workspace("acme"):
        ...     start("Ship")  # doctest: +SKIP
        """
        return enter(check_text(slug, "a workspace's slug"))

    def create(self, slug: str, name: str = "") -> Workspace:
        """Make a workspace; asking again for the same slug returns the first."""
        from django.core.exceptions import ValidationError

        from workflows.models import Workspace

        check_text(slug, "a workspace's slug", limit=100)
        check_text(name, "a workspace's name", blank=True)
        try:
            Workspace._meta.get_field("slug").run_validators(slug)
        except ValidationError as error:
            raise InvalidCall(f"{slug!r} is no workspace slug: use letters, digits, hyphens and underscores") from error
        return Workspace.objects.get_or_create(slug=slug, defaults={"name": name})[0]


workspace = _WorkspaceCalls()


def current_workspace(named: str | None = None) -> str | int:
    """The workspace a call means: the one it names, else the one it runs in."""
    return _current.get() if named is None else check_text(named, "a workspace's slug")


@contextmanager
def enter(which: str | int) -> Iterator[None]:
    """Make `which` the current workspace for a block."""
    token = _current.set(which)
    try:
        yield
    finally:
        _current.reset(token)


def current_actor() -> str:
    """Who acts where a call names nobody; empty outside of `act_as`."""
    return _actor.get()


@contextmanager
def act_as(actor: str) -> Iterator[None]:
    """Calls in this block are made by this actor, unless they name another one."""
    token = _actor.set(actor)
    try:
        yield
    finally:
        _actor.reset(token)


def current_instance() -> str | None:
    """The id of the instance whose step makes the call; None outside of steps."""
    return _running.get()


class InStep:
    """Calls in this block are made by a step of this instance.

    A class, because every step of every instance enters it: two generators took four times as long.
    """

    __slots__ = ("_before", "_instance", "_workspace")

    def __init__(self, workspace: int, instance: str) -> None:
        self._workspace, self._instance = workspace, instance

    def __enter__(self) -> None:
        self._before = _running.set(self._instance), _current.set(self._workspace)

    def __exit__(self, *raised: object) -> None:
        running, current = self._before
        _current.reset(current)
        _running.reset(running)
