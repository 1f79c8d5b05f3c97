"""Which instance a command line means: an id, or the key that people know it by.

Invariant owned: a key means the one live instance that holds it in one workspace; an ended one is only taken where
the command can do something with it, and then the newest.
"""

from __future__ import annotations

import getpass
from typing import Any
from uuid import UUID

from django.core.management.base import CommandError
from django.db import router

from workflows.definitions.workspace import DEFAULT_WORKSPACE
from workflows.management.terminal import clean
from workflows.models import Instance, Workspace

#: Workspaces that an error lists.
NAMED = 20


def check_workspace(slug: str | None) -> None:
    """Refuse a workspace that does not exist, with those that do."""
    known = list(Workspace.objects.order_by("slug").values_list("slug", flat=True))
    if slug is not None and slug not in known:
        raise CommandError(f"There is no workspace {slug!r}; there are {', '.join(known[:NAMED])}.")


def find_target(given: str, workspace: str | None, *, ended: bool = True) -> Instance:
    """By id, in any workspace unless one is named; or by key, in the default workspace unless one is named.

    With `ended` the newest that ended with this key is taken when no live one holds it.
    """
    rows = Instance.objects.using(router.db_for_write(Instance)).select_related("workspace")
    id = _read_id(given)
    found = None if id is None else _read_first(rows.filter(pk=id))
    if found is not None:
        if workspace not in (None, found.workspace.slug):
            raise CommandError(f"Instance {id} is in workspace {found.workspace.slug!r}, not in {workspace!r}.")
        return found
    keyed = rows.filter(key=given, workspace__slug=workspace or DEFAULT_WORKSPACE)
    found = _read_first(keyed.live())
    if found is not None:
        return found
    past = _read_first(keyed.ended().order_by("-id"))
    if past is not None and ended:
        return past
    if past is not None:
        raise CommandError(
            f"No live instance has the key {clean(given)!r}; the last that had it is {past.pk}, which is {past.status}."
        )
    if id is not None:
        raise CommandError(f"There is no instance {id}: never started, or pruned. See `workflows list`.")
    elsewhere = rows.filter(key=given).exclude(workspace__slug=workspace or DEFAULT_WORKSPACE)
    others = sorted(set(elsewhere.live().values_list("workspace__slug", flat=True)))[:NAMED]
    hint = f"; there is one in --workspace {' or '.join(others)}" if others else ". See `workflows list`"
    raise CommandError(
        f"{clean(given)!r} is neither the id of an instance nor a key in workspace "
        f"{workspace or DEFAULT_WORKSPACE!r}{hint}."
    )


def _read_first(rows: Any) -> Instance | None:
    first: Instance | None = rows.first()
    return first


def _read_id(text: str) -> UUID | None:
    try:
        return UUID(text)
    except ValueError:
        return None


def find_actor() -> str:
    """Who is at the shell, for the history."""
    try:
        return f"shell:{getpass.getuser()}"[:255]
    except (OSError, KeyError, ImportError):  # a container whose user has no name
        return "shell"
