"""The demo: its world is made once by the public calls, and its six processes run to their ends."""

from __future__ import annotations

import time
from collections import Counter
from datetime import timedelta
from decimal import Decimal
from io import StringIO
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.contrib.staticfiles import finders
from django.core import mail
from django.core.management import CommandError, call_command
from django.db import connection
from django.utils import timezone

import workflows
from approvals.models import Absence, Comment, Preference, Review, Snooze, Vote
from approvals.testing import assert_asked, decide
from config.run import Site
from examples.demo import rows
from examples.demo.papers import PAPERS
from examples.demo.people import PEOPLE, find_person, make_people
from examples.demo.play import fill_in
from examples.demo.refunds import name_refund
from examples.demo.world import count_waiting, count_world, make_world
from examples.models import Access, Article, Contract, Invoice, Service, Supplier
from workflows.clock import read_now
from workflows.models import Instance
from workflows.testing import advance, drain

pytestmark = pytest.mark.django_db

PROCESSES = {
    "order_refund",
    "small_refund",
    "bank_account_change",
    "new_supplier",
    "text_review",
    "deployment",
    "contract_signing",
    "access_request",
}


def read_clock() -> list[str]:
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT pg_get_functiondef('holdpoint_now'::regproc), pg_get_functiondef('holdpoint_clock'::regproc)"
        )
        return list(cursor.fetchone())


# --- the world ----------------------------------------------------------------------------------------------


def test_the_world_is_made_once_and_is_full_of_believable_work(settings: Any) -> None:
    settings.DEBUG = True
    clock, began, told = read_clock(), time.thread_time(), StringIO()
    call_command("demo", stdout=told)
    assert time.thread_time() - began < 15  # of its own, whatever else runs here; it takes three
    assert "things have happened" in told.getvalue()
    assert "The demo is there, made in" in told.getvalue()
    assert mail.outbox == []  # nobody is told about the past

    # The clock is that of the database again, and nothing happened in the future.
    assert read_clock() == clock
    assert abs(read_now() - timezone.now()) < timedelta(seconds=10)
    assert not Review.objects.filter(created_at__gt=read_now()).exists()

    check_requests()
    check_people()
    check_past()

    assert 50 <= count_waiting() < 60  # "some fifty", as the README says
    count = count_world()
    assert make_world() is False
    assert count_world() == count
    assert User.objects.count() == len(PEOPLE)


def check_requests() -> None:
    waiting = Review.objects.pending()
    assert waiting.count() >= 50
    assert set(waiting.values_list("workflow", flat=True)) == PROCESSES
    assert not Instance.objects.filter(status="failed").exists()
    for review in waiting:
        assert len(review.title.split()) <= 9, review.title
        assert review.why
        assert review.requester is not None
        assert review.due_at is not None
        assert review.evidence
    now = read_now()
    hours = [(one.due_at - now).total_seconds() / 3600 for one in waiting]
    assert 2 <= sum(one < 0 for one in hours) <= 10
    assert sum(0 < one < 24 for one in hours) >= 15
    assert sum(one > 72 for one in hours) >= 5
    alike = Counter(waiting.filter(workflow="small_refund", risk="low").values_list("why", flat=True))
    assert alike.most_common(1)[0][1] == 12
    assert {"low", "medium", "high"} == set(waiting.values_list("risk", flat=True))
    files = {one["url"] for review in waiting for one in review.evidence if one["kind"] == "file"}
    assert {one.rpartition("/")[2] for one in files} == {one.rpartition("/")[2] for one in PAPERS}
    assert all(finders.find(one) for one in PAPERS)


