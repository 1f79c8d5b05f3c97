"""What `make test-fast` leaves out is there, and no package is left out as a whole."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.support.fast_tests import LEFT_OUT, choose_ends, choose_fast, locate, read_slow

TESTS = Path(__file__).resolve().parents[1]
DEFINED = re.compile(r"^ *(?:async )?def (test_\w+)\(", re.MULTILINE)


def find_defined() -> dict[Path, set[str]]:
    """Tests by folder."""
    defined: dict[Path, set[str]] = {}
    for path in TESTS.rglob("test_*.py"):
        defined.setdefault(path.parent.relative_to(TESTS), set()).update(DEFINED.findall(path.read_text()))
    return defined


def test_every_test_that_is_named_slow_is_there() -> None:
    assert sorted(read_slow() - set().union(*find_defined().values())) == []


def test_every_package_keeps_some_of_its_checks() -> None:
    few = {str(folder) for folder, names in find_defined().items() if len(names - read_slow()) < 3 <= len(names)}
    assert {folder for folder in few if not folder.startswith("browser")} == set()


def test_a_test_is_run_once_with_its_first_case(request: pytest.FixtureRequest) -> None:
    kept, left = choose_fast(list(request.session.items))
    names = [locate(item) for item in kept]
    assert len(names) == len(set(names))
    assert not [item.nodeid for item in kept if LEFT_OUT & {mark.name for mark in item.iter_markers()}]
    assert len(kept) + len(left) == len(request.session.items)


def test_the_newest_django_sees_every_test_with_its_first_and_last_case(request: pytest.FixtureRequest) -> None:
    items = list(request.session.items)
    kept, left = choose_ends(items)
    cases: dict[str, list[pytest.Item]] = {}
    for item in items:
        cases.setdefault(locate(item), []).append(item)
    assert {locate(item) for item in kept} == set(cases)
    assert all({found[0], found[-1]} <= set(kept) for found in cases.values())
    assert len(kept) + len(left) == len(items)
