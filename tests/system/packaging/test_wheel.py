"""What `pip install django-holdpoint` puts into site-packages, and that a new project lives on it alone."""

import contextlib
import importlib.util
import os
import re
import subprocess
import sys
import sysconfig
import uuid
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit, urlunsplit

import psycopg
import pytest

from config.environment import parse_database_url
from tests.support.processes import Process, running

ROOT = Path(__file__).resolve().parents[3]

#: What the README has a newcomer type, and two questions to the installation.
SESSION = """
import workflows, approvals
from django.test import Client
print("installed in", workflows.__file__, approvals.__file__)
order = workflows.start("Ship", {"order": 7}, key="order-7")
workflows.signal("order-7", "payment_confirmed", {"amount": 120})
print("result", workflows.result(order, timeout=30))
print("ready", Client(headers={"host": "localhost"}).get("/readyz?require=cluster").status_code)
"""
#: Three commands in one process: to start one for each takes longer than two of them.
PREPARATION = """
import os
from django.core.management import execute_from_command_line
os.environ["DJANGO_SETTINGS_MODULE"] = "mysite.settings"
for command in ("check", "migrate --verbosity 0", "makemigrations --check --dry-run"):
    execute_from_command_line(["manage.py", *command.split()])
"""


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("wheel")
    command = [sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", str(folder), str(ROOT)]
    subprocess.run(command, check=True, capture_output=True, timeout=120)
    (file,) = folder.glob("*.whl")
    return file


@pytest.fixture(scope="module")
def names(wheel: Path) -> list[str]:
    with zipfile.ZipFile(wheel) as archive:
        return archive.namelist()


# --- what is inside -----------------------------------------------------------------------------------


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


def test_pytest_finds_the_plugin(wheel: Path, names: list[str]) -> None:
    (name,) = [name for name in names if name.endswith(".dist-info/entry_points.txt")]
    with zipfile.ZipFile(wheel) as archive:
        assert "[pytest11]\nholdpoint = workflows.pytest.plugin" in archive.read(name).decode()


def test_every_source_and_static_file_is_inside_and_no_litter(names: list[str]) -> None:
    for package in ("workflows", "approvals"):
        files = [path for path in (ROOT / package).rglob("*") if path.is_file() and "__pycache__" not in path.parts]
        assert {path.relative_to(ROOT).as_posix() for path in files} <= set(names)
    assert not [name for name in names if name.endswith((".pyc", ".orig", ".rej", "~")) or "/." in name]
    assert "workflows/migrations/0001_initial.py" in names
    assert "workflows/static/holdpoint/holdpoint.css" in names


# --- a new project ------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Project:
    """A project made by `startproject`, with an interpreter that has the wheel and not our sources."""

    folder: Path
    python: Path

    def run(self, *arguments: str, text: str = "") -> str:
        done = subprocess.run(
            [str(self.python), *arguments],
            cwd=self.folder,
            env=self.environment,
            input=text,
            capture_output=True,
            text=True,
            timeout=90,
            check=False,
        )
        assert done.returncode == 0, f"{arguments}:\n{done.stdout[-3000:]}\n{done.stderr[-3000:]}"
        return done.stdout + done.stderr

    @property
    def environment(self) -> dict[str, str]:
        ours = ("PYTHONPATH", "DJANGO_SETTINGS_MODULE", "DATABASE_URL", "SECRET_KEY", "DEBUG")
        return {name: value for name, value in os.environ.items() if name not in ours}


def read_blocks() -> list[str]:
    """The README's python code, freed of the list's indentation."""
    found = re.findall(r"^( *)```python\n(.*?)^ *```", (ROOT / "README.md").read_text(), re.MULTILINE | re.DOTALL)
    return [re.sub(rf"^{indent}", "", code, flags=re.MULTILINE) for indent, code in found]


def find_block(words: str) -> str:
    return next(block for block in read_blocks() if words in block)


@contextlib.contextmanager
def empty_database() -> Iterator[str]:
    """A database of its own on the tests' server; its address."""
    name = f"wheel_{uuid.uuid4().hex[:12]}"
    url = os.environ["DATABASE_URL"]
    with psycopg.connect(url, autocommit=True) as server:
        server.execute(f"CREATE DATABASE {name}")
        try:
            yield urlunsplit(urlsplit(url)._replace(path=f"/{name}"))
        finally:
            server.execute(f"DROP DATABASE {name} WITH (FORCE)")


def keep_compiled(packages: Path) -> None:
    """What is compiled of the same source, known by its size and its date: to do it again takes six seconds."""
    for source in [file for name in ("workflows", "approvals") for file in (packages / name).rglob("*.py")]:
        ours = ROOT / source.relative_to(packages)
        compiled = Path(importlib.util.cache_from_source(str(ours)))
        if compiled.exists() and source.read_bytes() == ours.read_bytes():
            dated = ours.stat()
            os.utime(source, ns=(dated.st_atime_ns, dated.st_mtime_ns))
            copy = Path(importlib.util.cache_from_source(str(source)))
            copy.parent.mkdir(exist_ok=True)
            copy.write_bytes(compiled.read_bytes())


def make_project(folder: Path, wheel: Path, url: str) -> Project:
    venv = folder / "venv"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(venv)], check=True, timeout=60)
    (packages,) = venv.glob("lib/python*/site-packages")
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(packages)  # what pip does with a pure wheel
    keep_compiled(packages)
    # The dependencies are those of this environment. A path named here is searched, but its own .pth
    # files are not read, so our editable installation stays unknown.
    (packages / "dependencies.pth").write_text(sysconfig.get_paths()["purelib"] + "\n")
    project = Project(folder / "site", venv / "bin" / "python")
    project.folder.mkdir()
    project.run("-m", "django", "startproject", "mysite", ".")
    project.run("manage.py", "startapp", "shop")
    (project.folder / "shop" / "workflows.py").write_text(find_block("class Ship"))
    entry = {name: value for name, value in parse_database_url(url).items() if value}
    with (project.folder / "mysite" / "settings.py").open("a") as settings:
        settings.write(f"\nDATABASES = {{'default': {entry!r}}}\nDJANGOS = INSTALLED_APPS\n")
        settings.write(find_block("Q_CLUSTER").replace("# … yours …", "*DJANGOS, 'shop',"))
    routes = find_block('include("workflows.urls")').replace("# … yours …", "")
    (project.folder / "mysite" / "urls.py").write_text(f"from django.urls import include, path\n{routes}")
    return project


@pytest.mark.slow
def test_a_new_project_runs_a_workflow_under_qcluster(tmp_path: Path, wheel: Path) -> None:
    with empty_database() as url:
        project = make_project(tmp_path, wheel, url)
        assert "System check identified no issues (0 silenced)." in project.run("-c", PREPARATION)
        cluster = Process(
            "manage.py", "qcluster", python=project.python, folder=project.folder, environment=project.environment
        )
        with running(cluster):
            said = project.run("manage.py", "shell", "--verbosity", "0", text=SESSION)
    assert "result {'paid': {'amount': 120}}" in said
    assert "ready 200" in said
    (places,) = (line for line in said.splitlines() if "installed in" in line)
    assert str(tmp_path) in places
    assert str(ROOT) not in places
