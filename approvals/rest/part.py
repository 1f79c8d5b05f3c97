"""The reviewers' part of `/v1`, as `workflows.rest.base.extensions` takes it: addresses, the document's words, the problems."""

from __future__ import annotations

from django.urls import path

from approvals.rest import acting, listing, refusals, reviews
from workflows.rest.base.extensions import ApiPart

PART = ApiPart(
    "Approvals",
    "What people decide, each under their own rights. A key may look; deciding takes a person's session.",
    [
        path("v1/approvals", listing.Reviews.as_view(), name="approvals"),
        path("v1/approvals/<str:id>", reviews.OneReview.as_view(), name="approval"),
        path("v1/approvals/<str:id>/decide", reviews.DecideReview.as_view(), name="approval-decide"),
        path("v1/approvals/<str:id>/claim", acting.ClaimReview.as_view(), name="approval-claim"),
        path("v1/approvals/<str:id>/release", acting.ReleaseReview.as_view(), name="approval-release"),
        path("v1/approvals/<str:id>/delegate", acting.DelegateReview.as_view(), name="approval-delegate"),
        path("v1/approvals/<str:id>/comment", acting.CommentReview.as_view(), name="approval-comment"),
        path("v1/approvals/<str:id>/request_info", acting.RequestInfo.as_view(), name="approval-request-info"),
        path("v1/approvals/<str:id>/undo", acting.UndoReview.as_view(), name="approval-undo"),
    ],
    refusals.KINDS,
)
