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
        *(
            path(
                f"v1/approvals/<str:id>/{action.address}",
                action.as_view(),
                name=f"approval-{action.address.replace('_', '-')}",
            )
            for action in action_views.ACTIONS
        ),
    ],
    refusal_problems.KINDS,
)
