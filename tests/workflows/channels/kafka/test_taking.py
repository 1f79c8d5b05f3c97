"""What becomes of a record from a topic of answers: taken, parked with its reason, or known from before."""

from __future__ import annotations

import json
from typing import Any
from uuid import UUID, uuid4

import jsonschema
import pytest
from django.contrib.auth.models import User
from django.db import connection

import workflows
from tests.support.kafka import flows  # noqa: F401
from tests.support.kafka.records import TOPIC, ask, describe, receive, refuse_strangers, take
from tests.support.kafka.world import answer
from workflows.api import refused as dropped
from workflows.channels.kafka import take_again
from workflows.channels.kafka.envelopes import Malformed, read_response, read_schema
from workflows.channels.kafka.taking import Taken
from workflows.models import Instance, Interaction, LedgerEvent, ParkedAnswer, Tally
from workflows.testing import advance, assert_done, drain

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def _configured(settings: Any) -> None:
    # Port 1 takes nothing: no test here needs the broker.
    kafka = {"BOOTSTRAP": "127.0.0.1:1", "ANSWERS": {TOPIC: ["default"], "all.answers": "*"}}
    settings.WORKFLOWS = {**settings.WORKFLOWS, "KAFKA": kafka}


def count(reason: str) -> float:
    dropped.flush_dropped()
    return sum(Tally.objects.filter(name="dropped", label=reason).values_list("value", flat=True))


def test_an_answer_completes_its_question_and_names_the_record_that_did() -> None:
    row = ask()
    assert take(receive(answer(describe(row), {"paid": True}), offset=7)) == Taken(completed=1)
    drain()
    assert_done(row.instance, result={"paid": True})
    row.refresh_from_db()
    assert row.actor == "kafka:answers/0/7"


def test_null_is_an_answer() -> None:
    row = ask()
    assert take(receive(answer(describe(row), None))).completed == 1


def test_a_record_that_is_read_again_changes_nothing_and_is_not_parked() -> None:
    row = ask()
    record = receive(answer(describe(row), 1), offset=3)
    bad = receive(b"nonsense", offset=4)
    assert take(record, bad) == Taken(completed=1, parked=1)
    events = LedgerEvent.objects.filter(instance_id=row.instance_id).count()
    assert take(record, bad) == Taken(repeated=2)
    assert ParkedAnswer.objects.count() == 1
    assert LedgerEvent.objects.filter(instance_id=row.instance_id).count() == events


def test_a_topic_that_was_made_anew_begins_its_offsets_again_and_nothing_of_it_is_lost() -> None:
    take(receive(b"nonsense", offset=4))
    later = receive(b"other nonsense", offset=4)
    later.sent_ms += 1
    assert take(later) == Taken(parked=1)


MALFORMED = [
    (None, "no value"),
    (b"", "empty"),
    (b"\xff", "not UTF-8"),
    (b"nonsense", "line 1 column 1"),
    (b"[]", "JSON object"),
    (b'{"type": "holdpoint.request"}', "$.type"),
    (b'{"a": 1, "a": 2}', "twice"),
    (b'{"data": ' + b"[" * 40 + b"]" * 40 + b"}", "nested deeper"),
    (b'{"data": "\\u0000"}', "data"),
]


@pytest.mark.parametrize(("value", "told"), MALFORMED, ids=[told for _, told in MALFORMED])
def test_what_is_no_envelope_is_parked_with_its_bytes_and_the_place_of_the_mistake(
    value: bytes | None, told: str
) -> None:
    assert take(receive(value)) == Taken(parked=1)
    parked = ParkedAnswer.objects.get()
    assert (parked.reason, parked.workspace, parked.interaction) == ("malformed", None, None)
    assert told in parked.detail
    assert (None if parked.value is None else bytes(parked.value)) == value
    assert (bytes(parked.key), parked.headers) == (b"key", [["tenant", "acme\ufffd"]])
    assert count("malformed") == 1


