"""Whether system checks may ask the database, and which one.

Lives here: `choose_database`, for every check that reads rows or the server's settings, and the check that says when
none could. Invariant owned: `manage.py check` reports a server that is not there, and does not fail of it: since
Django 6.1 it checks every database where nobody names one, also where an image is built and no server runs.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from django.core.checks import CheckMessage, Info
from django.db import DatabaseError, connections, router

from workflows.models import Instance


def choose_database(databases: Sequence[str] | None) -> str | None:
    """The engine's database, if it is among those to be checked and its server answers."""
    alias = _find_asked(databases)
    return None if alias is None or _find_trouble(alias) is not None else alias


def check_server(app_configs: Any = None, databases: Sequence[str] | None = None, **kwargs: Any) -> list[CheckMessage]:
    """Say that what only the database can tell was not checked."""
    alias = _find_asked(databases)
    trouble = None if alias is None else _find_trouble(alias)
    if trouble is None:
        return []
    reason = str(trouble).partition("\n")[0]
    return [
        Info(
            f'The server of DATABASES["{alias}"] does not answer, so nothing was checked that only it can tell: '
            f"{reason}",
            hint=f"Run `manage.py check --database {alias}` where the server can be reached.",
            id="holdpoint.I009",
        )
    ]


def _find_asked(databases: Sequence[str] | None) -> str | None:
    alias = router.db_for_write(Instance)
    return alias if alias in (databases or ()) and connections[alias].vendor == "postgresql" else None


def _find_trouble(alias: str) -> DatabaseError | None:
    try:
        connections[alias].ensure_connection()
    except DatabaseError as error:
        return error
    return None
