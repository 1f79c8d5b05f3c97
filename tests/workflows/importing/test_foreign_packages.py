"""Another distribution that has a package called like one of ours: what pip does to the two, and what we say."""

import base64
import hashlib
import os
import shutil
import subprocess
import sys
import sysconfig
import zipfile
from pathlib import Path

import pytest

pytestmark = pytest.mark.process

ROOT = Path(__file__).resolve().parents[3]

#: Modules of ours that somebody imports first, and that are still there when the other distribution has come.
DOORS = (
    "approvals",
    "approvals.apps",
    "approvals.models",
    "workflows.api.instances",
    "workflows.apps",
    "workflows.operations.checks",
    "workflows.client",
    "workflows.conf.settings",
    "workflows.exceptions",
    "workflows.models",
    "workflows.definitions.outcomes",
    "workflows.worker.pump",
    "workflows.testing",
    "workflows.urls",
)

SETTINGS = """
SECRET_KEY = "x"
INSTALLED_APPS = ["django_q", "rest_framework", "django.contrib.contenttypes", "django.contrib.auth", "workflows"]
DATABASES = {"default": {"ENGINE": "django.db.backends.postgresql", "NAME": "none", "HOST": "127.0.0.1", "PORT": 1}}
Q_CLUSTER = {"orm": "default", "timeout": 60, "retry": 300}
"""


@pytest.fixture
def site(tmp_path: Path) -> Path:
    """Where pip has put our two packages, as it leaves them."""
    folder = tmp_path / "site"
    for name in ("workflows", "approvals"):
        shutil.copytree(ROOT / name, folder / name, ignore=shutil.ignore_patterns("__pycache__"))
    write_record(folder, "django_holdpoint", ["workflows/__init__.py", "approvals/__init__.py"])
    (folder / "mysite.py").write_text(SETTINGS)
    return folder


def write_record(folder: Path, distribution: str, files: list[str]) -> None:
    about = folder / f"{distribution}-1.0.dist-info"
    about.mkdir()
    (about / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {distribution.replace('_', '-')}\nVersion: 1.0\n")
    (about / "RECORD").write_text("".join(f"{file},,\n" for file in files))


def make_wheel(folder: Path, *packages: str) -> Path:
    """A tiny distribution with packages of these names, as an index would serve it."""
    about = "agent_toolkit-1.0.dist-info"
    files = {f"{name}/__init__.py": f"def run():\n    return '{name} of an agent'\n" for name in packages}
    files |= {
        f"{about}/METADATA": "Metadata-Version: 2.1\nName: agent-toolkit\nVersion: 1.0\n",
        f"{about}/WHEEL": "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
    }
    lines = []
    for name, text in files.items():
        digest = base64.urlsafe_b64encode(hashlib.sha256(text.encode()).digest()).rstrip(b"=").decode()
        lines.append(f"{name},sha256={digest},{len(text)}\n")
    files[f"{about}/RECORD"] = "".join(lines) + f"{about}/RECORD,,\n"
    wheel = folder / "agent_toolkit-1.0-py3-none-any.whl"
    with zipfile.ZipFile(wheel, "w") as archive:
        for name, text in files.items():
            archive.writestr(name, text)
    return wheel


def run(site: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """With these packages and our dependencies; -S, because a .pth file leads to the sources of this project."""
    paths = f"{site}{os.pathsep}{sysconfig.get_paths()['purelib']}"
    environment = {"PATH": os.environ["PATH"], "PYTHONPATH": paths, "DJANGO_SETTINGS_MODULE": "mysite"}
    return subprocess.run(
        [sys.executable, "-S", *arguments],
        cwd=site,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )


def install(site: Path, wheel: Path) -> None:
    """What pip does with a pure wheel, whatever lies there already."""
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(site)


@pytest.mark.parametrize("door", DOORS)
def test_each_module_of_ours_says_who_has_written_over_our_package(site: Path, door: str) -> None:
    install(site, make_wheel(site.parent, "workflows"))
    said = run(site, "-c", f"import {door}")
    assert said.returncode == 1
    assert said.stderr.splitlines()[-1] == (
        f"ImportError: {site}/workflows/__init__.py is not Holdpoint's any more: the distribution 'agent-toolkit' "
        "has a package 'workflows' too, and has written over it; the two cannot share an environment, so make one "
        "without 'agent-toolkit', and run `pip install --force-reinstall django-holdpoint` in it."
    )


@pytest.mark.parametrize("door", ["approvals.apps", "approvals.exceptions"])
def test_approvals_says_it_of_its_own_package(site: Path, door: str) -> None:
    install(site, make_wheel(site.parent, "approvals"))
    said = run(site, "-c", f"import {door}")
    assert said.returncode == 1
    assert f"{site}/approvals/__init__.py is not Holdpoint's any more: the distribution 'agent-toolkit'" in said.stderr


def test_manage_py_check_says_it_in_one_sentence(site: Path) -> None:
    install(site, make_wheel(site.parent, "workflows"))
    said = run(site, "-m", "django", "check")
    assert said.returncode == 1
    assert "the distribution 'agent-toolkit' has a package 'workflows' too, and has written over it" in said.stderr


def test_what_the_other_one_leaves_behind_when_it_is_removed_is_told_too(site: Path) -> None:
    (site / "workflows" / "__init__.py").unlink()  # pip removes what the other distribution's RECORD names
    said = run(site, "-m", "django", "check")
    assert said.returncode == 1
    assert said.stderr.splitlines()[-1] == (
        f"ImportError: {site}/workflows/__init__.py is gone: another distribution had written over it, and took it "
        "along when it was removed; the two cannot share an environment, so make one without it, and run "
        "`pip install --force-reinstall django-holdpoint` in it."
    )


def test_check_warns_where_ours_has_written_over_the_other_one(site: Path) -> None:
    write_record(site, "agent_toolkit", ["workflows/__init__.py"])
    said = run(site, "-m", "django", "check", "--tag", "holdpoint", "--database", "default")
    assert "holdpoint.W002" in said.stderr
    assert "holdpoint.I009" in said.stderr  # nothing listens there, and the check goes on all the same
    assert said.stderr.count("Connection refused") == 1
    assert "The distribution 'agent-toolkit' has a package 'workflows' too, in the same place" in said.stderr


def test_a_package_of_ones_own_called_workflows_is_told_by_approvals(site: Path) -> None:
    own = site.parent / "own" / "workflows"
    own.mkdir(parents=True)
    (own / "__init__.py").write_text("")
    said = run(site, "-c", f"import sys; sys.path.insert(0, {str(own.parent)!r}); import approvals")
    assert said.returncode == 1
    assert "The package 'workflows' that Python finds is not Holdpoint's, and approvals needs that one." in said.stderr
    assert "imported as mysite.workflows" in said.stderr.splitlines()[-1]


def test_our_packages_side_by_side_say_nothing(site: Path) -> None:
    modules = "workflows.models, workflows.client, approvals.apps"
    said = run(site, "-c", f"import django; django.setup(); import {modules}")
    assert (said.returncode, said.stdout, said.stderr) == (0, "", "")
