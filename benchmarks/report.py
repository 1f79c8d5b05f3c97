"""Prints the table, and writes results.json and the marked section of README.md."""

from __future__ import annotations

import json
import statistics
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from benchmarks.table import Bar, Row

HERE = Path(__file__).resolve().parent
BEGIN, END = "<!-- results: written by python -m benchmarks -->", "<!-- end of results -->"
#: A run that begins above this load average shared its processors with somebody.
QUIET = 0.3
HEAD = ("Measure", "Result, median (spread)", "Limit or peer", "Ratio (spread)", "Bar", "Verdict")


def write_results(rows: Sequence[Row], machine: dict[str, Any], options: dict[str, Any]) -> None:
    """Keep a run: the figures as data, and the table in the README."""
    data = {
        "measured_on": datetime.now(UTC).date().isoformat(),
        "options": options,
        "machine": machine,
        "rows": [row.as_json() for row in rows],
    }
    (HERE / "results.json").write_text(json.dumps(data, indent=1, ensure_ascii=False) + "\n")
    readme = HERE / "README.md"
    before, rest = readme.read_text().split(BEGIN)
    after = rest.split(END)[1]
    told = f"Measured on {data['measured_on']} with {options['repetitions']} repetitions"
    told += ", `--full`." if options["full"] else "."
    if machine["load_at_start"][0] > QUIET:
        told += " **Other programs were busy on the machine: do not quote these figures.**"
    if not is_durable(machine):
        told += " **The server does not flush its commits: do not quote these figures.**"
    section = "\n\n".join([BEGIN, told, render_table(rows), render_notes(rows), render_machine(machine), END])
    readme.write_text(before + section + after)


def is_durable(machine: dict[str, Any]) -> bool:
    settings = machine["postgresql_settings"]
    return settings["fsync"] == "on" and settings["synchronous_commit"] != "off"


def render_table(rows: Sequence[Row]) -> str:
    """Lay the rows out as Markdown, in columns that can be read on a terminal too."""
    cells = [HEAD] + [
        (
            row.measure,
            render_samples(row.results, row.unit),
            f"{row.against}: {render_samples(row.others, row.unit)}" if row.others else row.against,
            render_samples(row.ratios, "×"),
            " and ".join(render_bar(bar, row) for bar in row.bars),
            row.verdict,
        )
        for row in rows
    ]
    widths = [max(len(line[column]) for line in cells) for column in range(len(HEAD))]
    lines = [
        "| " + " | ".join(text.ljust(width) for text, width in zip(line, widths, strict=True)) + " |" for line in cells
    ]
    lines.insert(1, "|" + "|".join("-" * (width + 2) for width in widths) + "|")
    return "\n".join(lines)


def render_samples(samples: Sequence[float], unit: str) -> str:
    if not samples:
        return ""
    middle = f"{render_figure(statistics.median(samples))} {unit}"
    if len(samples) == 1:
        return middle
    return f"{middle} ({render_figure(min(samples))} to {render_figure(max(samples))})"


def render_figure(value: float) -> str:
    """Three significant digits, or whole numbers with separators."""
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


def render_bar(bar: Bar, row: Row) -> str:
    sign = "≤" if bar.at_most else "≥"
    if bar.of == "ratio":
        return f"{sign} {bar.limit:g} × {row.against}"
    return f"{sign} {bar.limit:,g} {row.unit}"


def render_notes(rows: Sequence[Row]) -> str:
    notes = [f"* {row.measure}: {row.note}" for row in rows if row.note]
    return "\n".join(notes) if notes else "No remarks."


def render_machine(machine: dict[str, Any]) -> str:
    flush = machine["fdatasync_us"]
    flushed = f"{flush:g} µs" if flush else "not measured, the server was not ours"
    settings = ", ".join(f"{name} {value}" for name, value in machine["postgresql_settings"].items())
    packages = ", ".join(f"{name} {value}" for name, value in machine["packages"].items())
    return "\n".join(
        [
            f"* Machine: {machine['cores']} cores ({machine['processor']}), {machine['memory_gib']} GiB, "
            f"{machine['system']}; load when the run began {machine['load_at_start'][0]}",
            f"* One fdatasync of 8 kB: {flushed}",
            f"* PostgreSQL {machine['postgresql']}: {settings}",
            f"* Python {machine['python']}: {packages}",
        ]
    )
