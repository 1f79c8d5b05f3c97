"""A suspended instance outlives its process and the key its address was made with, in every style."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from django.core.checks import run_checks
from django.test import Client

import tests.support.apps.restarted.workflows  # noqa: F401  (the test starts what the processes run)
import workflows
from tests.support.processes import Process, running, wait_for_pump, wait_for_status, wait_until
from workflows.models import Instance, Interaction

pytestmark = pytest.mark.django_db(transaction=True)

OLD, NEW = "o" * 40, "n" * 40
SITE = {"DJANGO_SETTINGS_MODULE": "tests.support.apps.restarted.settings", "BASE_URL": "https://pay.example"}
STYLES = ["RestartedSteps", "RestartedFunction", "RestartedMachine"]


@contextmanager
def worker(keys: str) -> Iterator[Process]:
    with running(Process("manage.py", "workflow_worker", **SITE, TOKEN_KEYS=keys)) as one:
        wait_until(lambda: "is ready" in one.read_log(), "the worker")
        wait_for_pump("worker")
        yield one


def start_and_suspend(file: Path) -> dict[str, tuple[Instance, str]]:
    """One instance of each style, suspended by a worker that is killed then, and the address it handed out."""
    found: dict[str, tuple[Instance, str]] = {}
    with worker(f"old:{OLD}") as one:
        for name in STYLES:
            told = file.with_name(name)
            instance = workflows.start(name, {"file": str(told)})
            wait_for_status(instance, "awaiting")
            pid, url = told.read_text().split()
            assert int(pid) == one.pid
            found[name] = instance, url
        one.kill()
    return found


def use_keys(settings: Any, **keys: str) -> None:
    """What the web process of the site is given."""
    settings.WORKFLOWS = {**settings.WORKFLOWS, "BASE_URL": SITE["BASE_URL"], "TOKEN_KEYS": keys}


def post(client: Client, url: str, data: Any) -> Any:
    path = url.removeprefix(SITE["BASE_URL"])
    assert path.startswith("/resume/")
    return client.post(path, {"data": data}, content_type="application/json")


def tell_missing_keys() -> list[str]:
    return [one.msg for one in run_checks(databases=["default"]) if one.id == "holdpoint.E033"]


def test_an_instance_of_each_style_is_resumed_by_another_process_after_the_keys_were_rotated(
    tmp_path: Path, settings: Any, client: Client
) -> None:
    suspended = start_and_suspend(tmp_path / "told")
    use_keys(settings, new=NEW, old=OLD)
    assert not tell_missing_keys()
    with worker(f"new:{NEW},old:{OLD}") as second:
        for name, (instance, url) in suspended.items():
            assert Interaction.objects.get(instance=instance).token_key == "old"
            answer = post(client, url, {"amount": 5})
            assert answer.status_code == 200, answer.content
            done = wait_for_status(instance, "done", "failed")
            assert done.status == "done", done.error
            first, paid, last = done.result
            assert paid in (5, {"amount": 5})
            assert last == second.pid != first
            assert len((tmp_path / name).read_text().splitlines()) == 1, "it was handed out once"
            assert post(client, url, {"amount": 6}).status_code == 410
        fresh = workflows.start("RestartedFunction", {"file": str(tmp_path / "fresh")})
        wait_for_status(fresh, "awaiting")
    assert Interaction.objects.get(instance=fresh).token_key == "new"


def test_a_removed_key_that_suspended_work_needs_is_named_by_the_check(
    tmp_path: Path, settings: Any, client: Client
) -> None:
    suspended = start_and_suspend(tmp_path / "told")
    use_keys(settings, new=NEW)
    [told] = tell_missing_keys()
    assert "'old' (3 interactions wait with its tokens)" in told
    for _, url in suspended.values():
        assert post(client, url, {"amount": 5}).status_code == 404
    with running(Process("manage.py", "check", "--database", "default", **SITE, TOKEN_KEYS=f"new:{NEW}")) as check:
        code = wait_until(check.popen.poll, "the check", is_it=lambda found: found is not None)
        assert code != 0
        assert "holdpoint.E033" in check.read_log()
        assert "'old'" in check.read_log()
    use_keys(settings, new=NEW, old=OLD)  # put back: nothing was lost
    assert not tell_missing_keys()
    for instance, url in suspended.values():
        assert post(client, url, {"amount": 5}).status_code == 200
        instance.refresh_from_db()
        assert instance.status == "runnable"
