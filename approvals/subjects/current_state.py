"""What a review is about as it is now, and how that differs from what it shows.

Invariant owned: lists, pages and decisions compare the same things (the digest of what was shown and asked), so nothing
is stale at one door and current at another.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from approvals.models import Review
from approvals.subjects.diff import FieldDiff, find_drift
from approvals.subjects.reference import Subject, digest, find_home, load_subject, snapshot_again
from workflows.api.completions import owned_answers


@dataclass(frozen=True, slots=True)
class SubjectState:
    """The subject as it is now."""

    digest: str
    #: Field -> (as it was shown, as it is), in words.
    difference: Mapping[str, tuple[Any, Any]] = field(default_factory=dict)
    drift: tuple[FieldDiff, ...] = ()
    is_gone: bool = False
    #: What a snapshot of it holds; None where nothing has changed.
    shown: Mapping[str, Any] | None = None


def read_subject_now(review: Review, *, lock: bool = False) -> SubjectState:
    """Read it where it is written.

    `lock` holds it still until the transaction ends. A row of another database cannot be held: it has no transaction
    in common with the engine's.

    >>> read_subject_now(review).difference
    {'Amount': ('€40.00', '€400.00')}
    """
    if not review.subject_model:
        return SubjectState(review.digest)
    subject = Subject(review.subject_model, review.subject_pk, review.subject_label, review.subject_using)
    before = review.snapshot or {}
    row = load_subject(subject, lock=lock and find_home(subject) == owned_answers.reach().alias)
    if row is None:
        return _tell_drift("", find_drift(before, None), is_gone=True)
    shown = snapshot_again(row, before)
    seal = digest(shown, review.change or {})
    if seal == review.digest:
        return SubjectState(seal)
    return _tell_drift(seal, find_drift(before, row), shown=shown)


def _tell_drift(
    seal: str, drift: tuple[FieldDiff, ...], *, is_gone: bool = False, shown: Mapping[str, Any] | None = None
) -> SubjectState:
    return SubjectState(seal, {one.label: (one.before.text, one.after.text) for one in drift}, drift, is_gone, shown)
