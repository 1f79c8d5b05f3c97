"""The address of a call that waits: what its requester, and who may see the request, is told of it.

Invariant owned: it is the same 404 for what is not there and for what is not yours.
"""

from __future__ import annotations

from typing import Any
from uuid import UUID

from django.db import router
from django.http import Http404
from rest_framework.authentication import SessionAuthentication
from rest_framework.permissions import IsAuthenticated
from rest_framework.renderers import JSONRenderer
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from approvals.models import Review
from approvals.people.person import Person
from approvals.required.api import CALL
from approvals.required.core.frozen_approval import name_key
from approvals.required.core.proposal_seal import NotSealed, unseal
from workflows.lifecycle import Status
from workflows.models import Instance
from workflows.rest.base.endpoint import AlwaysJson


class CallView(APIView):
    """GET tells how it stands, to somebody who is logged in on this site; no setting of the project changes it.

    For callers with logins of their own, such as tokens: subclass this with the `authentication_classes` of the view
    that was called, and name its address in `get_approval_url`.
    """

    authentication_classes = (SessionAuthentication,)
    permission_classes = (IsAuthenticated,)
    throttle_classes = ()
    renderer_classes = (JSONRenderer,)
    content_negotiation_class = AlwaysJson
    parser_classes = ()
    versioning_class = None

    def finalize_response(self, request: Request, response: Any, *args: Any, **kwargs: Any) -> Any:
        """What is told to one person stays in no cache, and is no page that could run anything."""
        response = super().finalize_response(request, response, *args, **kwargs)
        response["Cache-Control"] = "no-store"
        response["Content-Security-Policy"] = "default-src 'none'; frame-ancestors 'none'"
        response["X-Content-Type-Options"] = "nosniff"
        return response

    def get(self, request: Request, id: UUID) -> Response:
        """Its status: pending, approved (but not done yet), done, refused, failed, rejected, expired or cancelled."""
        rows = Instance.objects.using(router.db_for_write(Instance))
        instance = rows.filter(pk=id, workflow=CALL).first()
        review = None if instance is None else find_review(instance, request.user)
        if instance is None or not (review is not None or is_requester(instance, request.user)):
            raise Http404
        return Response({**describe_call(instance), "url": request.build_absolute_uri(request.path)})


def is_requester(instance: Instance, user: Person) -> bool:
    """Whether it was this user who called."""
    try:
        return bool(unseal(instance)["requester"] == name_key(user))
    except NotSealed:
        return False


def find_review(instance: Instance, user: Person) -> Review | None:
    """The review of it, where this user may look at that."""
    found: Review | None = Review.objects.visible_to(user).filter(instance=instance).first()
    return found


def describe_call(instance: Instance) -> dict[str, Any]:
    """How a call stands, and once it was made what it was answered.

    >>> describe_call(instance)["status"]
    'pending'
    """
    told: dict[str, Any] = {"id": str(instance.pk), "status": "pending", "decision": None, "response": None}
    rows = Review.objects.using(router.db_for_write(Review)).filter(instance=instance)
    decided = rows.values("open", "outcome", "decided_at").first()
    if decided is not None and not decided["open"] and decided["outcome"]:
        told["decision"] = {"outcome": decided["outcome"], "at": decided["decided_at"]}
        told["status"] = "approved"
    if instance.status == Status.CANCELLED:
        told["status"] = "cancelled"
    elif instance.status == Status.FAILED:
        told["status"] = "failed"
    elif instance.status == Status.DONE:
        result: Any = instance.result
        told["response"] = result.get("response")
        told["decision"] = {**(told["decision"] or {}), "outcome": result["outcome"], "reason": result["reason"]}
        told["status"] = _find_end(result)
    return told


def _find_end(result: dict[str, Any]) -> str:
    response = result.get("response")
    if response is None:
        return "expired" if result["outcome"] == "expired" else "rejected"
    return "done" if response["status"] < 400 else "refused"
