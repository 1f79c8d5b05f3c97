"""What people do with a review beside deciding it: /v1/approvals/{id}/claim, release, delegate, comment …

Lives here: reading the call and writing the answer; what each does, and who may not, is `approvals.actions.actions`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, ClassVar, TypeVar

from django.http import HttpResponse
from rest_framework.request import Request

from approvals.actions import actions
from approvals.actions.delegation import delegate
from approvals.deciding.undo_window import undo
from approvals.models import Review
from approvals.rest.action_bodies import CommentOut, DelegateBody, NothingBody, SayBody
from approvals.rest.review_endpoint import DOOR, REFUSED, ReviewEndpoint
from approvals.rest.review_rows import show_comment, show_review
from approvals.rest.shapes import ApprovalOut
from approvals.rules.door import Door
from workflows.rest.base.endpoint import ChangeAnswer
from workflows.rest.protocol.bodies import Body, read_as
from workflows.rest.protocol.operation import ID, document

F = TypeVar("F", bound=Callable[..., Any])


class ReviewAction(ReviewEndpoint):
    """What the other actions share: the body, the call, and the review as it is afterwards."""

    #: The end of its address.
    address: ClassVar[str]
    body: ClassVar[type[Body]] = NothingBody

    def carry_out(self, request: Request, id: str) -> HttpResponse:
        """Do it."""
        raw, value = self.read_body(request, empty=self.body is NothingBody)
        body = read_as(self.body, value)

        def do(review: Review) -> ChangeAnswer:
            return ChangeAnswer(self.do(review, body), instance=review.instance_id)

        return self.act(request, raw, id, do)

    def do(self, review: Review, body: Any) -> dict[str, Any]:
        """Do it; what the caller is told."""
        raise NotImplementedError


def describe_action(
    name: str,
    summary: str,
    description: str,
    body: type[Body],
    answer: Any,
    told: str,
    *,
    problems: Sequence[int] = (404, 410),
) -> Callable[[F], F]:
    """The document's words for one of them."""
    return document(
        name,
        "Approvals",
        summary,
        description,
        body=body,
        answers={200: (answer, told), **REFUSED},
        problems=problems,
        people=True,
        posts=True,
        parameters=[ID],
    )


class ClaimReview(ReviewAction):
    """Being at it."""

    address = "claim"

    @describe_action(
        "claimApproval",
        "Say that you are at it",
        "Others cannot decide until you release it or decide. The body may be left out.",
        NothingBody,
        ApprovalOut,
        "It is yours; also if it was before.",
    )
    def post(self, request: Request, id: str) -> HttpResponse:
        """Claim it."""
        return self.carry_out(request, id)

    def do(self, review: Review, body: NothingBody) -> dict[str, Any]:
        """Claim it."""
        return show_review(actions.claim(review, actor=self.caller.user, door=DOOR))


class ReleaseReview(ReviewAction):
    """Letting others."""

    address = "release"

    @describe_action(
        "releaseApproval",
        "Let others decide again",
        "Whoever claimed it may, and who may reassign. The body may be left out.",
        NothingBody,
        ApprovalOut,
        "It is nobody's; also if it was before.",
    )
    def post(self, request: Request, id: str) -> HttpResponse:
        """Release it."""
        return self.carry_out(request, id)

    def do(self, review: Review, body: NothingBody) -> dict[str, Any]:
        """Release it."""
        return show_review(actions.release(review, actor=self.caller.user, door=DOOR))


class DelegateReview(ReviewAction):
    """Handing one's share on."""

    address = "delegate"
    body = DelegateBody

    @describe_action(
        "delegateApproval",
        "Hand your share on to somebody else",
        "They decide in your place, and you no longer.",
        DelegateBody,
        ApprovalOut,
        "They are asked, and told.",
        problems=(404, 410, 422),
    )
    def post(self, request: Request, id: str) -> HttpResponse:
        """Hand it on."""
        return self.carry_out(request, id)

    def do(self, review: Review, body: DelegateBody) -> dict[str, Any]:
        """Hand it on."""
        given = {"to": body.to, "reason": body.reason.strip()}
        return show_review(delegate(review, actor=self.caller.user, door=DOOR, **given))


class CommentReview(ReviewAction):
    """Saying something."""

    address = "comment"
    body = SayBody

    @describe_action(
        "commentApproval",
        "Say something about it",
        "To all who see it, also once it is decided.",
        SayBody,
        CommentOut,
        "Said.",
        problems=(404,),
    )
    def post(self, request: Request, id: str) -> HttpResponse:
        """Say it."""
        return self.carry_out(request, id)

    def do(self, review: Review, body: SayBody) -> dict[str, Any]:
        """Say it."""
        return show_comment(actions.comment(review, body.text, actor=self.caller.user, door=DOOR))


class RequestInfo(ReviewAction):
    """Asking back."""

    address = "request_info"
    body = SayBody

    @describe_action(
        "requestInfo",
        "Ask the requester something",
        "They are told, and answer by a link. It can be decided meanwhile; their answer raises its version.",
        SayBody,
        CommentOut,
        "Asked.",
    )
    def post(self, request: Request, id: str) -> HttpResponse:
        """Ask."""
        return self.carry_out(request, id)

    def do(self, review: Review, body: SayBody) -> dict[str, Any]:
        """Ask."""
        return show_comment(actions.request_info(review, body.text, actor=self.caller.user, door=DOOR))


class UndoReview(ReviewAction):
    """Taking one's decision back."""

    address = "undo"

    @describe_action(
        "undoApproval",
        "Take your decision back",
        "While others still have to decide, or within the seconds in which a decision made on the page can be undone. "
        "Nothing is deleted: the timeline shows both. The body may be left out.",
        NothingBody,
        ApprovalOut,
        "It waits again as if you had not decided.",
    )
    def post(self, request: Request, id: str) -> HttpResponse:
        """Take it back."""
        return self.carry_out(request, id)

    def do(self, review: Review, body: NothingBody) -> dict[str, Any]:
        """Take it back."""
        return show_review(undo(review, actor=self.caller.user, door=Door(name=DOOR)))


#: In the order of the document.
ACTIONS: tuple[type[ReviewAction], ...] = (
    ClaimReview,
    ReleaseReview,
    DelegateReview,
    CommentReview,
    RequestInfo,
    UndoReview,
)
