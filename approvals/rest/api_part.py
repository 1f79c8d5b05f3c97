"""The reviewers' part of `/v1`, for `workflows.rest.base.extensions`: addresses, the document's words, the problems."""

from __future__ import annotations

from django.urls import path

from approvals.rest import action_views, refusal_problems, review_list, review_views
from workflows.rest.base.extensions import ApiPart

PART = ApiPart(
    "Approvals",
    "What people decide, each under their own rights. A key may look; deciding takes a person's session.",
    [
        path("v1/approvals", review_list.Reviews.as_view(), name="approvals"),
        path("v1/approvals/<str:id>", review_views.OneReview.as_view(), name="approval"),
        path("v1/approvals/<str:id>/decide", review_views.DecideReview.as_view(), name="approval-decide"),
        path("v1/approvals/<str:id>/claim", action_views.ClaimReview.as_view(), name="approval-claim"),
        path("v1/approvals/<str:id>/release", action_views.ReleaseReview.as_view(), name="approval-release"),
        path("v1/approvals/<str:id>/delegate", action_views.DelegateReview.as_view(), name="approval-delegate"),
        path("v1/approvals/<str:id>/comment", action_views.CommentReview.as_view(), name="approval-comment"),
        path("v1/approvals/<str:id>/request_info", action_views.RequestInfo.as_view(), name="approval-request-info"),
        path("v1/approvals/<str:id>/undo", action_views.UndoReview.as_view(), name="approval-undo"),
    ],
    refusal_problems.KINDS,
)
