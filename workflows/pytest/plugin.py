"""Fixtures that run what is due and move the clock, and a look at leftovers after a test.

    def test_a_reply_counts(workflows_drain, workflows_clock):
        reply = workflows.start(Reply)
        workflows_clock.advance("47h")
        workflows.signal(reply, "reply", "yes")
        assert workflows_drain() == {"done": 1}

Lives here: fixtures, the option, the marker. Must not live here: what they do, which is in `testing`. Invariant owned:
loading it configures nothing and imports no Django, and a run that asks for nothing of it is as it was.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from datetime import datetime

MARKER = "workflows_leftovers"
#: Fixtures of pytest-django by which a test says that it uses the database.
DATABASE_FIXTURES = frozenset({"db", "transactional_db"})


def pytest_addoption(parser: pytest.Parser) -> None:
    """`--workflows-leftovers`, and the setting of the same name."""
    help = "fail a test that leaves instances which no worker has run: runnable, or taken and not ended"
    parser.getgroup("holdpoint").addoption("--workflows-leftovers", action="store_true", default=False, help=help)
    parser.addini(MARKER, help, type="bool", default=False)


def pytest_configure(config: pytest.Config) -> None:
    """Make the marker known."""
    config.addinivalue_line(
        "markers", f"{MARKER}(look=True): fail the test if it leaves runnable instances; with False, let it leave them"
    )


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None, object, object]:
    """After a test that has passed, while its rows are still there."""
    ended = yield
    if _wants_look(item) and _uses_database(item):
        from workflows.testing import assert_no_leftovers

        assert_no_leftovers()
    return ended


@pytest.fixture
def workflows_drain(db: None) -> Callable[..., dict[str, int]]:
    """`workflows.testing.drain`, in a test that needs no other word for its database."""
    from workflows.testing import drain

    return drain


@pytest.fixture
def workflows_clock(db: None) -> Clock:
    """The engine's clock, which stands at the present when the test begins."""
    return Clock()


class Clock:
    """The engine's clock in a test: what becomes due on the way is run."""

    @property
    def now(self) -> datetime:
        """The moment that the engine takes for the present.

        >>> workflows_clock.now  # doctest: +SKIP
        datetime.datetime(2026, 11, 19, 9, 0, tzinfo=datetime.timezone.utc)
        """
        from workflows.clock import read_now

        moment: datetime = read_now()
        return moment

    def advance(self, duration: object, *, schedules: bool = True) -> dict[str, int]:
        """Move it on by a duration; how often each outcome came.

        >>> workflows_clock.advance("24h")  # doctest: +SKIP
        {'stop': 1}
        """
        from workflows.testing import advance

        return advance(duration, schedules=schedules)

    def advance_to(self, moment: datetime, *, schedules: bool = True) -> dict[str, int]:
        """Move it on to a moment; how often each outcome came.

        >>> workflows_clock.advance_to(next_monday)  # doctest: +SKIP
        {'done': 1}
        """
        from workflows.testing import advance_to

        return advance_to(moment, schedules=schedules)


def _wants_look(item: pytest.Item) -> bool:
    if (marker := item.get_closest_marker(MARKER)) is not None:
        look: Any = marker.args[0] if marker.args else marker.kwargs.get("look", True)
        return bool(look)
    return bool(item.config.getoption("workflows_leftovers") or item.config.getini(MARKER))


def _uses_database(item: pytest.Item) -> bool:
    names = set(getattr(item, "fixturenames", ()))
    return item.get_closest_marker("django_db") is not None or bool(DATABASE_FIXTURES & names)
