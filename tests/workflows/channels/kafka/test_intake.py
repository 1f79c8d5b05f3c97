"""Answers that come over Kafka: taken once, whatever breaks on the way."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator

import psycopg
import pytest
from django.db import OperationalError, connection, connections, transaction
from psycopg.sql import SQL, Identifier

import workflows
from config.kafka import Broker
from tests.support.kafka import flows  # noqa: F401
from tests.support.kafka.consumer import commanded, consuming
from tests.support.kafka.records import describe
from tests.support.kafka.world import Partner, answer, read_requests
from tests.support.processes import wait_until
from tests.support.races import COMMITTED
from workflows.channels.kafka.taking import MOST_TROUBLES, Received, Taken, take_answers
from workflows.conf.kafka_settings import read_kafka
from workflows.models import Interaction, LedgerEvent, ParkedAnswer
from workflows.testing import assert_done, drain

pytestmark = [pytest.mark.kafka, pytest.mark.process, COMMITTED, pytest.mark.usefixtures("committed")]


@pytest.fixture
def topic(partner: Partner, configure: Callable[..., None]) -> str:
    """A topic of answers with four partitions, trusted for the default workspace."""
    name = partner.make_topic("answers", 4)
    configure({name: ["default"]})
    return name


def ask(count: int) -> list[Interaction]:
    """Questions that wait for answers by Kafka, and were sent by nobody."""
    workflows.start_many("kafka.taking", [{}] * count)
    drain()
    return list(Interaction.objects.select_related("workspace").order_by("id"))


def write_answers(partner: Partner, topic: str, rows: list[Interaction]) -> None:
    partner.write_all(topic, [answer(describe(row), number) for number, row in enumerate(rows)])


def count_completed() -> int:
    return Interaction.objects.filter(status="completed").count()


def wait_for_completed(count: int) -> None:
    wait_until(count_completed, f"{count} answers", is_it=lambda seen: seen >= count)


def check_each_once(rows: list[Interaction]) -> None:
    """Every question has its own answer, and was told so once."""
    drain()
    for number, row in enumerate(rows):
        assert_done(row.instance, result=number)
    answered = LedgerEvent.objects.filter(kind="answered").values_list("instance_id", flat=True)
    assert sorted(answered) == sorted(row.instance_id for row in rows)


def test_a_question_goes_out_and_its_answer_comes_back(partner: Partner, configure: Callable[..., None]) -> None:
    requests, answers = partner.make_topic("payments"), partner.make_topic("answers")
    configure({answers: ["default"]})
    instance = workflows.start("kafka.pay", {"topic": requests, "amount": 30})
    drain()
    [request] = read_requests(partner.read(requests))
    assert request["request"] == {"amount": 30}
    with consuming():
        partner.write(request["answers"], answer(request, {"paid": 30}))
        wait_for_completed(1)
    drain()
    assert_done(instance, result={"paid": 30})
    assert partner.find_committed(answers) == 1


def test_a_list_goes_out_item_by_item_and_answers_in_any_order_come_back_in_that_of_the_items(
    partner: Partner, configure: Callable[..., None]
) -> None:
    requests, answers = partner.make_topic("payments", 3), partner.make_topic("answers", 3)
    configure({answers: ["default"]})
    instance = workflows.start("kafka.pay_each", {"topic": requests, "count": 50, "concurrency": 20})
    with consuming():
        for begin in (0, 20, 40):  # no more are out at once than may be in flight
            drain()
            asked = read_requests(partner.read(requests, min(begin + 20, 50)))
            assert partner.count(requests) == min(begin + 20, 50)
            answered = {str(id) for id in Interaction.objects.exclude(status="pending").values_list("pk", flat=True)}
            fresh = [one for one in asked if one["interaction"] not in answered]
            values = [answer(one, one["request"] * 2) for one in fresh]
            partner.write_all(answers, [*reversed(values), values[0]])
            wait_for_completed(len(asked))
            wait_until(ParkedAnswer.objects.count, "the repeated one", is_it=lambda seen, n=begin: seen == n // 20 + 1)
    drain()
    assert_done(instance, result=[n * 2 for n in range(50)])
    assert set(ParkedAnswer.objects.values_list("reason", flat=True)) == {"resolved"}


def test_answers_that_were_written_before_the_first_consumer_came_are_taken(partner: Partner, topic: str) -> None:
    rows = ask(5)
    write_answers(partner, topic, rows)
    with consuming():
        wait_for_completed(5)
    check_each_once(rows)


def test_bad_answers_are_parked_and_hold_up_nobody(partner: Partner, topic: str) -> None:
    rows = ask(3)
    good = [answer(describe(row), number) for number, row in enumerate(rows)]
    bad = [b"nonsense", None, answer({"workspace": "acme", "interaction": str(rows[0].pk)}, 1), good[0]]
    values = [value for pair in zip(good, bad[:3], strict=True) for value in pair] + bad[3:]
    for value in values:
        partner.write(topic, value, partition=0)
    with consuming():
        wait_for_completed(3)
        wait_until(ParkedAnswer.objects.count, "four parked", is_it=lambda seen: seen == 4)
    check_each_once(rows)
    assert sorted(ParkedAnswer.objects.values_list("reason", flat=True)) == [
        *("foreign", "malformed", "malformed", "resolved")
    ]
    assert partner.find_committed(topic) == len(values)


def test_an_offset_is_committed_only_after_the_database_has_committed(partner: Partner, topic: str) -> None:
    [row] = ask(1)
    with commanded() as process:
        with transaction.atomic(), connection.cursor() as cursor:
            cursor.execute("SELECT 1 FROM holdpoint_interaction WHERE id = %s FOR UPDATE", [row.pk])
            write_answers(partner, topic, [row])
            wait_until(lambda: find_blocked() > 0, "the consumer to wait for the row")
            assert partner.find_committed(topic) == 0
        wait_until(lambda: partner.find_committed(topic), "the offset")
        assert process.stop()[0] == 0
    check_each_once([row])


def find_blocked() -> int:
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_stat_clear_snapshot()")
        cursor.execute(
            "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'"
        )
        found: int = cursor.fetchone()[0]
    return found


def test_sigterm_finishes_the_batch_and_commits_its_offsets(partner: Partner, topic: str) -> None:
    [row] = ask(1)
    with commanded() as process:
        with transaction.atomic(), connection.cursor() as cursor:
            cursor.execute("SELECT 1 FROM holdpoint_interaction WHERE id = %s FOR UPDATE", [row.pk])
            write_answers(partner, topic, [row])
            wait_until(lambda: find_blocked() > 0, "the consumer to wait for the row")
            process.kill(signal.SIGTERM)
        assert wait_until(process.popen.poll, "the end", is_it=lambda code: code is not None) == 0
        assert "stopped after 1 answer; 0 parked" in process.read_log()
    assert partner.find_committed(topic) == 1
    check_each_once([row])


def test_what_is_delivered_twice_counts_once(partner: Partner, topic: str, configure: Callable[..., None]) -> None:
    rows = ask(4)
    write_answers(partner, topic, rows)
    partner.write(topic, b"nonsense")
    with consuming():
        wait_until(ParkedAnswer.objects.count, "the parked one")
        wait_for_completed(4)
    # Another group has committed nothing, as if each commit of an offset had been lost.
    configure({topic: ["default"]}, GROUP=f"{partner.group}-again")
    with consuming() as again:
        wait_until(lambda: again.intake.taken.repeated, "all of them", is_it=lambda seen: seen == 5)
    assert (again.intake.taken.completed, again.intake.taken.parked) == (0, 0)
    assert ParkedAnswer.objects.count() == 1
    check_each_once(rows)


def test_consumers_share_the_partitions_and_what_one_leaves_the_other_takes(partner: Partner, topic: str) -> None:
    rows = ask(60)
    with consuming() as first:
        write_answers(partner, topic, rows[:20])
        with consuming() as second:
            partner.write_all(topic, [answer(describe(row), n) for n, row in enumerate(rows[:40]) if n >= 20])
            wait_until(lambda: len(second.partitions), "partitions for the second")
            first.stop()
            partner.write_all(topic, [answer(describe(row), n) for n, row in enumerate(rows) if n >= 40])
            wait_for_completed(60)
    assert not ParkedAnswer.objects.exists()
    check_each_once(rows)
    assert partner.find_committed(topic) == 60


@pytest.mark.kill
def test_what_a_killed_consumer_leaves_its_successor_takes(partner: Partner, topic: str) -> None:
    rows = ask(60)
    with commanded() as first:
        write_answers(partner, topic, rows[:30])
        wait_until(count_completed, "an answer")
        first.kill()
        write_answers_from(partner, topic, rows, 30)
        with commanded(ready=False):
            wait_for_completed(60)
    assert not ParkedAnswer.objects.exists()
    check_each_once(rows)


def write_answers_from(partner: Partner, topic: str, rows: list[Interaction], begin: int) -> None:
    partner.write_all(topic, [answer(describe(row), n) for n, row in enumerate(rows) if n >= begin])


def allow_connections(allowed: bool) -> None:
    """Whether anybody new may connect to the test's database; its own connection stays."""
    name, own = connection.settings_dict["NAME"], connection.connection
    # Nobody may shut the database that they are in.
    with psycopg.connect(own.info.dsn, dbname="postgres", password=own.info.password, autocommit=True) as other:
        other.execute(SQL("ALTER DATABASE {} ALLOW_CONNECTIONS {}").format(Identifier(name), SQL(str(allowed))))
        if not allowed:
            other.execute(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = %s AND pid <> %s",
                [name, own.info.backend_pid],
            )


