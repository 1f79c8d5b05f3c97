"""The broker of `make kafka` and of the tests: what survives a kill, who owns it, what is said where it cannot run."""

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest
from confluent_kafka import Consumer, Producer
from confluent_kafka.admin import AdminClient, NewTopic

from config.kafka import Broker, KafkaError, fetch_jars, find_jars, find_java, start, temporary_broker
from tests.support.kafka.broker import require_bootstrap
from tests.support.processes import ROOT, Process, find_free_port, is_alive, running, wait_until

needs_broker = pytest.mark.usefixtures("bootstrap")


@pytest.fixture(scope="module")
def broker(bootstrap: str) -> Iterator[Broker]:
    """One of this file's own, because it will be killed; it runs again afterwards."""
    with temporary_broker() as own:
        yield own


def send(broker: Broker, topic: str, value: bytes) -> None:
    producer = Producer({"bootstrap.servers": broker.bootstrap})
    errors: list[object] = []
    producer.produce(topic, value, on_delivery=lambda error, message: errors.append(error))
    assert producer.flush(30) == 0
    assert errors == [None]


def read_first(broker: Broker, topic: str) -> bytes | None:
    consumer = Consumer({"bootstrap.servers": broker.bootstrap, "group.id": "test", "auto.offset.reset": "earliest"})
    consumer.subscribe([topic])
    try:
        message = wait_until(lambda: consumer.poll(0.1), "the first message")
        assert message is not None
        assert message.error() is None
        return message.value()
    finally:
        consumer.close()


def test_what_was_written_survives_a_killed_broker_and_clients_find_it_again(broker: Broker) -> None:
    admin = AdminClient({"bootstrap.servers": broker.bootstrap})
    admin.create_topics([NewTopic("kept", 1, 1)])["kept"].result(30)
    send(broker, "kept", b"42")
    address = broker.bootstrap
    broker.kill()
    broker.launch()
    assert broker.bootstrap == address
    assert read_first(broker, "kept") == b"42"


def test_a_second_broker_in_one_folder_or_on_one_port_is_refused(broker: Broker, tmp_path: Path) -> None:
    with pytest.raises(KafkaError, match=r"runs in .* already"):
        start(broker.folder)
    with pytest.raises(KafkaError, match=rf"Port {broker.port} .*KAFKA_PORT={broker.port + 10} make kafka"):
        start(tmp_path / "other", port=broker.port)
    assert broker.is_alive()


def list_children(process: Process) -> list[int]:
    return [one.pid for one in psutil.Process(process.pid).children(recursive=True)]


@needs_broker
@pytest.mark.parametrize(
    ("end", "code"),
    [
        pytest.param(lambda process: process.kill(signal.SIGTERM), 0, id="sigterm"),
        pytest.param(lambda process: process.kill(), -signal.SIGKILL, id="killed"),
    ],
)
def test_make_kafka_prints_its_address_and_leaves_nothing_behind(
    end: Callable[[Process], None], code: int, tmp_path: Path
) -> None:
    port = find_free_port()
    with running(Process("-m", "config.kafka", KAFKA_PORT=str(port), KAFKA_DATA=str(tmp_path / "kafka"))) as process:
        wait_until(lambda: f"Kafka is ready:  127.0.0.1:{port}" in process.read_log(), "the broker")
        children = list_children(process)
        assert children
        end(process)
        assert process.popen.wait(90) == code
        wait_until(lambda: not any(map(is_alive, children)), "the broker to be gone")


def pretend(folder: Path, name: str, script: str) -> None:
    program = folder / name
    program.write_text(f"#!/bin/sh\n{script}\n")
    program.chmod(0o755)


def test_a_machine_without_java_or_with_an_old_one_is_told_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(KafkaError, match=r"Java 17 or newer, and there is no java.*apt install default-jre-headless"):
        find_java()
    pretend(tmp_path, "java", "echo 'openjdk version \"11.0.2\" 2019-01-15' >&2")
    with pytest.raises(KafkaError, match=r"Java 17 or newer, and java says: openjdk version .11\.0\.2"):
        find_java()


def test_a_machine_without_maven_is_told_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(KafkaError, match=r"there is no mvn.*apt install maven"):
        fetch_jars(tmp_path / "store")


def test_a_fetch_that_takes_too_long_is_given_up_and_leaves_nothing_half_done(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pretend(tmp_path, "mvn", "exec sleep 600")
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    with pytest.raises(KafkaError, match=r"had not fetched the broker after 0\.2 s"):
        fetch_jars(tmp_path / "store", seconds=0.2)
    with pytest.raises(KafkaError, match=r"not in jars-\w+ yet: run `make kafka` once"):
        find_jars(tmp_path / "store")


def test_what_maven_says_when_it_fails_is_passed_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pretend(tmp_path, "mvn", "echo 'no route to the repository'; exit 1")
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    with pytest.raises(KafkaError, match="no route to the repository"):
        fetch_jars(tmp_path / "store")


INNER = """
import os, pathlib
from tests.support.kafka_plugin import find_bootstrap
def test_one():
    pathlib.Path(os.environ["SEEN"]).write_text(find_bootstrap())
"""


def run_pytest(tmp_path: Path, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """A run of its own in another process, with the plugins that it is about: to load the others takes longer."""
    (tmp_path / "pytest.ini").write_text("[pytest]\naddopts = -p xdist.plugin -p tests.support.kafka_plugin\n")
    (tmp_path / "test_inner.py").write_text(INNER)
    inherited = {
        name: value for name, value in os.environ.items() if not name.startswith(("PYTEST_", "HOLDPOINT_TEST"))
    }
    return subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-c", "pytest.ini", "--rootdir", ".", *arguments],
        env={
            **inherited,
            "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1",
            "PYTHONPATH": str(ROOT),
            "SEEN": str(tmp_path / "seen"),
            **environment,
        },
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )


def test_a_run_without_java_skips_and_says_why_and_ci_fails_instead(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in {"PATH": str(tmp_path), "JAVA_HOME": "", "CI": "", "KAFKA_BOOTSTRAP": ""}.items():
        monkeypatch.setenv(name, value)
    with pytest.raises(pytest.skip.Exception, match="Kafka needs Java 17"):
        require_bootstrap()
    monkeypatch.setenv("CI", "1")
    with pytest.raises(pytest.fail.Exception, match="CI skips no test: Kafka needs Java 17"):
        require_bootstrap()
    monkeypatch.setenv("KAFKA_BOOTSTRAP", "broker.example:9092")
    assert require_bootstrap() == "broker.example:9092"


@needs_broker
def test_a_run_ends_the_broker_that_its_workers_started(tmp_path: Path) -> None:
    done = run_pytest(tmp_path, "-n", "1", KAFKA_BOOTSTRAP="")
    assert "1 passed" in done.stdout, done.stdout
    port = int((tmp_path / "seen").read_text().rpartition(":")[2])
    listening = {one.laddr.port for one in psutil.net_connections("tcp") if one.status == psutil.CONN_LISTEN}
    assert port not in listening
