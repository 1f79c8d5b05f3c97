"""`manage.py workflows`, for tests: a living worker, a call of the command, and an instance to look at."""

from __future__ import annotations

from collections.abc import Callable
from io import StringIO

import pytest
from django.core.management import call_command

from tests.support.clocks import beat_for_long
from workflows import Await, Done, Stop, Workflow, step


@pytest.fixture(autouse=True)
def worker(db: None) -> None:
    """One that lives; what is said where none does is tested with the first mistakes."""
    beat_for_long("somewhere", "workflow_worker", "somebody", silence=0.0)


@pytest.fixture(name="run")
def make_run(monkeypatch: pytest.MonkeyPatch) -> Callable[..., str]:
    """Call the command; what it printed. Errors it printed on its way come with it."""
    monkeypatch.setenv("COLUMNS", "120")

    def call(*arguments: object) -> str:
        out = StringIO()
        call_command("workflows", *map(str, arguments), stdout=out, stderr=out, no_color=True)
        return out.getvalue()

    return call


class Parcel(Workflow):
    name = "command.parcel"

    @step
    def send(self, ctx):
        if ctx.input.get("lost"):
            return Stop("lost on the way")
        return Await({"delivered", "returned"}, then="close", timeout="3d")

    @step
    def close(self, ctx):
        return Done({"how": ctx.awaited[0].name} if ctx.awaited else "late")
