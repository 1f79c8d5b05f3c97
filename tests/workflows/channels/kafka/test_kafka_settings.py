"""`WORKFLOWS["KAFKA"]`, its checks and its command: each mistake is named with what to write instead."""

from __future__ import annotations

import builtins
import json
import re
from collections.abc import Callable
from io import StringIO
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from django.core.checks import CheckMessage, run_checks
from django.core.exceptions import ImproperlyConfigured
from django.core.management import CommandError, call_command

from workflows.channels.kafka import Kafka
from workflows.channels.kafka.envelopes import read_schema
from workflows.channels.kafka.kafka_client import import_client
from workflows.conf import conf
from workflows.exceptions import InvalidCall

GOOD = {"BOOTSTRAP": "kafka:9092", "ANSWERS": {"answers": ["default"]}}
SECRET = "canary-of-a-password"


@pytest.fixture
def configure(settings: Any) -> Callable[[Any], None]:
    def configure(kafka: Any) -> None:
        settings.WORKFLOWS = {**settings.WORKFLOWS, "KAFKA": kafka}

    return configure


def look(*, deploy: bool = False) -> dict[str, CheckMessage]:
    found = run_checks(tags=["holdpoint"], include_deployment_checks=deploy, databases=[])
    return {one.id: one for one in found if "afka" in one.msg or "KAFKA" in one.msg}


def test_nothing_is_said_where_kafka_is_not_used_or_used_well(configure: Callable[[Any], None]) -> None:
    assert look(deploy=True) == {}
    configure({**GOOD, "CLIENT": {"security.protocol": "ssl"}, "GROUP": "shop", "BATCH": 50})
    assert look(deploy=True) == {}
    assert conf.kafka is not None
    assert (conf.kafka.group, conf.kafka.batch) == ("shop", 50)


MISTAKES: list[tuple[Any, str]] = [
    ("kafka:9092", '{"BOOTSTRAP": "kafka-1:9092'),
    ({"BOOTSTRAP": ""}, '"BOOTSTRAP" names the brokers'),
    ({"ANSWERS": {"answers": ["default"]}}, '"BOOTSTRAP" names the brokers'),
    ({**GOOD, "BOOTSTRAPS": "kafka"}, "There is no 'BOOTSTRAPS' in it"),
    ({**GOOD, "ANSWERS": ["answers"]}, '"ANSWERS" says whose questions'),
    ({**GOOD, "ANSWERS": {"answers": "default"}}, '"ANSWERS" says whose questions'),
    ({**GOOD, "ANSWERS": {"answers": []}}, '"ANSWERS" says whose questions'),
    ({**GOOD, "ANSWERS": {"an swers": "*"}}, "is no topic"),
    ({**GOOD, "GROUP": ""}, '"GROUP" is the name'),
    ({**GOOD, "BATCH": 0}, '"BATCH" is a whole number'),
    ({**GOOD, "CLIENT": {"bootstrap.servers": "other"}}, 'write "BOOTSTRAP"'),
    ({**GOOD, "CONSUMER": {"enable.auto.commit": True}}, "may not set 'enable.auto.commit'"),
    ({**GOOD, "CONSUMER": {"enable.partition.eof": False}}, "may not set 'enable.partition.eof'"),
    ({**GOOD, "PRODUCER": {"acks": 0}}, "may not set 'acks'"),
    ({**GOOD, "CLIENT": SECRET}, '"CLIENT" holds settings of librdkafka'),
]


@pytest.mark.parametrize(("kafka", "told"), MISTAKES, ids=[str(n) for n in range(len(MISTAKES))])
def test_what_cannot_be_read_is_told_by_a_check_and_by_whoever_needs_it(
    kafka: Any, told: str, configure: Callable[[Any], None]
) -> None:
    configure(kafka)
    found = look()["holdpoint.E031"]
    assert told in str(found.hint)
    assert SECRET not in f"{found.msg}{found.hint}"
    with pytest.raises(ImproperlyConfigured) as raised:
        _ = conf.kafka
    assert told in str(raised.value)


