"""What keeps somebody from deciding, as conditions of a queryset: the same that `rules.rights` says of one review.

Lives here: those conditions. Must not live here: whose reviews are whose (`viewer`, `querysets`). Invariant owned:
each is asked of the rows that are shown, by an index that leads from the row, however much somebody has ever voted on.
"""

from __future__ import annotations

from typing import Any

from django.apps import apps
from django.db.models import Exists, OuterRef, Q, QuerySet
from django.db.models.functions import Coalesce

from approvals.people.principals import list_active
from workflows.clock import Now


class ExistsHere(Exists):
    """Asked of each row that is shown, by an index that leads from it.

    Without the OFFSET PostgreSQL may read, first, all that somebody ever voted on, to ask it of all rows at once.
    """

    template = "EXISTS(%(subquery)s OFFSET 0)"


def leave_out_barred(rows: Any, user: Any) -> Any:
    """Without those that four eyes, or an earlier vote of theirs or for them, keep somebody (by key) from deciding."""
    votes = list_rows("Vote").filter(standing=True)
    used = votes.filter(Q(user_id=user) | Q(on_behalf_of_id=user), review_id=OuterRef("pk"))
    family, place = (Coalesce(OuterRef(name), OuterRef("instance_id")) for name in ("family", "place"))
    earlier = votes.filter(user_id=user, family=family).exclude(step=OuterRef("step"), place=place)
    earlier = earlier.filter(standing=OuterRef("four_eyes"))  # where it is asked for at all
    own = Q(four_eyes=True, requester_id=user, requester_id__isnull=False)
    return rows.exclude(own).filter(~ExistsHere(used), ~ExistsHere(earlier))


def is_free(user: Any) -> Q:
    """Claimed by nobody else than this user (by key); a claim goes with the account of who made it."""
    holders = list_active().filter(pk=OuterRef("claimed_by_id"))
    return Q(claimed_by__isnull=True) | Q(claimed_by=user) | Q(~ExistsHere(holders))


def is_aside(user: Any) -> ExistsHere:
    """What this user (by key) has put aside for now."""
    return ExistsHere(list_rows("Snooze").filter(review_id=OuterRef("pk"), user_id=user, until__gt=Now()))


def list_rows(model: str) -> QuerySet[Any]:
    """All rows of a model of ours, by its name: models are made of what stands here."""
    rows: QuerySet[Any] = apps.get_model("holdpoint_approvals", model)._default_manager.all()
    return rows
