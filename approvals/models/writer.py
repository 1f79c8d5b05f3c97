"""The only writer of the tables that tell what happened to a review.

Lives here: inserts and updates, each of one kind of row. Must not live here: deciding whether. Invariant owned: all of
it is written on the engine's connection, in the caller's transaction, so a review never tells what its instance does
not know.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime, timedelta
from typing import Any, TypeVar
from uuid import UUID

from django.db import models
from django.db.models import F, QuerySet

from approvals.models import Candidate, Comment, Guess, Notice, Review, Snooze, Vote
from approvals.people.person import Person
from workflows import store
from workflows.api.completions import owned_answers

Row = TypeVar("Row", bound=models.Model)

#: Who stopped looking long ago is forgotten on the way.
_LOOK = """
    WITH gone AS (
      DELETE FROM holdpoint_presence WHERE id IN (
        SELECT id FROM holdpoint_presence WHERE seen_at < holdpoint_now() - interval '1 hour'
        ORDER BY id LIMIT 100 FOR UPDATE SKIP LOCKED
      )
    ), own AS (
      INSERT INTO holdpoint_presence (review_id, user_id, seen_at)
      VALUES (%(review)s::uuid, %(user)s, holdpoint_now())
      ON CONFLICT (review_id, user_id) DO UPDATE SET seen_at = excluded.seen_at
    )
    (
      SELECT user_id, NULL::timestamptz FROM holdpoint_presence WHERE review_id = %(review)s::uuid
        AND user_id <> %(user)s AND seen_at > holdpoint_now() - %(lasts)s::interval ORDER BY id LIMIT 5
    ) UNION ALL
    SELECT user_id, until FROM holdpoint_snooze WHERE review_id = %(review)s::uuid AND user_id = %(user)s
      AND until > holdpoint_now()
"""

#: One more try of each key, counted before any is looked at: the rows' locks make tries at one moment come one after
#: another. Keys are sorted, so two callers never wait for each other. Counts that are over are forgotten on the way.
_TRY = """
    WITH gone AS (
      DELETE FROM holdpoint_guess WHERE key IN (
        SELECT key FROM holdpoint_guess WHERE until < holdpoint_now() - interval '1 hour'
        ORDER BY until LIMIT 100 FOR UPDATE SKIP LOCKED
      )
    )
    INSERT INTO holdpoint_guess AS g (key, tries, until)
    SELECT k, 1, holdpoint_now() + %(lasts)s::interval FROM unnest(%(keys)s::text[]) k ORDER BY k
    ON CONFLICT (key) DO UPDATE SET
      tries = CASE WHEN g.until <= holdpoint_now() THEN 1 ELSE g.tries + 1 END,
      until = CASE WHEN g.until <= holdpoint_now() THEN excluded.until ELSE g.until END
    RETURNING g.key, g.tries
"""


def rows(model: type[Row]) -> QuerySet[Row]:
    """A table's rows for writing; its own manager refuses."""
    return QuerySet(model, using=owned_answers.reach().alias)


def insert(row: Row) -> Row:
    """Write one row."""
    rows(type(row)).bulk_create([row])
    return row


def insert_candidates(
    review: Review, principals: Iterable[str], *, added_by: str = "", instead_of: str = ""
) -> list[Candidate]:
    """Let more people decide; who may already stays as it is."""
    made = [
        Candidate(
            review=review,
            workspace_id=review.workspace_id,
            due_at=review.due_at,
            principal=principal,
            added_by=added_by,
            instead_of=instead_of,
        )
        for principal in dict.fromkeys(principals)
    ]
    return rows(Candidate).bulk_create(made, ignore_conflicts=True)


def remove_candidates(review: Review, principals: Iterable[str] | None = None) -> int:
    """Take people off; all of them if nobody is named."""
    found = rows(Candidate).filter(review=review)
    return (found if principals is None else found.filter(principal__in=list(principals))).delete()[0]


def mark_gone(review: Review, principals: Iterable[str], *, at: datetime | None) -> None:
    """Note since when the accounts of these have been closed or gone; None: they are there again."""
    if names := list(principals):
        rows(Candidate).filter(review=review, principal__in=names).update(gone_at=at)