def test_a_property_that_librdkafka_does_not_have_is_named_and_its_value_is_not(
    configure: Callable[[Any], None],
) -> None:
    configure({**GOOD, "CLIENT": {"sasl.pasword": SECRET}})
    found = look()["holdpoint.E073"]
    assert "'sasl.pasword'" in found.msg
    assert SECRET not in f"{found.msg}{found.hint}"


def test_a_site_without_topics_of_answers_and_one_that_speaks_plainly_are_warned(
    configure: Callable[[Any], None],
) -> None:
    configure({"BOOTSTRAP": "kafka:9092"})
    assert set(look(deploy=True)) == {"holdpoint.W071", "holdpoint.W072"}
    configure({**GOOD, "BOOTSTRAP": "127.0.0.1:9092, localhost:9093"})
    assert look(deploy=True) == {}


def test_without_the_extra_it_is_told_what_to_install(
    configure: Callable[[Any], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    real = builtins.__import__

    def refuse(name: str, *args: Any, **kwargs: Any) -> Any:
        if name.startswith("confluent_kafka"):
            raise ImportError(name)
        return real(name, *args, **kwargs)

    monkeypatch.setattr(builtins, "__import__", refuse)
    with pytest.raises(ImproperlyConfigured, match=r"django-holdpoint\[kafka\]"):
        import_client()
    monkeypatch.setattr("workflows.operations.kafka_checks.find_spec", lambda name: None)
    configure(GOOD)
    assert "django-holdpoint[kafka]" in str(look()["holdpoint.E070"].hint)


@pytest.mark.parametrize(
    ("make", "told"),
    [
        (lambda: Kafka("pay ments"), "is no topic"),
        (lambda: Kafka(""), "is no topic"),
        (lambda: Kafka(".."), "is no topic"),
        (lambda: Kafka("payments", answers="an swers"), "is no topic"),
        (lambda: Kafka("payments", key=""), "key= must not be empty"),
        (lambda: Kafka("payments", headers={"a": 1}), "headers= is a dict of texts"),
    ],
)
def test_a_channel_that_cannot_work_is_refused_where_it_is_made(make: Callable[[], Kafka[Any]], told: str) -> None:
    with pytest.raises(InvalidCall, match=told):
        make()


@pytest.mark.parametrize("kafka", [None, {"BOOTSTRAP": "kafka:9092"}, {"BOOTSTRAP": 7}])
def test_the_command_says_what_is_missing(kafka: Any, configure: Callable[[Any], None]) -> None:
    configure(kafka)
    with pytest.raises(CommandError, match="BOOTSTRAP"):
        call_command("workflow_kafka")


def test_the_command_refuses_a_topic_that_is_trusted_for_nobody(configure: Callable[[Any], None]) -> None:
    configure(GOOD)
    with pytest.raises(CommandError, match="has no topic others; it has answers"):
        call_command("workflow_kafka", topic=["others"])


@pytest.mark.parametrize("name", ["request", "response"])
def test_the_command_prints_the_schemas_of_the_envelopes(name: Any) -> None:
    printed = StringIO()
    call_command("workflow_kafka", schema=name, stdout=printed)
    assert json.loads(printed.getvalue()) == read_schema(name)


@pytest.mark.parametrize("name", ["request", "response"])
def test_the_documentation_publishes_the_schemas_as_they_are(name: Any) -> None:
    page = (Path(__file__).resolve().parents[4] / "docs" / "kafka.md").read_text()
    found = re.search(rf"<!-- schema: {name} -->\n```json\n(.*?)```", page, re.DOTALL)
    assert found is not None
    assert json.loads(found[1]) == read_schema(name)
    jsonschema.Draft202012Validator.check_schema(dict(read_schema(name)))
