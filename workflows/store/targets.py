"""How an instance is addressed: by id or by correlation key, always within one workspace.

Invariant owned: no statement that serves the outside reaches a row without naming its workspace.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal
from uuid import UUID

from django.db.backends.base.base import BaseDatabaseWrapper

from workflows.store.sql import LIVE, fetch


@dataclass(frozen=True, slots=True)
class Address:
    """One instance: its id, or its key (which means the live holder)."""

    by: Literal["id", "key"]
    value: UUID | str
    workspace: str | int

    @property
    def form(self) -> tuple[str, str]:
        """Selects the statement made for this kind of address."""
        return self.by, address_kind(self.workspace)

    def __str__(self) -> str:
        return str(self.value)


def address_kind(workspace: str | int) -> str:
    """Which form of a statement takes this workspace: the engine knows ids, people say slugs."""
    return "id" if isinstance(workspace, int) else "slug"


def workspace_sql(by: str) -> str:
    """The id of the workspace a statement means: a value, or looked up by slug in the same statement."""
    return "%(ws)s::int" if by == "id" else "(SELECT id FROM holdpoint_workspace WHERE slug = %(ws)s::text)"


def target_sql(form: tuple[str, str]) -> str:
    """The condition that finds the addressed row, as `i`."""
    by, workspace = form
    scope = f"i.workspace_id = {workspace_sql(workspace)}"
    # A key is unique among the live only, and so can be indexed only together with that condition.
    return (
        f"i.id = %(target)s::uuid AND {scope}" if by == "id" else f"{scope} AND i.key = %(target)s::text AND i.{LIVE}"
    )


FORMS = [(by, workspace) for by in ("id", "key") for workspace in ("id", "slug")]


def resolve_workspaces(db: BaseDatabaseWrapper, scopes: Iterable[str | int]) -> dict[str | int, int]:
    """Slug -> id of the workspaces that are named by slug."""
    slugs = [scope for scope in scopes if isinstance(scope, str)]
    found = fetch(db, "SELECT slug, id FROM holdpoint_workspace WHERE slug = ANY(%(slugs)s::text[])", {"slugs": slugs})
    return dict(found)


#: Two arrays, whatever their length: a parameter per target would run into the protocol's limit.
_REACHABLE = f"""
    SELECT NULL::text, id FROM holdpoint_instance WHERE id = ANY(%(ids)s::uuid[]) AND workspace_id = %(ws)s::int
      AND workflow = ANY(%(workflows)s::text[])
    UNION ALL SELECT key, id FROM holdpoint_instance WHERE key = ANY(%(keys)s::text[]) AND workspace_id = %(ws)s::int
      AND {LIVE} AND workflow = ANY(%(workflows)s::text[])
"""


def find_reachable(
    db: BaseDatabaseWrapper, targets: Sequence[UUID | str], workspace: int, workflows: Sequence[str]
) -> dict[UUID | str, UUID]:
    """Of ids and keys those of instances that run one of these workflows, with the id of each."""
    ids = [target for target in targets if isinstance(target, UUID)]
    keys = [target for target in targets if isinstance(target, str)]
    params = {"ids": ids, "keys": keys, "ws": workspace, "workflows": list(workflows)}
    # A key may read like an id: so ids stay UUIDs, and keys texts.
    return {id if key is None else key: id for key, id in fetch(db, _REACHABLE, params)}


def workspace_exists(db: BaseDatabaseWrapper, workspace: str | int) -> bool:
    """Whether there is such a workspace; asked only when something was not found."""
    column = "id" if isinstance(workspace, int) else "slug"
    return bool(fetch(db, f"SELECT 1 FROM holdpoint_workspace WHERE {column} = %(ws)s", {"ws": workspace}))
