"""`python -m benchmarks`: run the measures, print one table, keep the results.

Results are kept only of a run with every measure: a table is one run on one machine.
"""

from __future__ import annotations

import argparse
import os
import sys
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from benchmarks import measures, report
from benchmarks.contenders import dbos as dbos_peer
from benchmarks.contenders import restate as restate_peer
from benchmarks.contenders.dbos import PeerMissing
from benchmarks.contenders.django_q import DjangoQ
from benchmarks.machine import describe_machine
from benchmarks.plan import Plan, say
from benchmarks.server import DBOS, DJANGO_Q, MAIN, RAW, BenchServer, open_server
from benchmarks.table import Row

T = TypeVar("T")


def main() -> None:
    options = read_options()
    names = [name for name in measures.NAMES if name in (options.only or measures.NAMES)]
    with open_server() as server:
        plan = prepare(server, options)
        peers = (dbos_peer.list_versions() if plan.dbos else {}) | (
            restate_peer.list_versions() if plan.restate else {}
        )
        machine = describe_machine(server.url, server.folder, peers)
        print(report.render_machine(machine), flush=True)
        if not report.is_durable(machine):
            say("this server does not flush its commits: its figures say nothing about a durable one")
        rows: list[Row] = []
        for name in names:
            measure = measures.load_measure(name)
            say(f"{name}: {(measure.__doc__ or '').splitlines()[0]}")
            try:
                rows += measure(plan)
            except Exception as error:  # the other measures still have something to say
                traceback.print_exc()
                rows.append(Row(name, "", (), note=f"{error!r:.300}", broken=True))
    print("\n" + report.render_table(rows) + "\n\n" + report.render_notes(rows))
    if not (options.only or options.no_write):
        kept = {"repetitions": plan.repetitions, "full": plan.full, "seed_size": plan.seed_size}
        report.write_results(rows, machine, kept)
        say("kept in benchmarks/results.json and benchmarks/README.md")
    if broken := [row.measure for row in rows if row.verdict == "broke off"]:
        sys.exit(f"broke off: {', '.join(broken)}")


def read_options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument(
        "--full", action="store_true", help="a million parked, and sizes at 100,000 (a quarter of an hour)"
    )
    parser.add_argument("--only", nargs="+", choices=measures.NAMES, help="these measures; nothing is kept")
    parser.add_argument("--repetitions", type=int, default=3, help="turns per contender (3)")
    parser.add_argument("--seed-size", type=int, help="instances for the bytes per row (20,000; full: 100,000)")
    parser.add_argument("--no-peers", action="store_true", help="leave DBOS and Restate out; their bars stay open")
    parser.add_argument("--no-write", action="store_true", help="print only")
    return parser.parse_args()


def prepare(server: BenchServer, options: argparse.Namespace) -> Plan:
    """Make the databases, the tables and the peers."""
    url = server.create_database(MAIN)
    raw_url = server.create_database(RAW)
    start_django(url)
    if not options.only or {"scale", "inbox"} & set(options.only):
        for population in ("small", "large", "huge"):
            server.create_database(f"{MAIN}_{population}", template=MAIN)
    dbos, dbos_missing = find_peer(options, "DBOS", None, lambda: dbos_peer.install_dbos(server.create_database(DBOS)))
    restate, restate_missing = find_peer(options, "Restate", "http", restate_peer.install_restate)
    return Plan(
        repetitions=options.repetitions,
        full=options.full,
        seed_size=options.seed_size or (100_000 if options.full else 20_000),
        url=url,
        raw_url=raw_url,
        dbos=dbos,
        dbos_missing=dbos_missing,
        django_q=None if options.no_peers else DjangoQ(server.create_database(DJANGO_Q)),
        restate=restate,
        restate_missing=restate_missing,
    )


def find_peer(
    options: argparse.Namespace, name: str, measure: str | None, install: Callable[[], T]
) -> tuple[T | None, str]:
    """A peer, or why there is none; one that a single measure needs is installed for that."""
    if options.no_peers or (measure and options.only and measure not in options.only):
        return None, "left out"
    try:
        say(f"installing {name} where it is missing …")
        return install(), ""
    except PeerMissing as error:
        say(str(error))
        return None, str(error)


def start_django(url: str) -> None:
    """Load the settings for one database and migrate it."""
    os.environ["DATABASE_URL"] = url
    os.environ["DJANGO_SETTINGS_MODULE"] = "benchmarks.site.settings"
    os.chdir(Path(__file__).resolve().parent.parent)
    import django
    from django.core.management import call_command
    from django.db import connections

    django.setup()
    call_command("migrate", verbosity=0)
    connections.close_all()  # a template must have no visitors


if __name__ == "__main__":
    main()
