"""`manage.py ledger verify | export | anchor`: is the history what was sealed, and taking it elsewhere.

Invariant owned: findings go to stdout, one per line, and make the command exit with 1; progress goes to stderr,
so that what is exported can be piped.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser
from django.db import connections, router
from django.db.backends.base.base import BaseDatabaseWrapper

from workflows.ledger import Anchor, Damage, export_lines, make_anchors, seal_ledger, verify_workspace
from workflows.management.terminal import show_count
from workflows.models import LedgerEvent
from workflows.store.ledger import ledger_audit

#: A seal says that something was changed among its rows, not which: that takes what the rows were.
COMPARE = (
    "\nWhich row it is, two exports tell: run `ledger export` on this database and on a backup from before (or take an "
    "export that was kept), and compare `hash` and `data` of the rows with the same `instance` and `seq`."
)

#: Between two lines about progress.
SECONDS = 5.0


class Command(BaseCommand):
    """Checks the append-only history against its seals, exports it, and anchors it."""

    help = (
        "verify: compare the ledger with its seals; exits with 1 if anything was edited, removed or cut. "
        "export: every row and seal as JSON lines. anchor: the ends of the chains, to be kept elsewhere."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        """One subcommand each; all of them take a workspace."""
        commands = parser.add_subparsers(dest="command", required=True)
        verify = commands.add_parser("verify", help="compare the ledger with its seals")
        verify.add_argument("--anchor", metavar="FILE", help="also compare with what `ledger anchor` wrote earlier")
        export = commands.add_parser("export", help="write every row and seal as JSON lines")
        export.add_argument("--without-payloads", action="store_true", help="leave `data` out; the hashes still hold")
        anchor = commands.add_parser("anchor", help="seal now, and write the ends of the chains")
        for one in (export, anchor):
            one.add_argument("--output", metavar="FILE", help="write there instead of to stdout")
        for one in (verify, export, anchor):
            one.add_argument("--workspace", metavar="SLUG", help="only this workspace")

    def handle(self, *args: Any, **options: Any) -> None:
        """Dispatch to the subcommand."""
        db = connections[router.db_for_write(LedgerEvent)]
        workspaces = dict(ledger_audit.list_workspaces(db))
        if (only := options["workspace"]) is not None:
            if only not in workspaces:
                raise CommandError(f"there is no workspace {only!r}; there are: {', '.join(sorted(workspaces))}")
            workspaces = {only: workspaces[only]}
        {"verify": self.verify, "export": self.export, "anchor": self.anchor}[options["command"]](
            db, workspaces, options
        )

    def verify(self, db: BaseDatabaseWrapper, workspaces: dict[str, int], options: dict[str, Any]) -> None:
        """Print what is wrong; fail if anything is."""
        anchors = read_anchors(options["anchor"]) if options["anchor"] else {}
        findings = seals = 0
        changed = False
        for slug, id in workspaces.items():
            for finding in verify_workspace(
                db, slug, id, anchor=anchors.get(slug), on_progress=self.tell_progress(slug)
            ):
                self.stdout.write(self.style.ERROR(str(finding)))
                findings += 1
                changed = changed or finding.damage in (Damage.EDITED, Damage.EXTRA)
            seals += ledger_audit.count_seals(db, id)
        for slug in sorted(anchors.keys() - workspaces.keys()) if options["workspace"] is None else []:
            self.stdout.write(self.style.ERROR(f"{slug}: the anchor names this workspace, and it is gone"))
            findings += 1
        if options["workspace"] and options["anchor"] and options["workspace"] not in anchors:
            raise CommandError(f"{options['anchor']} says nothing about workspace {options['workspace']!r}.")
        looked = f"{show_count(seals, 'seal')} of {len(workspaces)} workspace(s)"
        if findings:
            told = f"the ledger is not what was sealed: {show_count(findings, 'finding')} in {looked}"
            raise CommandError(f"{told}{COMPARE if changed else ''}", returncode=1)
        against = f", and agree with the anchor{'s' if len(anchors) > 1 else ''}" if anchors else ""
        self.stdout.write(self.style.SUCCESS(f"{looked} hold{against}"))

    def export(self, db: BaseDatabaseWrapper, workspaces: dict[str, int], options: dict[str, Any]) -> None:
        """Stream; nothing is held in memory."""
        only = workspaces[options["workspace"]] if options["workspace"] else None
        with self.open_output(options["output"]) as write:
            for line in export_lines(db, only, payloads=not options["without_payloads"]):
                write(line)

    def anchor(self, db: BaseDatabaseWrapper, workspaces: dict[str, int], options: dict[str, Any]) -> None:
        """Seal first, so that the anchor covers what is committed by now."""
        seal_ledger(db, batches=sys.maxsize)
        only = workspaces[options["workspace"]] if options["workspace"] else None
        with self.open_output(options["output"]) as write:
            anchors = [asdict(anchor) for anchor in make_anchors(db, only)]
            write(json.dumps({"holdpoint_anchor": 1, "chains": anchors}, indent=2))

    def tell_progress(self, slug: str) -> Callable[[int, int], None]:
        """A line on stderr now and then, for work that takes long."""
        told = time.monotonic()

        def tell(done: int, total: int) -> None:
            nonlocal told
            if done < total and time.monotonic() - told > SECONDS:
                told = time.monotonic()
                self.stderr.write(f"{slug}: {done} of {total} seals")

        return tell

    @contextmanager
    def open_output(self, path: str | None) -> Iterator[Callable[[str], Any]]:
        """A function that writes a line, to a file or to stdout."""
        if path is None:
            yield self.stdout.write
            return
        try:
            with Path(path).open("w", encoding="utf-8") as file:
                yield lambda line: file.write(line + "\n")
        except OSError as error:
            raise CommandError(f"cannot write {path}: {error.strerror}") from error


def read_anchors(path: str) -> dict[str, Anchor]:
    """What `ledger anchor` wrote, by workspace."""
    try:
        text = Path(path).read_text(encoding="utf-8")
    except OSError as error:
        raise CommandError(f"cannot read {path}: {error.strerror}") from error
    except UnicodeDecodeError:
        raise _no_anchor(path, "it is no text") from None
    try:
        read = json.loads(text)
    except ValueError as error:
        raise _no_anchor(path, f"it is no JSON ({error})" if text.strip() else "it is empty") from None
    if not isinstance(read, dict) or "holdpoint_anchor" not in read:
        raise _no_anchor(path, 'it has no member "holdpoint_anchor"')
    if (version := read["holdpoint_anchor"]) != 1:
        raise _no_anchor(path, f"it is of version {version!r}, and this release reads version 1")
    anchors: dict[str, Anchor] = {}
    chains = read.get("chains")
    for number, chain in enumerate(chains if isinstance(chains, list) else [None], 1):
        if not isinstance(chain, dict) or {name: type(value) for name, value in chain.items()} != _CHAIN:
            wanted = ", ".join(f"{name} ({'a number' if kind is int else 'a text'})" for name, kind in _CHAIN.items())
            raise _no_anchor(path, f'"chains" is a list whose members have {wanted}; number {number} is not so')
        anchors[chain["workspace"]] = Anchor(**chain)
    return anchors


_CHAIN = {"workspace": str, "number": int, "hash": str, "to_xid": int, "sealed_at": str}


def _no_anchor(path: str, why: str) -> CommandError:
    return CommandError(
        f"{path} is not what `ledger anchor` writes: {why}. Pass the file that `ledger anchor --output FILE` made."
    )
