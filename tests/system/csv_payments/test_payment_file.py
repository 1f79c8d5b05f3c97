"""A file of payments, each of which goes to a provider that rejects some, is slow with some and says some twice."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import workflows
from examples.csv_payments import channels
from examples.csv_payments.machine import PayFile
from examples.csv_payments.provider import decide, is_repeated, is_slow
from examples.csv_payments.records import make_file, read_file, write_file
from tests.support.csv_payments.file_checks import check_report, read_report
from workflows.models import AwaitUnit, Instance, Interaction
from workflows.testing import drain

pytestmark = pytest.mark.django_db


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "payments.csv"


def run(file: Path, via: str = "inprocess") -> Instance:
    instance = workflows.start(PayFile, {"path": str(file), "via": via})
    drain()
    instance.refresh_from_db()
    return instance


def test_every_record_is_in_the_report_once_in_the_order_of_the_file(file: Path, monkeypatch: Any) -> None:
    monkeypatch.setattr(channels, "SLOW_SECONDS", 0.0)
    write_file(file, 300)
    instance = run(file)
    assert instance.status == "done", instance.error
    check_report(file)
    payments = list(read_file(file))
    # Else the provider would not be what it is said to be.
    assert any(is_slow(one) for one in payments)
    assert any(is_repeated(one) for one in payments)
    rejected = sum(decide(one)["status"] == "rejected" for one in payments)
    assert 0 < rejected < 300
    assert instance.result == {
        "records": 300,
        "paid": 300 - rejected,
        "rejected": rejected,
        "amount": sum(one["amount"] for one in payments if decide(one)["status"] == "paid"),
    }


def test_runs_that_begin_in_the_same_second_have_a_file_each(tmp_path: Path) -> None:
    files = [make_file(tmp_path / "new", "kafka", records) for records in range(5)]
    assert [len(list(read_file(file))) for file in files] == list(range(5))
    # What is told apart by the beginnings of names is so too: a run's report and what is left of it.
    assert not [(one, other) for one in files for other in files if one != other and other.stem.startswith(one.stem)]


def test_an_empty_file_has_an_empty_report(file: Path) -> None:
    write_file(file, 0)
    assert run(file).result == {"records": 0, "amount": 0}
    assert read_report(file) == []


def test_statuses_come_in_another_order_than_the_file_has(file: Path, monkeypatch: Any) -> None:
    monkeypatch.setattr(channels, "SLOW_SECONDS", 0.0)
    write_file(file, 100)
    run(file)
    assert AwaitUnit.objects.get(items=True).total == 100
    closed = Interaction.objects.filter(item=True).order_by("closed_at").values_list("index", flat=True)
    assert sorted(closed) == list(range(100))
    assert list(closed) != list(range(100))
