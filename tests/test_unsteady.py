"""`.ci/run` looks again at the few tests that failed in a whole run: `config.unsteady`."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
SUITE = """
from pathlib import Path
import pytest

def test_fine():
    pass

@pytest.mark.parametrize("n", range({unsteady}))
def test_passes_from_the_second_time_on(n):
    seen = Path(f"seen-{{n}}")
    first = not seen.exists()
    seen.touch()
    assert not first

def test_broken():
    assert {works}
"""


@pytest.fixture
def suite(tmp_path: Path):
    def run(unsteady: int, works: bool = True, cut: bool = False) -> tuple[int, str]:
        (tmp_path / "test_it.py").write_text(SUITE.format(unsteady=unsteady, works=works))
        environment = {**os.environ, "PYTHONPATH": str(ROOT)}
        environment.pop("PYTEST_ADDOPTS", None)
        pytest_ = [sys.executable, "-m", "pytest", "-p", "no:django", "-p", "no:randomly", *(["-x"] if cut else [])]
        done = subprocess.run(pytest_, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
        log = tmp_path / "log"
        log.write_text(done.stdout)
        again = subprocess.run(
            [sys.executable, "-m", "config.unsteady", str(log)],
            cwd=tmp_path,
            env=environment,
            capture_output=True,
            text=True,
            check=False,
        )
        return again.returncode, again.stdout

    return run


def test_one_that_passes_alone_is_named_and_forgiven(suite):
    code, out = suite(2)
    assert code == 0
    assert out.count("UNSTEADY: test_it.py::test_passes_from_the_second_time_on[") == 2


def test_one_that_fails_alone_fails_the_run(suite):
    code, out = suite(1, works=False)
    assert code == 1
    assert "test_it.py::test_broken fails alone too" in out
    assert "UNSTEADY" not in out


def test_more_than_a_handful_are_no_accident(suite):
    code, out = suite(6)
    assert code == 1
    assert "6 failed tests are not run again" in out


def test_a_run_that_did_not_come_to_its_end_is_not_forgiven(suite):
    code, _ = suite(1, cut=True)
    assert code == 1
