"""What `pip install django-holdpoint` puts into site-packages."""

import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

pytestmark = pytest.mark.process

ROOT = Path(__file__).resolve().parent.parent


@pytest.fixture(scope="module")
def names(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    folder = tmp_path_factory.mktemp("wheel")
    command = [sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", str(folder), str(ROOT)]
    subprocess.run(command, check=True, capture_output=True)
    (wheel,) = folder.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        return archive.namelist()


def test_two_packages_and_nothing_else(names: list[str]) -> None:
    packages = {name.partition("/")[0] for name in names}
    assert {name for name in packages if not name.endswith(".dist-info")} == {"workflows", "approvals"}


def test_every_template_travels_with_its_app(names: list[str]) -> None:
    templates = [path for path in (ROOT / "templates").rglob("*") if path.is_file()]
    shipped = {name.partition("/templates/")[2] for name in names if "/templates/" in name}
    assert shipped == {path.relative_to(ROOT / "templates").as_posix() for path in templates}


def test_no_template_can_shadow_a_hosts_own(names: list[str]) -> None:
    folders = {name.partition("/templates/")[2].partition("/")[0] for name in names if "/templates/" in name}
    assert folders <= {"holdpoint", "workflows", "approvals", "admin"}


@pytest.mark.parametrize("name", ["workflows/py.typed", "approvals/py.typed"])
def test_both_packages_are_typed(names: list[str], name: str) -> None:
    assert name in names


def test_what_the_pages_need_is_inside(names: list[str]) -> None:
    assert "workflows/static/holdpoint/holdpoint.css" in names
    assert "workflows/migrations/0001_initial.py" in names
