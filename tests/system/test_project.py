"""The project as a whole: its settings load and its database is the one it says."""

import shutil
import subprocess
from pathlib import Path

import pytest
from django.conf import settings
from django.db import connection


@pytest.mark.django_db
def test_the_database_is_a_postgresql_that_keeps_time_in_utc() -> None:
    with connection.cursor() as cursor:
        cursor.execute("select current_setting('TimeZone'), current_setting('server_version_num')::int")
        timezone, version = cursor.fetchone()
    assert timezone == "UTC"
    assert version >= 140000


def test_a_host_needs_no_third_app_of_ours() -> None:
    ours = [app for app in settings.INSTALLED_APPS if app in {"workflows", "approvals"}]
    assert ours == ["workflows", "approvals"]


def test_resume_links_can_always_be_made() -> None:
    assert settings.WORKFLOWS["BASE_URL"].startswith("http")
    assert all(settings.WORKFLOWS["TOKEN_KEYS"].values())


# --- the Makefile -------------------------------------------------------------------------------------

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def clone(tmp_path: Path) -> Path:
    """What `make` reads of a fresh clone."""
    for name in ("Makefile", "pyproject.toml", "constraints.txt", "hatch_build.py"):
        shutil.copy(ROOT / name, tmp_path)
    (tmp_path / "config").mkdir()
    shutil.copy(ROOT / "config" / "newest_python.sh", tmp_path / "config")
    return tmp_path


def list_steps(clone: Path, target: str) -> str:
    """What `make` would run for a target."""
    if shutil.which("make") is None:
        pytest.skip("make is missing")
    ran = subprocess.run(
        ["make", "--no-print-directory", "-n", target], cwd=clone, capture_output=True, text=True, check=True
    )
    return ran.stdout


def test_running_the_site_installs_no_tools_for_working_on_it(clone: Path) -> None:
    said = list_steps(clone, "run")
    assert "--group site" in said
    assert "--group dev" not in said
    assert said.splitlines()[-1].endswith("-m config.run")


@pytest.mark.parametrize("target", ["setup", "test", "test-fast", "check", "bench"])
def test_everything_else_installs_all_of_it_once(clone: Path, target: str) -> None:
    said = list_steps(clone, target)
    assert said.count("--group dev") == 1
    assert "--group site" not in said


def test_after_setup_nothing_is_installed_any_more(clone: Path) -> None:
    (clone / ".venv").mkdir()
    for stamp in (".site-stamp", ".stamp"):
        (clone / ".venv" / stamp).touch()
    assert "pip install" not in "".join(list_steps(clone, target) for target in ("setup", "run", "test"))


def test_after_running_the_site_the_tests_still_install_what_they_need(clone: Path) -> None:
    (clone / ".venv").mkdir()
    (clone / ".venv" / ".site-stamp").touch()
    assert "--group dev" in list_steps(clone, "test")
