"""One review with all that bears on it, in one statement: for pages that show all of it.

Lives here: reading for a look. What is decided reads its rows one by one under its locks (`held_case`). Invariants
owned: the rows of a look are of one moment, that of `Case.now`; whoever may not see the review is given nothing of it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from typing import Any
from uuid import UUID

from django.contrib.postgres.expressions import ArraySubquery
from django.db.models import Model, OuterRef, Q, QuerySet, TextField
from django.db.models.expressions import RawSQL
from django.db.models.fields.json import KT
from django.db.models.functions import Cast, Coalesce, JSONObject

from approvals.models import Candidate, Comment, Review, Vote
from approvals.people.person import Person
from approvals.people.viewer import Viewer, see_as
from approvals.reviews.case import MAX_ROWS, Case
from approvals.reviews.permissions import sees
from workflows.api.completions import owned_answers
from workflows.clock import Now
from workflows.lifecycle import Event
from workflows.models import Interaction, LedgerEvent

#: What a ledger row tells beside votes and comments, which have rows of their own.
KINDS = (Event.HANDLED, Event.RESCHEDULED, Event.REFUSED)
#: Stands in the kept SQL for the family that a look names. No instance has this id.
_PLACE = UUID(int=0)


def load_case(id: UUID, user: Person | Viewer, *, workspace: int | None = None) -> Case | None:
    """A review that a user (or a `Viewer`) may look at; None for one that is not there, or not for them.

    >>> load_case(review.pk, ann).review == review
    True
    """
    viewer = see_as(user)
    if not viewer.is_active:
        return None
    # Asked in the statement that reads it: one that is not theirs takes no longer to be refused than one that is not.
    rows = Review.objects.using(owned_answers.reach().alias).visible_to(viewer, workspace=workspace)
    return _read_seen(rows, id, viewer)


def load_again(id: UUID, user: Person) -> Case | None:
    """A review that this user has just done something about, as it is now, if they may still look at it.

    >>> load_again(review.pk, forget_permissions(ann)).review == review
    True
    """
    return _read_seen(Review.objects.using(owned_answers.reach().alias).all(), id, see_as(user))


def _read_seen(rows: QuerySet[Review], id: UUID, viewer: Viewer) -> Case | None:
    case = read_case(rows, id, viewer)
    return case if case is not None and sees(case, viewer.user) else None


def read_case(rows: QuerySet[Review], id: UUID, viewer: Viewer | None = None) -> Case | None:
    """One of these reviews, whoever asks: these rows have to be what they may see.

    >>> read_case(Review.objects.all(), review.pk).candidates
    [<Candidate: group:3>]
    """
    found: Any = (
        rows.filter(pk=id)
        .select_related("interaction__workspace", "interaction__unit", "claimed_by")
        .annotate(**_gather_all(rows))
        .first()
    )
    if found is None:
        return None
    case = Case(found)
    if viewer is not None:
        case.see_as(viewer)
    _fill(case, found)
    return case


def fill(case: Case) -> None:
    """The same for a review that is at hand; what the case has read before, it keeps."""
    if case.said is not None:
        return
    review = case.review
    rows = Interaction.objects.using(owned_answers.reach().alias).select_related("workspace", "unit")
    found: Any = rows.annotate(**_gather_all(rows, review.root)).get(pk=review.pk)
    kept = review._state.fields_cache.get("interaction")
    if kept is None or "workspace" not in kept._state.fields_cache:
        review.interaction = found
    _fill(case, found)


def gather(rows: QuerySet[Any], names: Iterable[str] = ()) -> ArraySubquery:
    """Rows as JSON within the statement of another one; `make_rows` makes rows of it again."""
    wanted = list(names) or [one.attname for one in rows.model._meta.concrete_fields]
    return ArraySubquery(rows.values(holdpoint_row=JSONObject(**{name: name for name in wanted})))


def make_rows(model: type[Model], gathered: Iterable[Mapping[str, Any]], alias: str) -> list[Any]:
    """Instances of a model, as its own query would give them."""
    made = []
    for row in gathered:
        fields = [
            one for one in model._meta.concrete_fields if one.attname in row
        ]  # `from_db` wants them in this order
        values = [one.to_python(row[one.attname]) for one in fields]
        made.append(model.from_db(alias, [one.attname for one in fields], values))
    return made


def _gather_all(rows: QuerySet[Any], family: UUID | None = None) -> dict[str, Any]:
    """What is read beside a review, or the question behind it: both have the same key, and the same instance's.

    `family` is the id of the instance that began the review's; without it, the row itself tells which one.
    """
    gathered: dict[str, Any] = {"read_at": Now()}
    model: Any = rows.model
    for name, (sql, params, field) in _compile(model, rows.db, is_named=family is not None).items():
        values = [family if value == _PLACE else value for value in params]
        gathered[name] = RawSQL(sql, values, output_field=field)
    return gathered


@cache
def _compile(model: type[Model], alias: str, *, is_named: bool) -> dict[str, tuple[str, Sequence[Any], Any]]:
    """Write the subqueries of a look as SQL, once for all: that takes longer than PostgreSQL takes to answer."""
    family = _PLACE if is_named else Coalesce(OuterRef("family"), OuterRef("instance_id"))
    query = model._default_manager.annotate(**_list_gathered(family)).query
    compiler = query.get_compiler(using=alias)
    compiler.setup_query()
    return {name: (*compiler.compile(part), part.output_field) for name, part in query.annotations.items()}


def _list_gathered(family: Any) -> dict[str, Any]:
    here = Q(review_id=OuterRef("pk"))
    # An item has a history of its own.
    instance = Q(instance_id=OuterRef("instance_id")) | Q(instance_id=OuterRef("pk"))
    deciders = Vote.objects.filter(family=family, standing=True, user__isnull=False).order_by("pk")
    comments = Comment.objects.filter(here).order_by("-pk")
    events = LedgerEvent.objects.filter(instance, kind__in=KINDS).alias(about=KT("data__interaction")).order_by("-seq")
    events = events.filter(about=Cast(OuterRef("pk"), TextField()))
    return {
        "read_candidates": gather(Candidate.objects.filter(here).order_by("pk")),
        "read_votes": gather(Vote.objects.filter(here).order_by("at", "pk")),
        "read_deciders": gather(deciders, ["user_id", "step", "place"]),
        "read_comments": gather(comments[: MAX_ROWS + 1]),
        "read_events": gather(events[: MAX_ROWS + 1], ["at", "kind", "actor", "data"]),
    }


def _fill(case: Case, found: Any) -> None:
    alias, review = found._state.db, case.review
    deciders = make_rows(Vote, found.read_deciders, alias)
    for name, value in {
        "candidates": make_rows(Candidate, found.read_candidates, alias),
        "all_votes": make_rows(Vote, found.read_votes, alias),
        "earlier_deciders": frozenset(one.user_id for one in deciders if one.stage != review.stage),
    }.items():
        case.__dict__.setdefault(name, value)
    case.__dict__.setdefault("now", found.read_at)
    case.said = make_rows(Comment, found.read_comments, alias)
    case.told = make_rows(LedgerEvent, found.read_events, alias)
