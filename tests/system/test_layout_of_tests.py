"""Where tests live: beside a package of the same name. How many in a folder, and what they import: `test_rooms`."""

from __future__ import annotations

from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
TESTS = ROOT / "tests"
ROOMS = {"workflows", "approvals", "system", "browser", "support"}


def test_each_folder_of_an_apps_tests_is_named_like_a_package_of_the_app() -> None:
    folders = {file.parent for app in ("workflows", "approvals") for file in (TESTS / app).rglob("*.py")}
    strange = [
        path.as_posix()
        for path in sorted(folder.relative_to(TESTS) for folder in folders)
        if not (ROOT / path / "__init__.py").is_file()
    ]
    assert strange == []


def test_every_test_file_lives_in_one_of_the_rooms() -> None:
    assert {path.name for path in TESTS.iterdir() if any(path.rglob("*.py"))} == ROOMS
    assert [file.name for file in TESTS.glob("test_*.py")] == []
    assert [file.name for file in (TESTS / "support").rglob("test_*.py")] == []
