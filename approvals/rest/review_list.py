"""GET /v1/approvals: what there is to decide, and what was decided.

Lives here: the filters and the orders. Invariant owned: without a filter a person gets exactly what the inbox counts
(`Review.objects.for_user`); every order is one that an index has.
"""

from __future__ import annotations

from typing import Any

from django.contrib.auth import get_user_model
from django.contrib.auth.models import Group
from django.db.models import Exists, OuterRef, Q, QuerySet
from django.http import HttpRequest, HttpResponse
from drf_spectacular.utils import OpenApiParameter
from rest_framework.request import Request

from approvals.models import Candidate, Review
from approvals.models.review import RISKS
from approvals.people.principals import GROUP, USER, has_groups
from approvals.people.viewer import see_as
from approvals.rest.review_endpoint import ReviewEndpoint
from approvals.rest.review_rows import name_people, read_rows, show_listed
from approvals.rest.shapes import ApprovalList
from workflows.clock import Now
from workflows.rest.base.lists import Segment, answer_list, read_choice, read_filter
from workflows.rest.protocol.operation import FILTER, document

STATUSES = ("open", "grace", "decided", "closed", "any")
FLAGS = ("true", "false")
ME = "me"

#: What is due first; then what is never due, the oldest first.
BY_DUE = (
    Segment(("due_at", "interaction_id"), Q(due_at__isnull=False)),
    Segment(("interaction_id",), Q(due_at__isnull=True), same=("due_at",)),
)
BY_DECISION = (Segment(("decided_at", "interaction_id"), Q(decided_at__isnull=False), descending=True),)
NEWEST = (Segment(("interaction_id",), descending=True),)
#: What an index finds: filters, and statuses. All else is looked for in a window of the list.
INDEXED = ("requester", "assignee", "group", "subject")
INDEXED_STATUSES = (None, "open", "decided", "any")
NARROWING = ("workflow", "step", "risk", "overdue")
ORDERS = {"open": BY_DUE, "grace": BY_DUE, "decided": BY_DECISION, "closed": NEWEST, "any": NEWEST}

PARAMETERS = [
    OpenApiParameter(
        "status",
        str,
        enum=list(STATUSES),
        description="All that you may see in this status. Without it, a person gets what they may decide now, and a "
        "key what is open.",
    ),
    OpenApiParameter("workflow", FILTER, description="Of this workflow."),
    OpenApiParameter("step", FILTER, description="Of this wait."),
    OpenApiParameter("risk", str, enum=list(RISKS), description="Of this risk."),
    OpenApiParameter(
        "requester", FILTER, description="Asked for by this username, or by `me`; in any status unless one is named."
    ),
    OpenApiParameter("assignee", FILTER, description="That ask this username by name, or `me`."),
    OpenApiParameter("group", FILTER, description="That ask this group."),
    OpenApiParameter("subject", FILTER, description="About this model (`shop.order`), or row (`shop.order:7`)."),
    OpenApiParameter("overdue", str, enum=list(FLAGS), description="Whether they were due before now."),
    OpenApiParameter(
        "snoozed",
        str,
        enum=list(FLAGS),
        description="Of what you may decide now: what you put aside, or the rest.",
    ),
]