@pytest.fixture
def vanishing() -> Iterator[Callable[[bool], None]]:
    yield allow_connections
    allow_connections(True)


def test_while_the_database_is_away_no_offset_is_committed_and_afterwards_all_goes_on(
    partner: Partner, topic: str, vanishing: Callable[[bool], None]
) -> None:
    rows = ask(30)
    with commanded() as process:
        write_answers(partner, topic, rows[:10])
        wait_for_completed(10)
        wait_until(lambda: partner.find_committed(topic), "ten offsets", is_it=lambda seen: seen == 10)
        vanishing(False)
        write_answers_from(partner, topic, rows, 10)
        wait_until(lambda: "the database is away" in process.read_log(), "the consumer to notice")
        assert partner.find_committed(topic) == 10
        vanishing(True)
        wait_for_completed(30)
        wait_until(lambda: partner.find_committed(topic), "all offsets", is_it=lambda seen: seen == 30)
        assert process.stop()[0] == 0
    assert not ParkedAnswer.objects.exists()
    check_each_once(rows)


def test_partitions_that_went_to_another_while_the_database_was_away_are_read_when_they_come_back(
    partner: Partner, topic: str, vanishing: Callable[[bool], None]
) -> None:
    rows = ask(30)
    with commanded() as process:
        vanishing(False)
        write_answers(partner, topic, rows[:10])
        wait_until(lambda: "the database is away" in process.read_log(), "the consumer to notice")
        with partner.join(topic) as other:
            wait_until(other, "half of the partitions", is_it=lambda parts: len(parts) == 2)
            vanishing(True)
            wait_until(lambda: "the database is back" in process.read_log(), "the consumer to go on")
        write_answers_from(partner, topic, rows, 10)
        wait_for_completed(30)
        assert process.stop()[0] == 0
    check_each_once(rows)


