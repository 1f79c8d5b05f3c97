"""A setting is read once, and again after it has been changed."""

from __future__ import annotations

from typing import Any

import pytest
from django.core.exceptions import ImproperlyConfigured
from django.test import override_settings

from approvals.conf import conf as approvals_conf
from tests.support.call_counts import count_calls
from workflows.conf import conf


def test_a_setting_that_was_read_costs_no_call():
    before = (conf.max_body, conf.policy, conf.api_rate, approvals_conf.undo_seconds)
    with count_calls() as counts:
        assert (conf.max_body, conf.policy, conf.api_rate, approvals_conf.undo_seconds) == before
    assert not counts, str(counts)


def test_a_setting_that_is_overridden_is_read_anew_and_so_is_what_was_there_before():
    before = conf.max_body
    with override_settings(WORKFLOWS={"MAX_BODY": before + 1}):
        assert conf.max_body == before + 1
        with override_settings(WORKFLOWS={}):
            assert conf.max_body == 512 * 1024
        assert conf.max_body == before + 1
    assert conf.max_body == before


def test_a_setting_that_pytest_changes_is_read_anew(settings: Any):
    assert approvals_conf.undo_seconds == 8
    settings.APPROVALS = {"UNDO_SECONDS": 1}
    assert approvals_conf.undo_seconds == 1


def test_a_value_that_is_made_of_another_setting_follows_it(settings: Any):
    settings.APPROVALS, settings.DEFAULT_FROM_EMAIL = {}, "first@holdpoint.example"
    assert approvals_conf.from_email == "first@holdpoint.example"
    settings.DEFAULT_FROM_EMAIL = "second@holdpoint.example"
    assert approvals_conf.from_email == "second@holdpoint.example"


def test_a_setting_that_cannot_be_read_is_refused_at_every_access(settings: Any):
    settings.WORKFLOWS = {"API_RATE": "often"}
    for _ in range(2):
        with pytest.raises(ImproperlyConfigured, match="API_RATE"):
            _ = conf.api_rate
    settings.WORKFLOWS = {"API_RATE": "1/s"}
    assert conf.api_rate == (1, 1)
