"""How the tables of approvals point to people.

Invariant owned: what somebody did stays when the account goes.
"""

from __future__ import annotations

from typing import Any

from django.conf import settings
from django.db import models


def point_to_user(name: Any, **options: Any) -> models.ForeignKey[Any, Any]:
    """A user, by key only: what somebody did stays when the account goes."""
    return models.ForeignKey(
        settings.AUTH_USER_MODEL,
        models.DO_NOTHING,
        db_constraint=False,
        db_index=False,
        related_name="+",
        verbose_name=name,
        **options,
    )
