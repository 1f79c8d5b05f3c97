"""Answers that the API keeps for repeated calls, for tests of what is deleted when."""

from __future__ import annotations

from typing import Any

from tests.support.ledger_rows import execute
from workflows.models import StoredAnswer


def answer(name: str, *, days: float = 0, instance: Any = None) -> None:
    """What a call of that name was told, so many days ago."""
    execute(
        "INSERT INTO holdpoint_answer (workspace_id, digest, body_hash, at, instance_id, status, body) "
        "SELECT id, %s::bytea, '', now() - %s::float8 * interval '1 day', %s::uuid, 200, %s::text "
        "FROM holdpoint_workspace WHERE slug = 'default'",
        [name.encode(), days, instance, name],
    )


def list_answers() -> set[str]:
    """Of which calls it is still known what they were told."""
    return set(StoredAnswer.objects.values_list("body", flat=True))
