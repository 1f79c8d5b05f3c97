"""/v1/approvals/{id}, and deciding it.

Lives here: reading the call and writing the answer. What may be decided, and by whom, is `decisions`.
Invariants owned: nothing here can be undone by waiting (there is no grace over HTTP); and a decision of high risk names
the version that was looked at.
"""

from __future__ import annotations

from django.http import HttpResponse
from rest_framework.request import Request

from approvals.cards.card import build_card
from approvals.cards.case_query import load_case, read_case
from approvals.deciding.decisions import decide
from approvals.exceptions import AlreadyDecided, Stale, UnknownOutcome
from approvals.models import Review
from approvals.rest.action_bodies import DecideBody, DecisionOut
from approvals.rest.review_endpoint import DOOR, PEOPLE_ONLY, REFUSED, ReviewEndpoint
from approvals.rest.review_rows import show_card
from approvals.rest.shapes import ApprovalDetail
from approvals.rules.door import Door
from workflows.rest.base.endpoint import ChangeAnswer
from workflows.rest.base.ids import read_id, refuse_unknown
from workflows.rest.base.repeated_calls import answer_json
from workflows.rest.protocol.bodies import read_as
from workflows.rest.protocol.operation import ID, document


class OneReview(ReviewEndpoint):
    """One review, all of it."""

    @document(
        "getApproval",
        "Approvals",
        "Look at an approval",
        "What will happen, what changes, what bears on it, who may decide and why you cannot. What changed since it "
        "was asked stands in `drift`; texts are as people read them, in your language.",
        answers={200: (ApprovalDetail, "All of it, as it is for you.")},
        problems=[404],
        scope="read",
        parameters=[ID],
    )
    def get(self, request: Request, id: str) -> HttpResponse:
        """As it is for the caller."""
        user = self.caller.user
        if user is None:
            case = read_case(self.list_visible(), read_id(id))
        else:
            case = load_case(read_id(id), user, workspace=self.caller.workspace)
        if case is None:
            raise refuse_unknown()
        review, for_program = case.review, PEOPLE_ONLY if user is None else ""
        told = show_card(build_card(review, user, case=case), review, case, for_program=for_program)
        return answer_json(ChangeAnswer(told).write())


class DecideReview(ReviewEndpoint):
    """Deciding."""

    @document(
        "decideApproval",
        "Approvals",
        "Decide",
        "Records your vote. Where it was the last one needed, the change is made and the instance goes on, at once: "
        "there is no time to undo it. High risk takes `version` and a reason, and cannot be decided here where the "
        "site wants the password again.",
        body=DecideBody,
        answers={200: (DecisionOut, "Recorded."), **REFUSED},
        problems=[404, 410, 422],
        people=True,
        posts=True,
        parameters=[ID],
    )
    def post(self, request: Request, id: str) -> HttpResponse:
        """Decide."""
        raw, value = self.read_body(request)
        body = read_as(DecideBody, value)
        return self.act(request, raw, id, lambda review: self.decide(review, body))

    def decide(self, review: Review, body: DecideBody) -> ChangeAnswer:
        """Record the caller's decision."""
        door = Door(name=DOOR, saw_diff=body.version is not None, has_reauthenticated=False)
        try:
            done = decide(
                review,
                body.outcome,
                actor=self.caller.user,
                reason=body.reason.strip(),
                data=body.data,
                version=body.version,
                door=door,
            )
        except (AlreadyDecided, UnknownOutcome) as refused:
            # As for every question: that it has changed is told before that it is over.
            if body.version not in (None, review.version):
                raise Stale from refused
            raise
        assert done.vote is not None
        told = {
            "id": str(review.pk),
            "instance": str(review.instance_id),
            "vote": str(done.vote.pk),
            "status": done.state,
            "outcome": done.outcome or None,
            "version": done.review.version,
        }
        return ChangeAnswer(told, instance=review.instance_id)
