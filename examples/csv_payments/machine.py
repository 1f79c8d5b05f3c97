"""The run of a file: every payment is asked for by itself, booked as soon as its status is there, and reported."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from examples.csv_payments.channels import make_channel
from examples.csv_payments.records import find_report, read_file, write_report
from examples.models import BookedPayment
from workflows import Machine, MachineContext, action, collect, expand, wait_for


def read_payments(ctx: MachineContext) -> Iterator[dict[str, Any]]:
    return read_file(Path(ctx.input["path"]))


def book(ctx: MachineContext) -> dict[str, Any]:
    """A stage may run twice, where a worker was killed: the second time the booking is there already."""
    status = ctx.steps.status
    booking = BookedPayment(file=ctx.input["path"], reference=ctx.item.reference, status=status["status"])
    BookedPayment.objects.bulk_create([booking], ignore_conflicts=True)
    return {**ctx.item, "status": status["status"], "reason": status["reason"]}


def report(ctx: MachineContext) -> dict[str, Any]:
    lines = [dict(line) for line in ctx.items]
    write_report(find_report(Path(ctx.input["path"])), lines)
    ctx.progress(len(lines), len(lines), "the report is written")  # until then the stream itself is counted
    statuses = Counter(line["status"] for line in lines)
    paid = sum(line["amount"] for line in lines if line["status"] == "paid")
    return {"records": len(lines), **statuses, "amount": paid}


class PayFile(Machine):
    name = "demo.csv_payments"
    accepts = {"path": str, "via": str}

    payments = expand(read_payments)
    status = wait_for(
        each=True,
        channel=lambda ctx: make_channel(ctx.input["via"]),
        schema={"reference": str, "status": str, "reason": str},
        timeout="1h",
        concurrency=500,
    )
    booked = action(book)
    report = collect(report)
