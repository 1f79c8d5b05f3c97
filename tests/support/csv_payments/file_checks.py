"""What a finished run has to have written."""

from __future__ import annotations

import csv
from pathlib import Path
from typing import Any

from examples.csv_payments.provider import decide
from examples.csv_payments.records import find_report, read_file
from examples.models import BookedPayment


def read_report(file: Path) -> list[dict[str, Any]]:
    with find_report(file).open(newline="") as lines:
        return list(csv.DictReader(lines))


def check_report(file: Path) -> None:
    """Every record exactly once, in the order of the file, with what the provider says of it; and booked."""
    payments = list(read_file(file))
    lines = read_report(file)
    assert [line["reference"] for line in lines] == [payment["reference"] for payment in payments]
    assert [line["status"] for line in lines] == [decide(payment)["status"] for payment in payments]
    booked = BookedPayment.objects.filter(file=str(file)).values_list("reference", flat=True)
    assert sorted(booked) == sorted(payment["reference"] for payment in payments)
