"""Making the change that an approval showed: an `on_decision` that nearly every author wants.

Invariant owned: what is made is what was frozen with the request and shown to the deciders, under the subject's lock,
in the deciding transaction; any answer but the first of the outcomes changes nothing.
"""

from __future__ import annotations

from approvals.exceptions import DecisionFailed
from approvals.models import Review
from approvals.subjects.change import GONE, UNKNOWN, apply_change
from approvals.subjects.reference import InvalidChange, Subject, is_known, load_subject
from workflows.definitions.decision import Answer
from workflows.models import Instance


def apply_requested_change(answer: Answer, instance: Instance) -> None:
    """For `on_decision`: on the first of the outcomes, change the subject as was asked.

    >>> Approval("Lower the price", subject=tea, change={"price": 4}, on_decision=apply_requested_change).on_decision
    'approvals.requested:apply_requested_change'
    """
    # The one that is being decided: an instance waits for one at a time.
    review = Review.objects.using(instance._state.db).get(instance=instance, open=True)
    if answer.outcome != review.outcomes[0]["name"] or not review.change:
        return
    if not is_known(review.subject_model):
        raise DecisionFailed(UNKNOWN)
    subject = Subject(review.subject_model, review.subject_pk, review.subject_label, review.subject_using)
    row = load_subject(subject, lock=True)
    if row is None:
        raise DecisionFailed(GONE)
    try:
        apply_change(row, review.change)
    except InvalidChange as error:
        raise DecisionFailed(error.reason) from error
