"""Attempts that were refused: each is a row of the ledger, and after a change of the subject the review is shown anew.

Lives here: noting them. Must not live here: refusing. Invariant owned: a refusal changes nothing but this, in a
transaction of its own where the refused one is rolled back.
"""

from __future__ import annotations

from typing import Any
from uuid import UUID

from approvals.deciding.fallen_votes import show_anew
from approvals.exceptions import NotAllowed, Stale
from approvals.models import Review
from approvals.reviews.held_case import open_case
from workflows import store
from workflows.api.arguments import read_actor
from workflows.api.completions import owned_answers
from workflows.exceptions import show


def note_refusal(id: UUID, actor: Any, what: Any, door: str, refused: Exception) -> None:
    """Write it into the ledger; and after a change of the subject, show it as it is from now on."""
    tried = what if isinstance(what, str) and what.isprintable() else show(what)
    told = {
        "interaction": str(id),
        "refused": type(refused).__name__,
        "rule": refused.obstacle.rule if isinstance(refused, NotAllowed) else None,
        "outcome": tried[:100],
        "door": door,
        "reason": str(refused)[:1000],
    }
    store.in_transaction(owned_answers.reach(), lambda: _note(id, read_actor(actor), told, isinstance(refused, Stale)))


def _note(id: UUID, actor: str, told: dict[str, Any], is_stale: bool) -> None:
    rows = Review.objects.using(owned_answers.reach().alias).filter(pk=id)
    found = rows.values_list("instance_id", "interaction__item").first()
    if found is None:
        return
    instance, is_item = found
    row = {name: value for name, value in told.items() if value}
    owned_answers.record_refusal(instance, row, actor=actor, item=id if is_item else None)
    if is_stale:
        case = open_case(id)
        now = case.read_subject(lock=True)
        # Somebody may have decided about the new state meanwhile, and that stands.
        if case.state.is_open and case.review.effective_at is None and now.shown is not None:
            show_anew(case, now)
