"""Payment files: writing one, reading it record by record, and the report."""

from __future__ import annotations

import csv
import time
from collections.abc import Iterable, Iterator, Mapping
from itertools import count
from pathlib import Path
from typing import Any

FIELDS = ("reference", "payee", "amount")
REPORT_FIELDS = (*FIELDS, "status", "reason")


def make_file(folder: Path, via: str, records: int) -> Path:
    """A file of a run's own: another that begins in the same second would pay, or write over, what is not its."""
    folder.mkdir(parents=True, exist_ok=True)
    for number in count(1):
        path = folder / f"{time.strftime('%Y%m%d-%H%M%S')}-{number}-{via}.csv"
        try:
            path.touch(exist_ok=False)
        except FileExistsError:
            continue
        write_file(path, records)
        return path
    raise AssertionError("unreachable")  # pragma: no cover


def write_file(path: Path, records: int) -> None:
    """A file of so many payments, always the same ones."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(FIELDS)
        writer.writerows(
            (f"P{number:06}", f"Payee {number % 97}", number % 500 + 1) for number in range(1, records + 1)
        )


def read_file(path: Path) -> Iterator[dict[str, Any]]:
    """Its payments, one after another."""
    with path.open(newline="") as file:
        for row in csv.DictReader(file):
            yield {**row, "amount": int(row["amount"])}


def write_report(path: Path, lines: Iterable[Mapping[str, Any]]) -> None:
    """A line for each payment, in the order of the file. Whoever reads it meanwhile sees the old one or the new one."""
    scratch = path.with_suffix(".new")
    with scratch.open("w", newline="") as file:
        writer = csv.DictWriter(file, REPORT_FIELDS)
        writer.writeheader()
        writer.writerows(lines)
    scratch.replace(path)


def find_report(path: Path) -> Path:
    """Where the report of a file is written."""
    return path.with_suffix(".report.csv")
