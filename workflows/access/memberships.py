"""Which workspaces are a user's.

Invariant owned: every door that takes a person asks here, so that nobody sees in one what another one hides.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable
from typing import Any

from django.core.exceptions import ImproperlyConfigured
from django.db.models import Exists, OuterRef

from workflows.conf import conf
from workflows.models import Workspace


def list_workspaces(user: Any) -> list[tuple[int, str]]:
    """The workspaces that a user may choose, as (id, slug): the project's say, else everybody in the only one there
    is, else membership."""
    rows = Workspace.objects.order_by("slug")
    if (asked := conf.workspaces_for) is not None:
        slugs = [str(getattr(one, "slug", one)) for one in _as_list(asked(user))]
        return list(rows.filter(slug__in=slugs).values_list("id", "slug"))
    # In one statement: every page of a person begins with it.
    others = Workspace.objects.exclude(pk=OuterRef("pk"))
    named = rows.order_by().values_list("id", "slug")
    only = named.filter(~Exists(others))
    return list(only.union(named.filter(members=user.pk)).order_by("slug"))


def _as_list(answer: Iterable[Any] | None) -> list[Any]:
    if isinstance(answer, str | Workspace):
        return [answer]
    if answer is None:
        return []
    with contextlib.suppress(TypeError):
        return list(answer)
    raise ImproperlyConfigured(f'WORKFLOWS["WORKSPACES_FOR"] returned {answer!r:.60}; return a list of slugs.')
