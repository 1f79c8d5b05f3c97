"""What an agent can do at one person's desk: look at what waits, and decide.

Lives here: the three calls as plain Python, without the protocol (`server`). Invariants owned: every call asks anew who
the person is and what they may; a decision is recorded as made by a program on their behalf; what they may not see is
not there.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from django.contrib.auth import get_user_model

from approvals.actions.visibility import hiding
from approvals.cards.card import build_card
from approvals.cards.case_query import load_case
from approvals.deciding.decisions import decide
from approvals.exceptions import UnknownReview
from approvals.models import Review
from approvals.rest.review_rows import name_people, read_rows, show_card, show_listed
from approvals.reviews.held_case import read_id
from approvals.rules.door import Door
from workflows.access.memberships import list_workspaces
from workflows.exceptions import InvalidCall
from workflows.values.json_text import check_text

#: Rows of one look.
MOST = 50
#: A program looks at no screen, whatever it says it has read.
DOOR = Door(name="mcp", is_automated=True, saw_diff=False, has_reauthenticated=False)


@dataclass(frozen=True, slots=True)
class AgentDesk:
    """One person's, in one workspace.

    >>> [row["title"] for row in AgentDesk(ann.pk, 1).list_pending()["results"]]
    ['Refund €1,240.00 to Acme GmbH']
    """

    #: The key of the user.
    user: Any
    workspace: int

    def list_pending(self, workflow: str = "", limit: int = 20) -> dict[str, Any]:
        """What the person may decide now, what is due first before the rest."""
        rows = Review.objects.for_user(self._find_user(), workspace=self.workspace).by_due()
        if workflow:
            rows = rows.filter(workflow=check_text(workflow, "the name of a workflow"))
        found = list(read_rows(rows)[: min(limit, MOST) + 1])
        shown = [show_listed(review) for review in found[: min(limit, MOST)]]
        name_people(shown)
        return {"results": shown, "more": len(found) > len(shown)}

    def get(self, id: str) -> dict[str, Any]:
        """All of one review, as the person would see it."""
        user = self._find_user()
        case = load_case(read_id(id), user, workspace=self.workspace)
        if case is None:
            raise UnknownReview(id)
        return show_card(build_card(case.review, user, case=case), case.review, case)

    def decide(self, id: str, outcome: str, version: int, reason: str = "", data: Any = None) -> dict[str, Any]:
        """Record the person's decision; what became of it."""
        user = self._find_user()
        review = Review.objects.filter(pk=read_id(id), workspace_id=self.workspace).first()
        if review is None:
            raise UnknownReview(id)
        with hiding(review.pk, user, workspace=self.workspace):
            done = decide(review, outcome, actor=user, reason=reason, data=data, version=version, door=DOOR)
        return {"id": str(review.pk), "status": done.state, "outcome": done.outcome or None}

    def _find_user(self) -> Any:
        """Who it is now: an account may be closed, or taken out of the workspace, while an agent runs."""
        user = get_user_model()._default_manager.filter(pk=self.user).first()
        if user is None or not user.is_active:
            raise InvalidCall("this account is closed: nothing can be seen or decided with it")
        if all(id != self.workspace for id, _ in list_workspaces(user)):
            raise InvalidCall("this account is no member of the workspace any more")
        return user


def open_desk(username: str, workspace: str | None = None) -> AgentDesk:
    """The desk of a user; `InvalidCall` says what to name instead."""
    model = get_user_model()
    check_text(username, "the name of a user")
    user = model._default_manager.filter(**{model.USERNAME_FIELD: username}).first()
    if user is None or not user.is_active:
        raise InvalidCall(f"there is no user {username!r} who can log in")
    mine = {slug: id for id, slug in list_workspaces(user)}
    if workspace is None and len(mine) == 1:
        return AgentDesk(user.pk, *mine.values())
    if workspace is None or workspace not in mine:
        known = ", ".join(mine) or "none"
        raise InvalidCall(f"say in which workspace, with --workspace: {username!r} is in {known}")
    return AgentDesk(user.pk, mine[workspace])
