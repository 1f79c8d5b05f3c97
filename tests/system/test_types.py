"""What type checkers say to an app of somebody else: mypy and pyright, each at its strictest, line by line."""

import inspect
import json
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from approvals import Approval
from approvals.asking.approval import ApprovalOptions

ROOT = Path(__file__).resolve().parents[2]
APP = ROOT / "tests" / "support" / "apps" / "typed"
Found = dict[tuple[str, int], set[str]]


def read_expected(which: int) -> Iterator[tuple[tuple[str, int], set[str]]]:
    """Where an error is expected, and under which names a checker may know it."""
    for file in sorted(APP.glob("*.py")):
        for number, line in enumerate(file.read_text().splitlines(), 1):
            if expected := re.search(r"  # E: (\S+) (\S+)$", line):
                yield (file.name, number), set(expected[which].split(","))


def compare(found: Found, which: int) -> None:
    expected = dict(read_expected(which))
    assert expected, "the app has lines that must be refused"
    missed = {at for at in expected if not expected[at] & found.get(at, set())}
    surplus = {at: names for at, names in found.items() if at not in expected}
    assert (missed, surplus) == (set(), {})


@pytest.mark.process
def test_mypy_at_its_strictest_refuses_exactly_what_is_wrong(tmp_path: Path) -> None:
    settings = tmp_path / "mypy.ini"
    settings.write_text(f"[mypy]\nstrict = true\nfollow_imports = silent\ncache_dir = {ROOT}/var/mypy-typed\n")
    ran = subprocess.run(
        [sys.executable, "-m", "mypy", "--config-file", settings, "--no-error-summary", "--no-pretty", str(APP)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert ran.returncode in (0, 1), ran.stdout + ran.stderr
    found: Found = {}
    for line in ran.stdout.splitlines():
        if error := re.match(r"(?:.*/)?(\w+\.py):(\d+): error: .*\[([\w-]+)\]$", line):
            found.setdefault((error[1], int(error[2])), set()).add(error[3])
        else:
            assert ": note: " in line, line
    compare(found, 1)


@pytest.mark.process
def test_pyright_at_its_strictest_refuses_exactly_what_is_wrong() -> None:
    ran = subprocess.run(
        [sys.executable, "-m", "pyright", "--project", str(APP), "--pythonpath", sys.executable, "--outputjson"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert ran.returncode in (0, 1), ran.stdout + ran.stderr
    found: Found = {}
    for one in json.loads(ran.stdout)["generalDiagnostics"]:
        if one["severity"] == "error":
            at = (Path(one["file"]).name, one["range"]["start"]["line"] + 1)
            found.setdefault(at, set()).add(one.get("rule", one["message"]))
    compare(found, 2)


def test_the_options_that_type_checkers_know_are_those_of_an_approval() -> None:
    options = set(inspect.signature(Approval).parameters) - {"title", "schema"}
    assert set(ApprovalOptions.__annotations__) == options
