"""Where tests live: beside a package of the same name, few in a folder, and borrowed from by no other test."""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
TESTS = ROOT / "tests"
ROOMS = {"workflows", "approvals", "system", "browser", "support"}
#: So many test files a reader can look over at once.
MOST_FILES = 30


def list_imports(file: Path) -> Iterator[str]:
    """The modules that a file imports, or whose names it does, by dotted path."""
    for node in ast.walk(ast.parse(file.read_text())):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            folder = file.relative_to(ROOT).parts[: -node.level] if node.level else ()
            module = ".".join((*folder, *filter(None, [node.module])))
            yield from (f"{module}.{alias.name}" for alias in node.names)


def is_test_module(name: str) -> bool:
    """`tests.a.test_b` and what is in it; the name of a function that happens to begin alike is none."""
    parts = name.split(".")
    return parts[0] == "tests" and any(
        part.startswith("test_") and ROOT.joinpath(*parts[:at], f"{part}.py").is_file() for at, part in enumerate(parts)
    )


def test_a_folder_has_at_most_30_test_files() -> None:
    files = Counter(file.parent.relative_to(ROOT).as_posix() for file in TESTS.rglob("test_*.py"))
    assert {folder: count for folder, count in files.items() if count > MOST_FILES} == {}


def test_no_file_imports_a_test_module() -> None:
    borrowed = [
        f"{file.relative_to(ROOT)}: {name}"
        for file in sorted(TESTS.rglob("*.py"))
        for name in list_imports(file)
        if is_test_module(name)
    ]
    assert borrowed == []


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
