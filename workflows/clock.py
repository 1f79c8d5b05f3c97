"""The database's clock in querysets. No deadline depends on an application server's clock."""

from __future__ import annotations

from typing import Any

from django.db import connections, router
from django.db.models import DateTimeField, Func

from workflows import store
from workflows.models import Instance


class Now(Func):
    """The moment at which the statement began, as deadlines are compared.

    >>> Interaction.objects.filter(deadline__lt=Now())
    <ReadQuerySet […]>
    """

    template = "holdpoint_now()"
    output_field: Any = DateTimeField()


def read_now() -> Any:
    """The moment itself."""
    db = connections[router.db_for_write(Instance)]
    return store.fetch(db, "SELECT holdpoint_clock()", {})[0][0]
