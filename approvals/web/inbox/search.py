"""What a search asks of a review: where its words may stand, and who asked.

Invariant owned: people are looked up from the row that is looked at, never all of them.
"""

from __future__ import annotations

from collections.abc import Iterable

from django.contrib.auth import get_user_model
from django.db.models import OuterRef, Q

from approvals.people.eligibility_sql import ExistsHere
from approvals.web.base.filters import Filters

#: Of a search.
MAX_WORDS = 6


def list_words(filters: Filters) -> list[str]:
    """Those that are looked for: each must be there.

    >>> list_words(Filters(q="late parcel"))
    ['late', 'parcel']
    """
    return filters.q.split()[:MAX_WORDS]


def mention(word: str) -> Q:
    """Where a word may stand."""
    model = get_user_model()
    people = {model.USERNAME_FIELD, "first_name", "last_name"} & {one.name for one in model._meta.get_fields()}
    return _has(word, ["title", "subject_label", "why", "workflow"]) | _ask_requester(_has(word, sorted(people)))


def is_requester(username: str) -> Q:
    """What this person asked for."""
    return _ask_requester(Q(**{get_user_model().USERNAME_FIELD: username}))


def _has(word: str, places: Iterable[str]) -> Q:
    found = Q()
    for place in places:
        found |= Q(**{f"{place}__icontains": word})
    return found


def _ask_requester(which: Q) -> Q:
    return Q(ExistsHere(get_user_model()._base_manager.filter(which, pk=OuterRef("requester_id"))))
