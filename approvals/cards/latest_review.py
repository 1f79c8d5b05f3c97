"""The newest review about a row of the project: for pages that show the row.

Invariants owned: one statement for the review with all that its sentence needs, and one for the names in it; whoever
may not see the review learns that somebody is asked, or was, which the page's author wanted, and nothing else: no name,
no title, no answer, no link.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from django.apps import apps
from django.db import models, router
from django.db.models import Exists, OuterRef, QuerySet, Value
from django.urls import NoReverseMatch, reverse
from django.utils.translation import gettext

from approvals.cards.case_query import gather, make_rows
from approvals.cards.status import Status, describe_status, find_status
from approvals.display.values import MAX_BLOCK, show_text
from approvals.models import Candidate, Review, Vote
from approvals.people.person import Person
from approvals.reviews.case import Case
from approvals.subjects.reference import find_alias
from workflows.api.completions import owned_answers
from workflows.clock import Now


@dataclass(frozen=True, slots=True)
class Newest:
    """How the newest review about a row stands, as one person may know it."""

    #: None for who may not see it; such a person's `status` is "open" or "decided".
    review: Review | None
    status: Status
    told: str
    #: Empty for who may not see it.
    title: str
    #: Of the answer; empty while there is none.
    tone: str
    #: Where the viewer can look at it; None where they may not, or the site shows no such pages.
    url: str | None


def find_visible(user: Person | None) -> QuerySet[Review] | None:
    """The reviews that this person may look at, to be asked for several rows of a page; None: none.

    >>> find_newest(invoice, ann, visible=find_visible(ann)).url
    '/approvals/01a1f054-1821-7000-a66a-740cd17eba6f/'
    """
    if user is None or getattr(user, "pk", None) is None or not getattr(user, "is_active", False):
        return None
    visible: QuerySet[Review] = Review.objects.visible_to(user)
    return visible


def find_newest(
    obj: models.Model, user: Person | None = None, *, visible: QuerySet[Review] | None = None
) -> Newest | None:
    """The newest review about this row, as this person may know it; None where there never was one.

    Where nobody is asked any more and nobody has answered, who may not see it is told nothing.

    >>> find_newest(invoice, ann).told
    'Waiting for Finance since Tuesday, 2 of 3 approved'
    """
    model = type(obj)
    if obj._state.adding or obj.pk is None:
        return None
    visible = find_visible(user) if visible is None else visible
    using = find_alias(obj)
    alias = owned_answers.reach().alias
    rows = Review.objects.using(alias).filter(
        subject_model__in=_list_names(model),
        subject_pk=model._meta.pk.value_to_string(obj),
        subject_using="" if using == router.db_for_write(model) else using,
    )
    seen = Value(False) if visible is None else Exists(visible.using(alias).filter(pk=OuterRef("pk")))

    def mine(model: Any) -> QuerySet[Any]:
        beside: QuerySet[Any] = model.objects.filter(review_id=OuterRef("pk")).order_by("pk")
        return beside

    found: Any = (
        rows.select_related("interaction")
        .annotate(read_at=Now(), may_see=seen, asked=gather(mine(Candidate), _ASKED), cast=gather(mine(Vote), _CAST))
        .order_by("-interaction")
        .first()
    )
    return None if found is None else _tell(found, user)


_ASKED = ("principal", "instead_of", "added_by")
#: The sentence tells who changed what is on the table, too.
_CAST = (
    *("id", "at", "user_id", "on_behalf_of_id", "outcome", "standing", "groups", "reason"),
    *("data", "changed_from", "reverses_id", "superseded_by_id"),
)


def _tell(found: Any, user: Person | None) -> Newest | None:
    case = Case(found)
    case.now = found.read_at
    case.candidates = make_rows(Candidate, found.asked, found._state.db)
    case.all_votes = make_rows(Vote, found.cast, found._state.db)
    status = find_status(case)
    if not found.may_see:
        return _tell_stranger(status)
    outcome = next((one for one in case.outcomes if one.name == found.outcome), None)
    return Newest(
        review=found,
        status=status,
        told=describe_status(found, user, case=case),
        title=show_text(found.title, MAX_BLOCK),
        tone=outcome.tone if outcome is not None and status == "decided" else "",
        url=_find_page(found),
    )


def _tell_stranger(status: Status) -> Newest | None:
    if status == "closed":
        return None
    if status == "decided":
        return Newest(None, "decided", gettext("Decided"), "", "", None)
    return Newest(None, "open", gettext("Waiting for a decision"), "", "", None)


def _find_page(review: Review) -> str | None:
    for name in ("approvals:review", "approvals:inbox"):
        try:
            if name == "approvals:inbox":
                return f"{reverse(name)}{review.pk}/"
            return reverse(name, args=[review.pk])
        except NoReverseMatch:
            continue
    return None  # the project shows the reviewer's pages at no address


@lru_cache(maxsize=256)
def _list_names(model: type[models.Model]) -> tuple[str, ...]:
    """The model by all names that its rows may have been asked about: its own and those of its proxies."""
    concrete = model._meta.concrete_model
    return tuple(one._meta.label_lower for one in apps.get_models() if one._meta.concrete_model is concrete) or (
        model._meta.label_lower,
    )