def check_people() -> None:
    waits = {one.username: Review.objects.for_user(find_person(one.username)).count() for one in PEOPLE}
    assert min(waits[name] for name in ("maya", "ana", "lena", "tom", "ines", "samir")) >= 5
    assert waits["maya"] == max(waits.values())
    assert waits["ben"] == waits["priya"] == 0
    requesters = set(Review.objects.pending().values_list("requester__username", flat=True))
    assert requesters == {"ben", "priya", "ines", "samir"}
    assert Preference.objects.get(user__username="lena").language == "de"
    assert User.objects.get(username="samir").is_superuser
    assert User.objects.filter(is_superuser=True).count() == 1
    # Tom is away, and who stands in for him finds what waits for him.
    away = Absence.objects.get()
    assert (away.user.username, away.substitute.username) == ("tom", "ines")
    theirs = set(Review.objects.for_user(away.user).values_list("pk", flat=True))
    assert theirs & set(Review.objects.for_user(away.substitute).values_list("pk", flat=True))
    # And what people have done with what waits.
    pending = Review.objects.pending()
    assert set(pending.exclude(claimed_by=None).values_list("claimed_by__username", flat=True)) == {"lena", "maya"}
    assert Snooze.objects.filter(user__username="maya").count() == 1
    assert set(Comment.objects.values_list("kind", flat=True)) == {"comment", "question", "answer"}
    assert pending.filter(candidates__principal=f"user:{waiting_id('samir')}").exists()  # handed on
    assert Vote.objects.filter(review__in=pending).count() >= 8


def waiting_id(username: str) -> Any:
    return User.objects.get(username=username).pk


def check_past() -> None:
    decided = Review.objects.filter(decided_at__isnull=False)
    assert decided.count() >= 30
    assert set(decided.values_list("workflow", flat=True)) == PROCESSES
    assert decided.filter(decided_at__lt=read_now() - timedelta(days=30)).count() >= 5
    votes = Vote.objects.filter(review__in=decided)
    assert len(set(votes.values_list("door", flat=True))) >= 3
    assert len(set(votes.values_list("user", flat=True))) >= 4
    assert votes.exclude(reason="").count() >= 15
    assert {"approve", "reject"} <= set(decided.values_list("outcome", flat=True))
    assert Invoice.objects.filter(status="refunded").count() >= 10
    assert Contract.objects.filter(is_signed=True).count() == 2


def test_a_database_in_which_something_has_happened_gets_people_and_nothing_else() -> None:
    workflows.start("demo.ship", {"order": 7})
    assert make_world() is False
    assert Instance.objects.count() == 1
    assert all(find_person(one.username) for one in PEOPLE)


def test_who_has_a_name_of_the_demo_already_is_left_alone() -> None:
    mine = User.objects.create_user("maya", "maya@home.example", "secret")
    make_people()
    mine.refresh_from_db()
    assert mine.check_password("secret")
    assert (mine.email, mine.groups.count()) == ("maya@home.example", 0)
    assert find_person("maya") is None


def test_the_command_needs_debug_and_may_be_repeated(settings: Any) -> None:
    with pytest.raises(CommandError, match="DEBUG=1"):
        call_command("demo")
    assert not User.objects.exists()
    settings.DEBUG = True
    workflows.start("demo.ship", {"order": 7})  # so that no world is made, which takes its time
    told = StringIO()
    call_command("demo", stdout=told)
    call_command("demo", stdout=told)
    assert told.getvalue().count("samir") == 2
    assert User.objects.count() == len(PEOPLE)


@pytest.mark.parametrize(
    ("debug", "demo", "made"), [(None, None, True), ("1", "0", False), ("0", None, False), ("0", "1", False)]
)
def test_make_run_makes_the_demo_with_debug_unless_it_is_told_not_to(
    monkeypatch: pytest.MonkeyPatch, debug: str | None, demo: str | None, made: bool
) -> None:
    for name, given in (("DEBUG", debug), ("DEMO", demo)):
        monkeypatch.delenv(name, raising=False)
        if given is not None:
            monkeypatch.setenv(name, given)
    site = Site(8000)
    assert (("demo",) in site.list_commands()) is made
    assert site.list_commands()[0][0] == "migrate"
    assert any("Maya" in line for line in site.tell_demo()) is made


# --- the processes ------------------------------------------------------------------------------------------


def begin(people: dict[str, User], who: str, workflow: str, given: dict[str, Any]) -> Instance:
    instance = workflows.start(workflow, given, actor=people[who])
    drain()
    return instance


