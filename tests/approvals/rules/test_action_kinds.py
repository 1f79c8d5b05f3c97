"""The table of actions: every action that has a rule has a row, and the words of its row."""

from __future__ import annotations

import doctest

import pytest
from django.utils import translation

from approvals.reviews.permissions import CHECKS
from approvals.rules import action_kinds
from approvals.rules.action_kinds import ACTION_KINDS, EVENT_KINDS, ActionKind

#: Deciding has words of its own: an outcome is not an action.
DECIDING = {"decide", "override"}


def test_every_action_with_a_rule_is_in_the_table_and_no_other() -> None:
    assert set(ACTION_KINDS) == set(CHECKS) - DECIDING
    assert all(name == kind.name for name, kind in ACTION_KINDS.items())


def test_no_two_actions_share_a_word_of_the_ledger() -> None:
    events = [kind.event for kind in ACTION_KINDS.values() if kind.event]
    assert len(events) == len(set(events)) == len(EVENT_KINDS)


def test_the_examples_in_the_docstrings_run() -> None:
    ran = doctest.testmod(action_kinds)
    assert ran.attempted
    assert not ran.failed


@pytest.mark.parametrize("kind", [kind for kind in ACTION_KINDS.values() if kind.done], ids=lambda kind: kind.name)
@pytest.mark.parametrize("language", ["en", "de", "ja"])
def test_what_was_done_is_said_with_every_value_and_with_none(kind: ActionKind, language: str) -> None:
    with translation.override(language):
        full = kind.describe({"to": "Ben", "of": "Ben", "due": "today", "kept": True})
        bare = kind.describe({"to": "Ben", "of": "", "due": "", "kept": None})
    assert full
    assert bare
    assert "%" not in full + bare
