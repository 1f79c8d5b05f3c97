"""How far an instance is that waits for a list of items, and whose author has not said so: its unit counts them."""

from __future__ import annotations

from datetime import datetime
from typing import Any
from uuid import UUID

from django.db import router

from workflows.lifecycle import Status
from workflows.models import AwaitUnit, Instance
from workflows.waits import UNIT


def find_progress(instance: Instance) -> tuple[dict[str, Any], datetime | None] | None:
    """What it said last, and when; else how many items of the list it waits for are through.

    A statement of its own, for what waits and said nothing; so this is for pages of one instance, not for lists.
    """
    if instance.progress is not None:
        return instance.progress, instance.progress_at
    if instance.status != Status.AWAITING or not instance.names or not instance.names[0].startswith(UNIT):
        return None
    rows = AwaitUnit.objects.using(instance._state.db or router.db_for_read(AwaitUnit))
    unit = rows.filter(pk=UUID(instance.names[0][len(UNIT) :]), items=True).values_list("total", "remaining").first()
    return None if unit is None else ({"done": unit[0] - unit[1], "total": unit[0], "note": ""}, None)
