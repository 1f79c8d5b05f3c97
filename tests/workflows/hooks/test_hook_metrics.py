"""/metrics counts what became of requests to hooks."""

from __future__ import annotations

import pytest
from django.db import connections

import workflows
from tests.support.hook_posts import post, send, signed
from workflows import hook
from workflows.api import refused
from workflows.models import Workspace
from workflows.operations.metrics import read_metrics

pytestmark = pytest.mark.django_db


def read(workspace: str | None) -> dict[str, float]:
    scope = None if workspace is None else Workspace.objects.get(slug=workspace).pk
    found = {}
    for family in read_metrics(connections["default"], scope).collect():
        if family.name == "holdpoint_hooks":
            found = {one.labels["outcome"]: one.value for one in family.samples if one.value}
    return found


def test_what_was_taken_and_what_was_refused_is_counted_by_its_workspace() -> None:
    workflows.workspace.create("acme")
    hook("ours", verify=signed)(lambda message: None)
    hook("acmes", verify=signed, workspace="acme")(lambda message: None)
    hook("fails", verify=signed, workspace="acme")(lambda message: 1 / 0)
    hook("early", verify=signed, workspace="acme")(lambda message: workflows.signal("nobody", "paid") and None)
    for name in ("ours", "acmes", "acmes", "fails", "early", "nobody"):
        post(name, {"id": "evt_1"})
    send("/hooks/ours", b"{}")
    post("ours", b"{")
    strangers = {"unverified": 1, "unknown": 1, "unreadable": 1}  # of whom nobody knows whose they are
    assert refused.flush_dropped()
    assert read("default") == {"taken": 1, **strangers}
    assert read("acme") == {"taken": 1, "repeated": 1, "failed": 1, "not_taken": 1, **strangers}
    assert read(None) == {"taken": 2, "repeated": 1, "failed": 1, "not_taken": 1, **strangers}


def test_an_outcome_that_is_not_known_is_refused() -> None:
    with pytest.raises(workflows.InvalidCall, match="is no outcome of a hook"):
        refused.count_hook(None, "lost")
