"""`manage.py csv_payments` with all that it starts: a worker, the provider, and the way back."""

from __future__ import annotations

import os
import re
import uuid
from pathlib import Path
from urllib.parse import urlsplit, urlunsplit

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

from tests.support.csv_payments.file_checks import check_report
from tests.support.processes import Process, find_free_port, running, wait_until
from workflows.models import Dispatch, Instance, Interaction

pytestmark = [
    pytest.mark.django_db(transaction=True, available_apps=["workflows", "examples"]),
    pytest.mark.usefixtures("committed"),
    pytest.mark.process,
    pytest.mark.slow,
]

RECORDS = 120
SECONDS = 240.0


def pay(via: str, **environment: str) -> str:
    """Run the command to its end; what it wrote."""
    with running(
        Process("manage.py", "csv_payments", "--records", str(RECORDS), "--via", via, **environment)
    ) as command:
        code = wait_until(command.popen.poll, "the run", seconds=SECONDS, is_it=lambda code: code is not None)
        told = command.read_log()
    assert code == 0, told
    instance = Instance.objects.get(workflow="demo.csv_payments")
    assert (instance.status, instance.result["records"]) == ("done", RECORDS)
    assert f"{RECORDS} of {RECORDS}" in told  # how far it was, until the end
    check_report(Path(instance.input["path"]))
    for file in Path(instance.input["path"]).parent.glob(f"{Path(instance.input['path']).stem}*"):
        file.unlink()
    return told


def test_a_file_is_paid_by_webhook() -> None:
    port, provider = find_free_port(), find_free_port()
    told = pay("webhook", PORT=str(port), CSV_PAYMENTS_ADDRESS=f"http://127.0.0.1:{provider}/payments")
    assert re.search(r"records/s by webhook", told)
    # Each was taken by the provider once, and answered at its own address; a post that was not taken was posted again.
    posted = Interaction.objects.filter(channel="webhook", status="completed")
    assert posted.count() == RECORDS
    failed = list(Dispatch.objects.filter(sent=False).values("number", "ms", "status", "error"))
    assert Dispatch.objects.filter(sent=True).values("interaction").distinct().count() == RECORDS, failed
    assert sum(posted.values_list("tries", flat=True)) == RECORDS + len(failed), failed


@pytest.mark.kafka
def test_a_file_is_paid_over_kafka(bootstrap: str) -> None:
    mark = uuid.uuid4().hex[:12]
    topics = {"CSV_PAYMENTS_TOPIC": f"requests.{mark}", "CSV_PAYMENTS_ANSWERS": f"answers.{mark}"}
    told = pay("kafka", KAFKA_BOOTSTRAP=bootstrap, KAFKA_GROUP=f"holdpoint-{mark}", **topics)
    assert re.search(r"records/s by kafka", told)
    assert Interaction.objects.filter(channel="kafka", status="completed").count() == RECORDS


@pytest.mark.kafka
def test_the_way_over_kafka_says_what_it_needs() -> None:
    with running(Process("manage.py", "csv_payments", "--via", "kafka", KAFKA_BOOTSTRAP="")) as command:
        wait_until(command.popen.poll, "the command", is_it=lambda code: code is not None)
        assert "make kafka" in command.read_log()


def test_without_a_database_it_says_how_to_get_one() -> None:
    nowhere = urlunsplit(urlsplit(os.environ["DATABASE_URL"])._replace(path="/nowhere"))
    with running(Process("manage.py", "csv_payments", "--records", "1", DATABASE_URL=nowhere)) as command:
        wait_until(command.popen.poll, "the command", is_it=lambda code: code is not None)
        told = command.read_log()
    assert "`manage.py migrate`" in told
    assert "Traceback" not in told


@pytest.mark.kafka
def test_a_provider_that_ends_meanwhile_ends_the_run_and_is_quoted(bootstrap: str) -> None:
    """Somebody else writes to the topic that it reads."""
    mark = uuid.uuid4().hex[:12]
    topics = {"CSV_PAYMENTS_TOPIC": f"requests.{mark}", "CSV_PAYMENTS_ANSWERS": f"answers.{mark}"}
    client = AdminClient({"bootstrap.servers": bootstrap})
    client.create_topics([NewTopic(f"requests.{mark}", 1, 1)])[f"requests.{mark}"].result(30)
    producer = Producer({"bootstrap.servers": bootstrap})
    producer.produce(f"requests.{mark}", b"a letter")
    assert producer.flush(30) == 0
    run = ("manage.py", "csv_payments", "--records", "5", "--via", "kafka")
    more = {"KAFKA_BOOTSTRAP": bootstrap, "KAFKA_GROUP": f"holdpoint-{mark}", **topics}
    with running(Process(*run, **more)) as command:
        assert wait_until(command.popen.poll, "the end", seconds=SECONDS, is_it=lambda code: code is not None) == 1
        told = command.read_log()
    assert "partners kafka" in told
    assert "JSONDecodeError" in told