MAKERS: dict[str, tuple[str, Any, tuple[Any, ...], tuple[str, ...]]] = {
    "small_refund": ("ben", rows.for_refund, ("J. Marsh", "12.40", "Late."), ("tom",)),
    "order_refund": ("ben", rows.for_refund, ("Acme GmbH", "1240.00", "Lost."), ("ana", "lena", "maya")),
    "bank_account_change": ("priya", rows.for_account, ("Fjord", "Rabobank", "NL20", "By letter."), ("ana", "lena")),
    "new_supplier": ("priya", rows.for_supplier, ("Nordmark", "Sweden", "Oak."), ("maya", "tom")),
    "text_review": ("ben", rows.for_article, ("Moss", "Old.", "New.", "Better."), ("ines",)),
    "deployment": ("samir", rows.for_deploy, ("till", "1.0", "1.1", "Fix.", ["A fix"]), ("lena",)),
    "contract_signing": ("priya", rows.for_contract, ("Music", "Klang", "1140", 12, "Rent."), ("maya", "lena")),
    "access_request": ("ben", rows.for_access, ("Ben Okafor", "the till", 7, ["Sales"], "Sums."), ("ines",)),
}


@pytest.mark.parametrize("workflow", sorted(PROCESSES))
@pytest.mark.parametrize("outcome", ["approve", "reject"])
def test_each_process_is_decided_to_its_end(people: dict[str, User], workflow: str, outcome: str) -> None:
    who, make, words, voters = MAKERS[workflow]
    instance = begin(people, who, workflow, make(*words))
    review = assert_asked(instance, *(people[name] for name in voters))
    if workflow in ("bank_account_change", "new_supplier", "deployment"):
        assert review.risk == "high"
    for name in voters:
        data = fill_in(review.interaction.schema) if review.interaction.schema and outcome == "approve" else None
        decide(instance, outcome, actor=people[name], reason="Seen", data=data)
    advance("8d")
    instance.refresh_from_db()
    assert instance.status == "done"
    result: Any = instance.result
    assert result["ok"] is (outcome == "approve")
    assert result["told"]
    assert read_effect(workflow) is (outcome == "approve")


def read_effect(workflow: str) -> bool:
    """Whether the row of the shop has changed."""
    match workflow:
        case "order_refund" | "small_refund":
            return Invoice.objects.get().refunded == Invoice.objects.get().amount
        case "bank_account_change":
            return Supplier.objects.get().account == "NL20"
        case "new_supplier":
            return Supplier.objects.get().status == "active"
        case "text_review":
            return Article.objects.get().body == "New."
        case "deployment":
            return Service.objects.get().version == "1.1"
        case "contract_signing":
            return Contract.objects.get().is_signed
    # Given and, by now, taken away again.
    assert Access.objects.get().level == "none"
    return Vote.objects.get().outcome == "approve"


def test_access_is_open_until_its_day(people: dict[str, User]) -> None:
    access = begin(people, "ben", "access_request", rows.for_access("Ben", "the till", 7, ["Sales"], "Sums."))
    data = fill_in(assert_asked(access).interaction.schema)
    decide(access, "approve", actor=people["ines"], data={**data, "level": "write"})
    assert Access.objects.get().level == "write"
    advance("6d")
    assert Access.objects.get().level == "write"
    advance("1d")
    assert Access.objects.get().level == "none"


def test_a_contract_is_signed_on_the_terms_of_who_signs_last(people: dict[str, User]) -> None:
    contract = begin(people, "priya", "contract_signing", rows.for_contract("Music", "Klang", "1140", 12, "Rent."))
    schema = assert_asked(contract).interaction.schema
    with pytest.raises(workflows.InvalidData):
        decide(contract, "approve", actor=people["maya"], data={**fill_in(schema), "value": 2000})
    better = {**fill_in(schema), "value": 990.5, "months": 6}
    for name in ("maya", "lena"):
        decide(contract, "approve", actor=people[name], data=better)
    signed = Contract.objects.get()
    assert (signed.value, signed.months, signed.is_signed) == (Decimal("990.50"), 6, True)


@pytest.mark.parametrize(
    ("amount", "needed", "risk"), [("49.99", 1, "low"), ("500", 1, "low"), ("500.01", 3, "medium")]
)
def test_the_amount_of_a_refund_says_how_many_it_takes(
    people: dict[str, User], amount: str, needed: int, risk: str
) -> None:
    refund = begin(people, "ben", name_refund(amount), rows.for_refund("Acme", amount, "Lost."))
    assert assert_asked(refund).risk == risk
    states = [decide(refund, "approve", actor=people[name]).state for name in ("ana", "lena", "maya")[:needed]]
    assert states == ["open"] * (needed - 1) + ["decided"]
