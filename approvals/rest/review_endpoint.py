"""What the reviewers' addresses have in common.

Lives here: who may call, which reviews are there for a caller, and what becomes of a refusal. Invariants owned: a
person decides under their own rights, and a key never; what a caller may not see is answered as what is not there, with
the same bytes; and a refusal is in the ledger though the call is answered with a problem.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any, ClassVar

from django.http import HttpResponse
from rest_framework.request import Request

from approvals.actions.visibility import REFUSALS, hiding
from approvals.deciding.refused_attempt import note_refusal
from approvals.exceptions import ApprovalError, NotAllowed
from approvals.models import Review
from approvals.rest.action_bodies import RefusalProblemOut
from approvals.rest.refusal_problems import answer_refusal
from approvals.rules import Obstacle
from workflows.rest.base.authentication import Need
from workflows.rest.base.endpoint import ChangeAnswer, Endpoint
from workflows.rest.base.ids import read_id, refuse_unknown
from workflows.rest.base.throttle import count_call
from workflows.rest.protocol.problems import FORBIDDEN, RequestRefused

PEOPLE_ONLY = "A person decides, and not a key: log in, and send the session with its CSRF token."
#: What the document says of every refusal that is about how the review stands.
REFUSED = {409: (RefusalProblemOut, "It does not fit how it stands: `type`, `rule` and `difference` tell.")}
#: How the ledger and the votes name this door.
DOOR = "api"


class ReviewEndpoint(Endpoint):
    """One address of reviews."""

    #: Of a key. A person needs no permission: whom a review asks may see and decide it.
    needs: ClassVar = {"GET": Need("read", ""), "POST": Need("", "")}
    traced = REFUSALS

    def judge(self) -> None:
        """A key may look; all else takes a person."""
        if self.caller.user is not None:
            return
        if self.request.method == "POST":
            # No key fills the ledger faster than it may call; what is forbidden is told before what is too much.
            with suppress(RequestRefused):
                count_call(self.caller.actor, self.caller.rate)
                self.note_attempt()
            raise RequestRefused(FORBIDDEN, PEOPLE_ONLY)
        super().judge()

    def note_attempt(self) -> None:
        """That a key tried what takes a person is in the ledger."""
        id = read_id(str(self.kwargs["id"]))
        if Review.objects.using(self.db.alias).filter(pk=id, workspace_id=self.caller.workspace).exists():
            refused = NotAllowed(Obstacle("not_candidate", PEOPLE_ONLY))
            note_refusal(id, self.caller.actor, self.request.path.rpartition("/")[2], DOOR, refused)

    @property
    def answers_within(self) -> Sequence[str] | None:
        """Nobody is told what another person was told: a colleague's `Idempotency-Key` may well be the same."""
        return [self.caller.actor]

    def list_visible(self) -> Any:
        """The reviews that the caller may look at."""
        rows = Review.objects.using(self.db.alias)
        if self.caller.user is not None:
            return rows.visible_to(self.caller.user, workspace=self.caller.workspace)
        return self.narrow(rows.filter(workspace_id=self.caller.workspace))

    def narrow(self, rows: Any) -> Any:
        """Only those of the workflows that a key is for."""
        return rows if self.caller.workflows is None else rows.filter(workflow__in=self.caller.workflows)

    def act(self, request: Request, raw: bytes, text: str, do: Callable[[Review], ChangeAnswer]) -> HttpResponse:
        """Do something about one review, or say why not."""

        def carry_out() -> ChangeAnswer:
            rows = Review.objects.using(self.db.alias).filter(workspace_id=self.caller.workspace)
            found = rows.filter(pk=read_id(text)).first()
            if found is None:
                raise refuse_unknown()
            with hiding(found.pk, self.caller.user, workspace=self.caller.workspace):
                return do(found)

        return self.answer_once(request, raw, carry_out)

    def handle_exception(self, exc: Exception) -> Any:
        """Every error is a problem."""
        answer = answer_refusal(exc) if isinstance(exc, ApprovalError) else None
        return super().handle_exception(exc) if answer is None else answer