def test_a_consumer_stops_though_the_database_is_away_and_commits_nothing(
    partner: Partner, topic: str, vanishing: Callable[[bool], None]
) -> None:
    rows = ask(3)
    with commanded() as process:
        vanishing(False)
        write_answers(partner, topic, rows)
        wait_until(lambda: "the database is away" in process.read_log(), "the consumer to notice")
        assert process.stop()[0] == 0
    vanishing(True)
    assert partner.find_committed(topic) == 0
    with consuming():
        wait_for_completed(3)
    check_each_once(rows)


def test_an_answer_that_the_database_cannot_store_is_parked_in_the_end_and_others_go_on() -> None:
    stuck, other = ask(2)
    settings = read_kafka({"BOOTSTRAP": "127.0.0.1:1", "ANSWERS": {"answers": "*"}})
    records = [Received("answers", 0, n, 1, None, answer(describe(row), n)) for n, row in enumerate((stuck, other))]
    info = connection.connection.info
    with psycopg.connect(info.dsn, password=info.password) as holder, connection.cursor() as cursor:
        holder.execute("SELECT 1 FROM holdpoint_instance WHERE id = %s FOR UPDATE", [stuck.instance_id])
        cursor.execute("SET lock_timeout = '20ms'")
        for _ in range(MOST_TROUBLES - 1):
            with pytest.raises(OperationalError):
                take_answers(records, settings)
        assert take_answers(records, settings) == Taken(completed=1, parked=1)
        cursor.execute("SET lock_timeout = 0")
    assert ParkedAnswer.objects.get().reason == "error"
    drain()
    assert_done(other.instance, result=1)


@pytest.mark.kill
def test_a_broker_that_comes_late_and_one_that_is_killed_are_waited_for(
    own_broker: Broker, configure: Callable[..., None]
) -> None:
    partner = Partner(own_broker.bootstrap)
    topic = partner.make_topic("answers")
    requests = partner.make_topic("payments")
    configure({topic: ["default"]}, BOOTSTRAP=own_broker.bootstrap)
    own_broker.kill()
    with consuming(ready=False) as consumer:
        instances = [workflows.start("kafka.pay", {"topic": requests, "amount": n}) for n in range(2)]
        own_broker.launch()
        drain()
        questions = read_requests(partner.read(requests, 2))
        partner.write(topic, answer(questions[0], 0))
        wait_for_completed(1)
        own_broker.kill()
        own_broker.launch()
        partner.write(topic, answer(questions[1], 1))
        wait_for_completed(2)
        consumer.stop()
    drain()
    for request, number in zip(questions, range(2), strict=True):
        [instance] = [one for one in instances if str(one.pk) == request["instance"]]
        assert_done(instance, result=number)
    connections.close_all()
