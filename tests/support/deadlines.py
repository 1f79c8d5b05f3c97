"""Deadlines that are over: the rows of one instance and of its question, moved into the past."""

from __future__ import annotations

from typing import Any

from django.db import connection

from workflows.models import Interaction


def make_due(instance: Any) -> None:
    """The park's deadline is over, as the sweep sees it; the interaction's own follows a moment later."""
    with connection.cursor() as cursor:
        cursor.execute("UPDATE holdpoint_instance SET due_at = now() - interval '1 s' WHERE id = %s", [instance])


def make_overdue(found: Interaction) -> None:
    """Both are over."""
    make_due(found.instance_id)
    with connection.cursor() as cursor:
        for table, id in (("holdpoint_interaction", found.pk), ("holdpoint_unit", found.unit_id)):
            cursor.execute(f"UPDATE {table} SET deadline = now() - interval '1 s' WHERE id = %s", [id])
