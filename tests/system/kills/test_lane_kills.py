"""`kill -9` of a worker that holds a key: its slot comes back with its lease, and once only."""

from __future__ import annotations

from pathlib import Path

import pytest
from django.db import connection

import workflows
from tests.support.apps.hosted.workflows import HostedKeyed, HostedSingle
from tests.support.processes import wait_for_status, wait_until, workflow_worker
from workflows.models import Instance

pytestmark = pytest.mark.django_db(transaction=True)


def count_holders() -> int:
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT count(*) FROM holdpoint_instance WHERE slot IS NOT NULL AND (status = 2 OR (holds AND status < 10))"
        )
        return int(cursor.fetchone()[0])


def test_a_killed_workers_slot_comes_back_and_the_others_of_its_key_go_on(tmp_path: Path) -> None:
    file = tmp_path / "runs"
    slow = {"file": str(file), "seconds": 600}
    held = [workflows.start(one, {**slow, "key": "a"}) for one in (HostedKeyed, HostedSingle)]
    with workflow_worker() as first, workflow_worker() as second:
        wait_until(lambda: file.exists() and len(file.read_text().split()), "both to run", is_it=lambda runs: runs == 2)
        others = [workflows.start(one, {**slow, "key": "a", "seconds": 0}) for one in (HostedKeyed, HostedSingle)]
        assert count_holders() == 2
        first.kill()  # SIGKILL
        second.kill()
    for one in held:  # what they run next takes no time
        with connection.cursor() as cursor:
            cursor.execute("UPDATE holdpoint_instance SET input = input || '{\"seconds\": 0}' WHERE id = %s", [one.pk])
    with workflow_worker():
        for one in (*held, *others):
            wait_for_status(one, "done")
    assert count_holders() == 0
    assert set(Instance.objects.values_list("status", flat=True)) == {"done"}