def update_review(review: Review, *, is_changed: bool = False, **values: Any) -> None:
    """Set columns, of the row and of the object at hand; `is_changed` raises the version that deciders are shown."""
    for name, value in values.items():
        setattr(review, name, value)
    bumped: dict[str, Any] = {"version": F("version") + 1} if is_changed else {}
    rows(Review).filter(pk=review.pk).update(**values, **bumped)
    if is_changed:
        review.version += 1


def move_due(review: Review, due_at: datetime | None) -> None:
    """The moment by which the lists are sorted, which the candidates' rows carry too."""
    update_review(review, due_at=due_at)
    rows(Candidate).filter(review=review).update(due_at=due_at)


def let_fall(votes: Iterable[Vote], *, superseded_by: Vote | None = None) -> None:
    """These votes no longer count, in the rows and in the objects at hand; what made them fall may be a vote."""
    for vote in (fallen := list(votes)):
        vote.standing, vote.superseded_by_id = False, None if superseded_by is None else superseded_by.pk
    rows(Vote).filter(pk__in=[vote.pk for vote in fallen]).update(
        standing=False, superseded_by=None if superseded_by is None else superseded_by.pk
    )


def put_back(votes: Iterable[Vote]) -> None:
    """These votes count again."""
    for vote in (fallen := list(votes)):
        vote.standing, vote.superseded_by_id = True, None
    rows(Vote).filter(pk__in=[vote.pk for vote in fallen]).update(standing=True, superseded_by=None)


def insert_comment(
    review: Review, kind: str, text: str, *, user: Person | None, at: datetime, answers: Comment | None = None
) -> Comment:
    """Write down what somebody said."""
    return insert(
        Comment(
            review=review,
            at=at,
            kind=kind,
            user_id=None if user is None else user.pk,
            actor="" if user is None else f"user:{user.pk}",
            text=text,
            answers=answers,
        )
    )


def insert_notice(
    review: Review,
    kind: str,
    *,
    at: datetime,
    to: Iterable[str] | None = None,
    data: Mapping[str, Any] | None = None,
) -> Notice:
    """Something to be told: to these principals, or to those asked."""
    return insert(
        Notice(
            review=review,
            kind=kind,
            at=at,
            to=None if to is None else list(to),
            data=None if data is None else {**data},
        )
    )


def set_snooze(review: Review, user: Person, until: datetime) -> None:
    """Put aside; a second time moves it."""
    made = Snooze(review=review, user_id=user.pk, until=until)
    rows(Snooze).bulk_create([made], update_conflicts=True, unique_fields=["user", "review"], update_fields=["until"])


def clear_snooze(review: Review, user: Person) -> int:
    """Take it up again."""
    return rows(Snooze).filter(review=review, user_id=user.pk).delete()[0]


def set_presence(review: UUID, user: Person, lasts: timedelta) -> tuple[list[Any], datetime | None]:
    """Somebody looks at it, from now on for so long. The keys of others who do, and until when it was put aside."""
    found = store.fetch(owned_answers.reach(), _LOOK, {"review": review, "user": user.pk, "lasts": lasts})
    until = next((until for _, until in found if until is not None), None)
    return [key for key, until in found if until is None], until


def count_tries(keys: Iterable[str], lasts: timedelta) -> dict[str, int]:
    """One more try of each; how many there were in the time that the first one began."""
    return dict(store.fetch(owned_answers.reach(), _TRY, {"keys": list(keys), "lasts": lasts}))


def forget_tries(key: str) -> None:
    """Begin to count anew: the password was right."""
    rows(Guess).filter(pk=key).delete()


def take_back_try(key: str) -> None:
    """It was none that failed; those before it still count."""
    rows(Guess).filter(pk=key, tries__gt=0).update(tries=F("tries") - 1)


def lock_review(id: UUID) -> Review | None:
    """The row, locked: after its instance and interaction."""
    return rows(Review).select_for_update(no_key=True).filter(pk=id).first()
