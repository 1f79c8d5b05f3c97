"""What other code may rely on: the names of `approvals`, their arguments, and that importing them costs nothing."""

from __future__ import annotations

import inspect
import pkgutil

import pytest

import approvals
from tests.support.processes import run_python

ASKING = "Answer Approval Calendar Outcome Veto apply_requested_change candidates register_calendar"
DECIDING = "decide undo"
ACTIONS = """
    answer_info claim comment delegate explain extend nudge reassign release request_info snooze unsnooze withdraw
"""
ERRORS = """
    AlreadyDecided ApprovalError DecisionFailed DecisionRefused InvalidApproval NotAllowed ReasonRequired Stale TooSoon
    UnknownOutcome UnknownReview
"""


def test_the_export_list_is_this_one() -> None:
    assert approvals.__all__ == sorted(f"{ASKING} {DECIDING} {ACTIONS} {ERRORS}".split())


def test_no_module_takes_the_place_of_an_exported_name() -> None:
    # Importing a module approvals.claim would replace the function approvals.claim.
    modules = {found.name for found in pkgutil.iter_modules(approvals.__path__)}
    assert not modules & set(approvals.__all__)


def test_every_export_can_be_imported_and_listed() -> None:
    for name in approvals.__all__:
        assert getattr(approvals, name) is not None
    assert set(approvals.__all__) <= set(dir(approvals))


def test_an_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="'approvals' has no attribute 'approve'"):
        _ = approvals.approve  # type: ignore[attr-defined]


@pytest.mark.parametrize("name", approvals.__all__)
def test_everything_exported_says_what_it_is(name: str) -> None:
    assert inspect.getdoc(getattr(approvals, name))


def test_importing_approvals_loads_no_model_and_needs_no_settings() -> None:
    loaded = run_python(
        "import sys, approvals\n"
        "print(sorted(m for m in sys.modules if m.startswith(('django.', 'workflows', 'approvals.', 'psycopg'))))"
    )
    names = ["workflows", "workflows.importing"]
    assert loaded == str([*names, "workflows.importing.foreign_packages", "workflows.importing.moved_modules"])


def test_writing_a_workflow_with_an_approval_needs_no_settings_before_it_runs() -> None:
    script = (
        "from approvals import Approval, Outcome, Veto\n"
        "from workflows import Await, Workflow, step\n"
        "class Refund(Workflow):\n"
        "    @step\n"
        "    def ask(self, ctx): return Await(Approval('Refund Acme', quorum=Veto(2)), then='ask')\n"
        "import sys\n"
        "from django.conf import settings\n"
        "print('approvals.models' in sys.modules, settings.configured)"
    )
    assert run_python(script) == "False False"


@pytest.mark.parametrize(
    ("name", "signature"),
    [
        (
            "Approval",
            "title * subject=None change=None request=None schema=None outcomes=('approve', 'reject') assignees=() "
            "groups=() permission=None candidates=None quorum=1 four_eyes=True requester=None risk='low' evidence=() "
            "on_decision=None calendar=None due=None remind=None escalate=None why=''",
        ),
        ("Outcome", "name label='' tone=None requires_reason=None presets=()"),
        ("Veto", "rule=1 outcomes=('reject',)"),
        ("Calendar", "timezone hours=None holidays=()"),
        ("register_calendar", "name calendar"),
        ("candidates", "name"),
        ("undo", "review * actor door=Door"),
        ("decide", "review outcome * actor reason='' data=None version=None grace=False override=False door=Door"),
        ("claim", "review * actor door='python'"),
        ("release", "review * actor door='python'"),
        ("delegate", "review * to actor reason='' door='python'"),
        ("reassign", "review * users=() groups=() actor reason='' keep=False door='python'"),
        ("extend", "review * actor due=None deadline=None reason='' door='python'"),
        ("comment", "review text * actor door='python'"),
        ("request_info", "review text * actor door='python'"),
        ("answer_info", "review text * actor door='python'"),
        ("snooze", "review * until actor door='python'"),
        ("unsnooze", "review * actor"),
        ("nudge", "review * actor door='python'"),
        ("withdraw", "review * actor reason='' door='python'"),
        ("explain", "review user"),
    ],
)
def test_calls_take_these_arguments(name: str, signature: str) -> None:
    words = []
    for one in inspect.signature(getattr(approvals, name)).parameters.values():
        if one.kind is one.KEYWORD_ONLY and "*" not in words:
            words.append("*")
        default = "Door" if type(one.default).__name__ == "Door" else repr(one.default)
        words.append(one.name if one.default is one.empty else f"{one.name}={default}")
    assert " ".join(words) == signature


def test_every_error_is_of_one_tree() -> None:
    assert all(issubclass(getattr(approvals, name), approvals.ApprovalError) for name in ERRORS.split())
