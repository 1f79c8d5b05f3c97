"""Which workspaces are a user's.

Invariant owned: every door that takes a person asks here, so that nobody sees in one what another one hides.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable
from functools import cache
from typing import Any

from django.core.exceptions import ImproperlyConfigured
from django.db import connections

from workflows.conf import conf
from workflows.models import Workspace
from workflows.store.sql import compact


def list_workspaces(user: Any) -> list[tuple[int, str]]:
    """The workspaces that a user may choose, as (id, slug): the project's say, else everybody in the only one there
    is, else membership."""
    rows = Workspace.objects.order_by("slug")
    if (asked := conf.workspaces_for) is not None:
        slugs = [str(getattr(one, "slug", one)) for one in _as_list(asked(user))]
        return list(rows.filter(slug__in=slugs).values_list("id", "slug"))
    with connections[rows.db].cursor() as cursor:
        cursor.execute(_write_mine(), {"user": user.pk})
        return list(cursor.fetchall())


@cache
def _write_mine() -> str:
    """The only workspace there is, and those that a user is a member of. In one statement, and written out: every page
    and call of a person begins with it, and Django takes longer to build it than PostgreSQL to answer it."""
    members: Any = Workspace._meta.get_field("members")
    return compact(f"""
        SELECT w.id, w.slug FROM holdpoint_workspace w
        WHERE NOT EXISTS (SELECT 1 FROM holdpoint_workspace o WHERE o.id <> w.id)
        UNION
        SELECT w.id, w.slug FROM {members.m2m_db_table()} m
        JOIN holdpoint_workspace w ON w.id = m.{members.m2m_column_name()}
        WHERE m.{members.m2m_reverse_name()} = %(user)s
        ORDER BY slug
    """)


def _as_list(answer: Iterable[Any] | None) -> list[Any]:
    if isinstance(answer, str | Workspace):
        return [answer]
    if answer is None:
        return []
    with contextlib.suppress(TypeError):
        return list(answer)
    raise ImproperlyConfigured(f'WORKFLOWS["WORKSPACES_FOR"] returned {answer!r:.60}; return a list of slugs.')