class Reviews(ReviewEndpoint):
    """The reviews of a caller."""

    @document(
        "listApprovals",
        "Approvals",
        "List what is to be decided",
        "Without `status`, what you may decide now: what is due first comes first, then what is never due, the oldest "
        "first. What was decided comes with the latest decision first. Blank filters are ignored. With a status or a "
        "filter, 2,000 are looked through for a page: it may hold fewer than `limit`, or none, though `next` goes on.",
        answers={200: (ApprovalList, "A page of them.")},
        scope="read",
        pages=True,
        parameters=PARAMETERS,
    )
    def get(self, request: Request) -> HttpResponse:
        """A page of them."""
        plain = request._request
        status = read_choice(plain, "status", STATUSES)
        requester = read_filter(plain, "requester")
        snoozed = read_choice(plain, "snoozed", FLAGS) == "true"
        if status is None and requester is not None:
            status = "any"
        rows = self.list_inbox(snoozed=snoozed) if status is None else self.list_visible().with_status(status)
        if requester is not None:
            rows = rows.filter(self.is_requested_by(requester))
        rows = self.filter_asked(plain, rows, is_open=status in (None, "open", "grace"))
        rows = read_rows(filter_rows(plain, rows))
        within = self.find_window(plain, status)
        return answer_list(plain, rows, ORDERS[status or "open"], show_listed, complete=name_people, within=within)

    def find_window(self, request: HttpRequest, status: str | None) -> QuerySet[Any] | None:
        """What is looked through for a page, where no index has what is asked for; None where one has."""
        user = self.caller.user
        if (status is None and user is not None) or any(read_filter(request, name) for name in INDEXED):
            return None
        sees_all = self.caller.workflows is None if user is None else see_as(user).may_see_all
        if sees_all and status in INDEXED_STATUSES and not any(read_filter(request, name) for name in NARROWING):
            return None
        rows = Review.objects.using(self.db.alias).filter(workspace_id=self.caller.workspace)
        return rows.filter(open=True) if status in (None, "open", "grace") else rows

    def list_inbox(self, *, snoozed: bool) -> Any:
        """What the caller may decide now; for a key, what is open."""
        if self.caller.user is None:
            return self.list_visible().with_status("open")
        rows = Review.objects.using(self.db.alias)
        return rows.for_user(self.caller.user, workspace=self.caller.workspace, snoozed=snoozed)

    def filter_asked(self, request: HttpRequest, rows: QuerySet[Any], *, is_open: bool) -> QuerySet[Any]:
        """Those that ask whom the request names."""
        principals = []
        if (assignee := read_filter(request, "assignee")) is not None:
            principals.append(f"{USER}:{self.find_user(assignee)}")
        if (group := read_filter(request, "group")) is not None:
            principals.append(f"{GROUP}:{find_group(group)}")
        for principal in principals:
            rows = rows.filter(is_asked(rows, principal, self.caller.workspace, is_open=is_open))
        return rows

    def is_requested_by(self, named: str) -> Q:
        """The condition that this user asked; nobody asked where there is no such user, and not no one."""
        if named == ME and self.caller.user is not None:
            return Q(requester_id=self.caller.user.pk)
        return Q(**{f"requester__{get_user_model().USERNAME_FIELD}": named})

    def find_user(self, named: str) -> Any:
        """The key of a user; None for nobody, whom nothing was asked of."""
        if named == ME and self.caller.user is not None:
            return self.caller.user.pk
        model = get_user_model()
        return model._default_manager.filter(**{model.USERNAME_FIELD: named}).values_list("pk", flat=True).first()


def filter_rows(request: HttpRequest, rows: QuerySet[Any]) -> QuerySet[Any]:
    """Narrowed down by what a review says of itself."""
    for name in ("workflow", "step"):
        if (value := read_filter(request, name)) is not None:
            rows = rows.filter(**{name: value})
    if (risk := read_choice(request, "risk", RISKS)) is not None:
        rows = rows.filter(risk=risk)
    if (subject := read_filter(request, "subject")) is not None:
        model, _, key = subject.partition(":")
        rows = rows.filter(subject_model=model.lower(), **({"subject_pk": key} if key else {}))
    if (overdue := read_choice(request, "overdue", FLAGS)) is not None:
        is_late = Q(due_at__lt=Now())
        rows = rows.filter(is_late if overdue == "true" else ~is_late | Q(due_at__isnull=True))
    return rows


def is_asked(rows: QuerySet[Any], principal: str, workspace: int, *, is_open: bool) -> Exists:
    """The condition that a review asks this one by name; where only open ones are meant, an index has just those."""
    named = Candidate.objects.using(rows.db).filter(review_id=OuterRef("pk"), principal=principal)
    named = named.filter(workspace_id=workspace)
    return Exists(named.filter(open=True) if is_open else named)


def find_group(name: str) -> Any:
    """The key of a group."""
    return Group.objects.filter(name=name).values_list("pk", flat=True).first() if has_groups() else None