CHANGES: list[dict[str, Any]] = [
    {"type": ...},
    {"type": "holdpoint.request"},
    {"version": ...},
    {"version": 2},
    {"version": True},
    {"version": "1"},
    {"workspace": ...},
    {"workspace": ""},
    {"workspace": 7},
    {"interaction": ...},
    {"interaction": "order-7"},
    {"interaction": "{01995c0e-6d8a-7c3e-9a51-0f6f0b7d2c11}"},
    {"data": ...},
    {"error": "no money"},
    {"data": ..., "error": ""},
    {"data": ..., "error": 7},
    {"data": ..., "error": "x" * 2001},
    {"correlation_id": 7},
    {"traceparent": None},
    {},
    {"data": ..., "error": "no money"},
    {"data": None},
    {"version": 1.0},
    {"correlation_id": "order-7", "traceparent": "00-0", "later": {"more": 1}},
]


@pytest.mark.parametrize("changes", CHANGES, ids=str)
def test_an_answer_is_read_exactly_where_the_published_schema_allows_it(changes: dict[str, Any]) -> None:
    raw = answer({"workspace": "default", "interaction": str(uuid4())}, 1, **changes)
    allowed = jsonschema.Draft202012Validator(dict(read_schema("response"))).is_valid(json.loads(raw))
    try:
        read_response(raw)
        taken = True
    except Malformed:
        taken = False
    assert taken is allowed


def test_an_answer_for_a_workspace_that_its_topic_may_not_speak_for_is_parked_as_foreign() -> None:
    workflows.workspace.create("acme")
    row = ask("acme")
    assert take(receive(answer(describe(row), 1))) == Taken(parked=1)
    parked = ParkedAnswer.objects.get()
    assert (parked.reason, parked.workspace) == ("foreign", None), "it is nothing of acme's"
    assert "may not answer questions of workspace 'acme'" in parked.detail
    assert count("foreign") == 1
    assert take(receive(answer(describe(row), 1), topic="all.answers")) == Taken(completed=1)


def test_a_question_that_names_the_topic_of_its_answer_is_answered_by_no_other_one() -> None:
    """Two partners of one workspace, each with a topic: neither answers for the other."""
    row = ask(channel="mine", answers="all.answers")
    assert take(receive(answer(describe(row), 1)), receive(report(row, "no"))) == Taken(parked=2)
    first, second = ParkedAnswer.objects.order_by("id")
    assert (first.reason, second.reason) == ("foreign", "foreign")
    assert "is answered by topic 'all.answers', and not by 'answers'" in first.detail
    refused = take_again(first)
    assert refused is not None
    assert refused.reason == "foreign"
    row.refresh_from_db()
    assert row.status == "pending"
    assert take(receive(answer(describe(row), 2), topic="all.answers")) == Taken(completed=1)
    assert take(receive(answer(describe(row), 1))) == Taken(parked=1)


