"""Fixtures of every test."""

import gc
from collections.abc import Iterator
from typing import Any

import hypothesis
import pytest
from django.conf import settings
from django.utils import timezone, translation
from hypothesis import HealthCheck

from tests.support.apps.shop.world import order as order
from tests.support.apps.shop.world import shop as shop
from tests.support.fast_tests import choose_ends, choose_fast
from tests.support.kept_plans import keep_plans
from tests.support.lanes import Lanes, count_workers
from tests.support.no_fold import NOT_TOLD
from tests.support.shared_migrations import SharedMigrations
from workflows.conf import conf
from workflows.definitions import registry

#: Examples are judged by what they show, not by how long a machine beside other workers takes for one. Whichever fails
#: is printed with the line that plays it again, because another run draws others.
hypothesis.settings.register_profile(
    "patient", deadline=None, suppress_health_check=[HealthCheck.too_slow], print_blob=True
)
hypothesis.settings.load_profile("patient")


def pytest_configure(config: pytest.Config) -> None:
    # A password is hashed some hundred thousand times so that nobody can guess it; a test has nothing to guard.
    settings.PASSWORD_HASHERS = ["django.contrib.auth.hashers.MD5PasswordHasher", *settings.PASSWORD_HASHERS]
    keep_plans()
    gc.disable()  # until all is collected: thousands of modules and tests, none of them garbage
    config.addinivalue_line(
        "markers",
        "no_fold(reason): this test writes rows behind the engine's back, so their events need not tell them",
    )


def pytest_collection_finish() -> None:
    gc.freeze()
    gc.enable()


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--fast", action="store_true", help="only what tests.support.fast_tests chooses")
    parser.addoption("--ends", action="store_true", help="of each test its first and its last case only")


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers(config: pytest.Config) -> int:
    return count_workers(config)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Lanes:
    return Lanes(config, log)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if config.getoption("--fast"):
        items[:], left = choose_fast(items)
        config.hook.pytest_deselected(items=left)
    if config.getoption("--ends"):
        items[:], left = choose_ends(items)
        config.hook.pytest_deselected(items=left)
    for item in items:
        name = f"{item.path.name}::{getattr(item, 'originalname', item.name)}"
        if name in NOT_TOLD:
            item.add_marker(pytest.mark.no_fold(reason=NOT_TOLD[name]))


@pytest.fixture(scope="session")
def shared_migrations(django_db_modify_db_settings: None) -> SharedMigrations:
    """Of several workers one migrates."""
    shared = SharedMigrations()
    shared.begin()
    return shared


@pytest.fixture(scope="session")
def django_db_setup(shared_migrations: SharedMigrations, django_db_setup: None, django_db_blocker: Any) -> None:
    """Besides making the database: remember what it holds, for the tests that commit."""
    from tests.support.emptying import remember_migrated

    with django_db_blocker.unblock():
        shared_migrations.end()
        remember_migrated()


@pytest.fixture
def committed(transactional_db: None) -> None:
    """What a test commits is seen by every connection, and gone after it."""


@pytest.fixture(autouse=True)
def no_supplied_links(monkeypatch: pytest.MonkeyPatch) -> None:
    """`drain()` lets links be made without settings; a test that looks at the settings must not see that of another."""
    monkeypatch.setattr(conf, "supplies_links", False)


@pytest.fixture(autouse=True)
def own_workflows() -> Iterator[None]:
    """A workflow that a test defines inside itself ends with it: the checks must not see that of another."""
    before = dict(registry._definitions)
    yield
    for at, definition in list(registry._definitions.items()):
        if "<locals>" in definition.source and before.get(at) is not definition:
            del registry._definitions[at]
            if at in before:
                registry._definitions[at] = before[at]
            registry._latest.pop(definition.name, None)
            for left in (
                registry._definitions[one] for one in sorted(registry._definitions) if one[0] == definition.name
            ):
                registry._latest[definition.name] = left


@pytest.fixture(autouse=True)
def own_language() -> None:
    """Django leaves a thread in the language of its last request: a test must not speak that of another."""
    translation.deactivate()
    timezone.deactivate()


@pytest.fixture(autouse=True)
def folds_hold(request: pytest.FixtureRequest) -> Iterator[None]:
    """Whatever a test did: afterwards the events of every instance that it left tell its row."""
    uses_database = request.node.get_closest_marker("django_db") is not None or bool(
        {"db", "transactional_db"} & set(request.fixturenames)
    )
    if not uses_database or request.node.get_closest_marker("no_fold") is not None:
        yield
        return
    # Made before this one and so undone after it: the rows are still there.
    request.getfixturevalue("_django_db_helper")
    yield
    from tests.support.folds import check_newest_folds

    check_newest_folds()


@pytest.fixture(autouse=True)
def dropped_stays_here(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """What a test's refusals count is not added to the database behind the back of the next."""
    from workflows.api import refused

    monkeypatch.setattr(refused, "GATHER_SECONDS", 3600.0)
    yield
    refused.forget_dropped()


@pytest.fixture(autouse=True)
def lasting_patience(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is known or waited for some seconds is so for as long as a test takes; a test of such a bound sets its own.

    Else a loaded machine looks a key up once more than was counted, and a probe says that the database is silent.
    """
    from workflows.access import api_keys
    from workflows.operations import health, metrics

    monkeypatch.setattr(api_keys, "REMEMBER_SECONDS", 3600.0)
    for module, name in ((health, "ANSWER_SECONDS"), (metrics, "ANSWER_SECONDS"), (metrics, "TALLY_SECONDS")):
        monkeypatch.setattr(module, name, 60.0)
