"""The layout of the code: its rooms, their map, and where a change goes."""

import re
from pathlib import Path

import pytest

from config import rooms

TABLE = (rooms.ROOT / "ARCHITECTURE.md").read_text().partition("## Where do I change")[2].partition("\n## ")[0]


def test_the_rooms_are_in_order_and_their_map_is_new() -> None:
    assert list(rooms.find_problems(rooms.ROOT)) == []


def test_where_a_change_goes_is_there() -> None:
    paths = re.findall(r"`((?:workflows|approvals|templates|config|docs)/[\w/.]+)`", TABLE)
    assert len(paths) > 30
    assert [path for path in paths if not (rooms.ROOT / path).exists()] == []


@pytest.fixture
def house(tmp_path: Path) -> Path:
    """A small house in order."""
    for folder in ("workflows/store", "approvals", "tests"):
        (tmp_path / folder).mkdir(parents=True)
    (tmp_path / "workflows/store/claim.py").write_text('"""Claiming work."""\n\n\nclass Claim: ...\n')
    return tmp_path


def find(house: Path) -> list[str]:
    return [line for line in rooms.find_problems(house) if "ARCHITECTURE" not in line]


def test_a_house_in_order_has_no_problem(house: Path) -> None:
    assert find(house) == []


@pytest.mark.parametrize(
    ("path", "text", "problem"),
    [
        ("approvals/claim_two.py", "x = 1\n", "approvals/claim_two.py: has no docstring that says what lives there."),
        ("workflows/api/claim.py", '"""Twice."""\n', "workflows: 2 modules are called claim;"),
        ("approvals/desk.py", '"""A desk."""\n\n\nclass Claim: ...\n', "Class Claim stands in approvals/desk.py, "),
        ("approvals/desk.py", '"""A desk."""\n' + "\n" * 400, "approvals/desk.py: 401 lines, at most 400;"),
        (
            "approvals/desk.py",
            '"""A desk."""\n\nfrom workflows.store.claim import Claim as Claim\n',
            "approvals/desk.py: gives Claim a second address;",
        ),
        ("tests/test_a.py", "from tests.test_b import read\n", "tests/test_a.py: imports from tests.test_b;"),
        ("tests/world.py", "from tests.shop import test_b\n", "tests/world.py: imports from tests.shop.test_b;"),
        (
            "tests/world.py",
            "def go():\n    from tests.shop import (\n        read,\n        test_b,\n    )\n",
            "tests/world.py: imports from tests.shop.test_b;",
        ),
    ],
)
def test_what_is_not_in_order_is_told(house: Path, path: str, text: str, problem: str) -> None:
    (house / path).parent.mkdir(parents=True, exist_ok=True)
    (house / path).write_text(text)
    assert [line for line in find(house) if line.startswith(problem)]


def test_too_many_of_a_kind_are_told(house: Path) -> None:
    for number in range(13):
        (house / f"approvals/room_{number}.py").write_text('"""A room."""\n')
    for number in range(26):
        (house / f"workflows/store/moment_{number}.py").write_text('"""A moment."""\n')
    for number in range(31):
        (house / f"tests/test_{number}.py").write_text("")
    assert [line.partition(";")[0] for line in find(house)] == [
        "approvals: 13 modules, at most 12",
        "workflows/store: 27 modules, at most 25",
        "tests: 31 files of tests, at most 30.",
    ]