def test_what_a_record_says_is_one_line_of_the_log(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("DEBUG", "workflows")
    take(receive(b'{"a\\nERROR all is lost": 1, "a\\nERROR all is lost": 2}'))
    assert r"at $.a\nERROR all is lost: the name stands there twice" in caplog.text
    assert "\n" in ParkedAnswer.objects.get().detail


def test_a_record_that_is_larger_than_any_answer_is_not_even_read(settings: Any) -> None:
    row = ask()
    settings.WORKFLOWS = {**settings.WORKFLOWS, "MAX_BODY": 1000, "MAX_BULK_BODY": 1000}
    assert take(receive(answer(describe(row), "x" * 1000))) == Taken(parked=1)
    parked = ParkedAnswer.objects.get()
    assert (parked.reason, parked.interaction) == ("malformed", None)
    assert "the limit is 1000" in parked.detail


def test_a_question_of_another_workspace_than_the_answer_says_is_unknown() -> None:
    workflows.workspace.create("acme")
    row = ask("acme")
    assert take(receive(answer(describe(row) | {"workspace": "default"}, 1))) == Taken(parked=1)
    parked = ParkedAnswer.objects.get()
    assert (parked.reason, parked.workspace.slug) == ("unknown", "default")
    row.refresh_from_db()
    assert row.status == "pending"


def test_answers_to_what_never_was_or_to_a_workspace_that_is_not_there_are_parked_as_unknown() -> None:
    never = {"workspace": "default", "interaction": str(uuid4())}
    nowhere = {"workspace": "nowhere", "interaction": str(uuid4())}
    assert take(receive(answer(never, 1)), receive(answer(nowhere, 1), topic="all.answers")) == Taken(parked=2)
    first, second = ParkedAnswer.objects.order_by("id")
    assert (first.reason, second.reason) == ("unknown", "unknown")
    assert first.interaction == UUID(never["interaction"])
    assert "nowhere" in second.detail


def test_the_second_of_two_answers_is_parked_and_the_first_one_stands() -> None:
    row = ask()
    assert take(receive(answer(describe(row), 1)), receive(answer(describe(row), 2))) == Taken(completed=1, parked=1)
    assert ParkedAnswer.objects.get().reason == "resolved"
    drain()
    assert_done(row.instance, result=1)


def test_an_answer_after_the_deadline_is_parked_as_expired() -> None:
    row = ask()
    advance("2h")
    assert take(receive(answer(describe(row), 1))) == Taken(parked=1)
    assert ParkedAnswer.objects.get().reason == "expired"


def test_data_that_the_schema_refuses_is_parked_and_the_question_stays_open() -> None:
    row = ask(schema={"type": "object", "required": ["paid"]})
    assert take(receive(answer(describe(row), {}))) == Taken(parked=1)
    parked = ParkedAnswer.objects.get()
    assert parked.reason == "invalid_data"
    assert "paid" in parked.detail
    assert take(receive(answer(describe(row), {"paid": 1}))) == Taken(completed=1)


def test_a_channel_made_from_it_is_answered_by_kafka_too() -> None:
    row = ask(channel="courier")
    assert take(receive(answer(describe(row), 1))) == Taken(completed=1)


@pytest.mark.parametrize("channel", ["callback", "approval", "chat"])
def test_questions_of_other_channels_are_not_answered_by_kafka(channel: str) -> None:
    User.objects.create_user("ann")
    row = ask(channel=channel)
    assert take(receive(answer(describe(row), 1))) == Taken(parked=1)
    assert ParkedAnswer.objects.get().reason == "answered_elsewhere"
    row.refresh_from_db()
    assert row.status == "pending"


def test_a_mistake_of_the_projects_own_parks_the_record_and_the_next_one_is_taken(settings: Any) -> None:
    first, second = ask(), ask()
    settings.WORKFLOWS = {**settings.WORKFLOWS, "POLICY": refuse_strangers}
    assert take(receive(answer(describe(first), 1))) == Taken(parked=1)
    parked = ParkedAnswer.objects.get()
    assert (parked.reason, parked.detail) == ("error", "ZeroDivisionError: the project's own mistake")
    settings.WORKFLOWS = {**settings.WORKFLOWS, "POLICY": None}
    assert take(receive(answer(describe(second), 1))) == Taken(completed=1)
    assert count("error") == 1


def test_a_parked_record_can_be_taken_again_once_its_cause_is_gone(settings: Any) -> None:
    row = ask()
    settings.WORKFLOWS = {**settings.WORKFLOWS, "POLICY": refuse_strangers}
    take(receive(answer(describe(row), 1)))
    parked = ParkedAnswer.objects.get()
    refused = take_again(parked)
    assert refused is not None
    assert refused.reason == "error"
    settings.WORKFLOWS = {**settings.WORKFLOWS, "POLICY": None}
    assert take_again(parked) is None
    parked.refresh_from_db()
    assert parked.taken_at is not None
    drain()
    assert_done(row.instance, result=1)
    assert take_again(parked) is None, "once more changes nothing"


def report(row: Interaction, reason: str) -> bytes:
    return answer(describe(row), data=..., error=reason)


def test_an_error_instead_of_an_answer_fails_the_question_with_its_reason() -> None:
    row = ask()
    assert take(receive(report(row, "no such account"))) == Taken(completed=1)
    drain()
    row.instance.refresh_from_db()
    assert row.instance.status == "failed"
    assert "no such account" in row.instance.error


def test_an_error_for_one_item_leaves_the_others_to_the_policy_of_the_list() -> None:
    rows = open_unit(3, on_item="partial")
    records = [receive(answer(describe(rows[0]), 0)), receive(report(rows[1], "broke")), receive(report(rows[2], "no"))]
    assert take(*records) == Taken(completed=3)
    assert take(*records) == Taken(repeated=3), "a failure that is read again is known too"
    drain()
    assert_done(rows[0].instance, result=["completed", "failed", "failed"])


@pytest.mark.parametrize("channel", ["callback", "approval"])
def test_an_error_fails_no_question_that_kafka_may_not_answer(channel: str) -> None:
    User.objects.create_user("ann")
    row = ask(channel=channel)
    assert take(receive(report(row, "no"))) == Taken(parked=1)
    assert ParkedAnswer.objects.get().reason == "answered_elsewhere"
    row.refresh_from_db()
    assert row.status == "pending"


def test_an_error_about_what_is_over_late_or_unknown_is_parked() -> None:
    over, late = ask(), ask()
    take(receive(answer(describe(over), 1)))
    advance("2h")
    unknown = answer({"workspace": "default", "interaction": str(uuid4())}, data=..., error="no")
    assert take(receive(report(over, "no")), receive(report(late, "no")), receive(unknown)) == Taken(parked=3)
    reasons = ParkedAnswer.objects.order_by("id").values_list("reason", flat=True)
    assert list(reasons) == ["resolved", "expired", "unknown"]


def open_unit(count: int, **options: Any) -> list[Interaction]:
    instance = workflows.start("kafka.each", {"count": count, **options})
    drain()
    return list(Interaction.objects.filter(instance=instance).order_by("index"))


def test_items_of_a_unit_are_completed_by_few_statements_whatever_their_number(
    django_assert_num_queries: Any,
) -> None:
    for count in (3, 30):
        records = [receive(answer(describe(row), n)) for n, row in enumerate(open_unit(count))]
        with django_assert_num_queries(3):  # seen before; find all; complete all. The release is its own transaction
            assert take(*records) == Taken(completed=count)
        drain()
        assert_done(Instance.objects.order_by("-id")[0], result=list(range(count)))


def test_items_name_the_records_that_answered_them_and_are_known_when_they_come_again() -> None:
    rows = open_unit(3)
    records = [receive(answer(describe(row), n)) for n, row in enumerate(rows)]
    assert take(*records, receive(answer(describe(rows[0]), "again"))) == Taken(completed=3, parked=1)
    assert ParkedAnswer.objects.get().reason == "resolved"
    actors = Interaction.objects.filter(unit=rows[0].unit_id).order_by("index").values_list("actor", flat=True)
    assert list(actors) == [one.actor for one in records]
    assert take(*records) == Taken(repeated=3)


def test_one_bad_answer_among_many_items_is_parked_alone() -> None:
    rows = open_unit(4)
    values = [answer(describe(row), n) for n, row in enumerate(rows)]
    bad = [b"nonsense", answer({"workspace": "default", "interaction": str(uuid4())}, 1), values[0]]
    assert take(*[receive(value) for value in [*values[:2], *bad, *values[2:]]]) == Taken(completed=4, parked=3)


def test_parked_records_go_with_retention() -> None:
    from django.core.management import call_command

    take(receive(b"nonsense"))
    call_command("workflows", "prune", older_than="30d", verbosity=0)
    assert ParkedAnswer.objects.count() == 1
    advance("31d")
    call_command("workflows", "prune", older_than="30d", verbosity=0)
    assert ParkedAnswer.objects.count() == 0


def test_nobody_writes_parked_records_but_the_transport() -> None:
    with pytest.raises(workflows.EngineOwned, match="take_again"):
        ParkedAnswer().save()
    assert connection.vendor == "postgresql"
    assert Instance.objects.count() == 0
