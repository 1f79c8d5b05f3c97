"""What must exist in a migrated database: the default workspace. Idempotent, run after every migrate."""

from __future__ import annotations

from typing import Any

from workflows.models import DEFAULT_WORKSPACE, Workspace


def provide_defaults(using: str = "default", **kwargs: Any) -> None:
    """Make what is missing; called by Django after migrating (and after flushing a test database)."""
    if Workspace._meta.db_table in _tables(using):
        Workspace.objects.using(using).get_or_create(slug=DEFAULT_WORKSPACE, defaults={"name": "Default"})


def _tables(using: str) -> list[str]:
    from django.db import connections

    return connections[using].introspection.table_names()
