"""People in a workflow: reviewers, policies, votes and the inbox.

What authors import comes from here, lazily, so that importing the package loads no model.
Depends on `workflows`; nothing in `workflows` may know this package.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from approvals.actions.actions import answer_info as answer_info
    from approvals.actions.actions import claim as claim
    from approvals.actions.actions import comment as comment
    from approvals.actions.actions import extend as extend
    from approvals.actions.actions import nudge as nudge
    from approvals.actions.actions import release as release
    from approvals.actions.actions import request_info as request_info
    from approvals.actions.actions import snooze as snooze
    from approvals.actions.actions import unsnooze as unsnooze
    from approvals.actions.actions import withdraw as withdraw
    from approvals.actions.delegation import delegate as delegate
    from approvals.actions.delegation import reassign as reassign
    from approvals.asking.approval import Approval as Approval
    from approvals.deciding.decisions import decide as decide
    from approvals.deciding.undo_window import undo as undo
    from approvals.exceptions import AlreadyDecided as AlreadyDecided
    from approvals.exceptions import ApprovalError as ApprovalError
    from approvals.exceptions import DecisionFailed as DecisionFailed
    from approvals.exceptions import DecisionRefused as DecisionRefused
    from approvals.exceptions import InvalidApproval as InvalidApproval
    from approvals.exceptions import NotAllowed as NotAllowed
    from approvals.exceptions import ReasonRequired as ReasonRequired
    from approvals.exceptions import Stale as Stale
    from approvals.exceptions import TooSoon as TooSoon
    from approvals.exceptions import UnknownOutcome as UnknownOutcome
    from approvals.exceptions import UnknownReview as UnknownReview
    from approvals.people.principals import candidates as candidates
    from approvals.requested import apply_requested_change as apply_requested_change
    from approvals.reviews.permissions import explain as explain
    from approvals.rules import Outcome as Outcome
    from approvals.rules import Veto as Veto
    from approvals.rules.calendar import Calendar as Calendar
    from approvals.rules.calendar import register_calendar as register_calendar
    from workflows.definitions.decision import Answer as Answer

#: By this `workflows.importing.foreign_packages` knows that nobody else's package stands here.
__holdpoint__ = True

try:
    from workflows.importing import foreign_packages as _foreign_packages  # noqa: F401 - reports a foreign `workflows`
except ImportError as error:
    if getattr(error, "name", None) == "workflows" and "Holdpoint" in str(error):
        raise
    raise ImportError(
        "The package 'workflows' that Python finds is not Holdpoint's, and approvals needs that one. Rename yours, or "
        "move it into a package (mysite/workflows/, imported as mysite.workflows). Where a distribution brought it, "
        "make an environment without that one, and run `pip install --force-reinstall django-holdpoint` in it.",
        name="workflows",
    ) from error

_HOMES = {
    "approvals.reviews.permissions": "explain",
    "approvals.actions.actions": "answer_info claim comment extend nudge release request_info snooze unsnooze withdraw",
    "approvals.rules.calendar": "Calendar register_calendar",
    "approvals.asking.approval": "Approval",
    "approvals.deciding.decisions": "decide",
    "approvals.exceptions": (
        "AlreadyDecided ApprovalError DecisionFailed DecisionRefused InvalidApproval NotAllowed ReasonRequired Stale "
        "TooSoon UnknownOutcome UnknownReview"
    ),
    "approvals.deciding.undo_window": "undo",
    "approvals.actions.delegation": "delegate reassign",
    "approvals.rules": "Outcome Veto",
    "approvals.people.principals": "candidates",
    "approvals.requested": "apply_requested_change",
    "workflows.definitions.decision": "Answer",
}
_HOME_OF = {name: module for module, names in _HOMES.items() for name in names.split()}

__all__ = sorted(_HOME_OF)


def __getattr__(name: str) -> Any:
    if name not in _HOME_OF:
        raise AttributeError(f"module 'approvals' has no attribute {name!r}")
    value = getattr(import_module(_HOME_OF[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return __all__
