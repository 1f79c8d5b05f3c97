"""What somebody has done today: it is told where nothing waits for them any more.

Invariant owned: only a list that is empty is asked this, in one statement that reads so many votes at most.
"""

from __future__ import annotations

from statistics import median

from django.db.models import F
from django.utils.translation import ngettext

from approvals.models import Vote
from approvals.web.inbox.lists import Lists
from workflows.wording.relative_times import show_length

#: So many of somebody's latest decisions are looked through.
MOST = 500


def tell_today(lists: Lists) -> str:
    """How many requests they decided since midnight, and how long these had waited; nothing where there were none.

    >>> tell_today(lists)
    'You decided 23 requests today; the median wait was 41 minutes.'
    """
    latest = Vote.objects.filter(user_id=lists.user.pk, standing=True).order_by("-pk").values("pk")[:MOST]
    votes = Vote.objects.filter(pk__in=latest, at__gte=lists.morning, review__workspace_id__in=lists.viewer.scopes)
    waits = list(votes.values_list(F("at") - F("review__created_at"), flat=True))
    if not waits:
        return ""
    told = ngettext(
        "You decided %(n)s request today; it had waited %(wait)s.",
        "You decided %(n)s requests today; the median wait was %(wait)s.",
        len(waits),
    )
    is_cut = len(waits) == MOST
    return told % {
        "n": f"{len(waits)}+" if is_cut else len(waits),
        "wait": show_length(lists.now - median(waits), lists.now),
    }
