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

from workflows.ledger import Anchor, export_lines, make_anchors, seal_ledger, verify_workspace
from workflows.models import LedgerEvent
from workflows.store import audit

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
        workspaces = dict(audit.list_workspaces(db))
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
        for slug, id in workspaces.items():
            for finding in verify_workspace(
                db, slug, id, anchor=anchors.get(slug), on_progress=self.tell_progress(slug)
            ):
                self.stdout.write(self.style.ERROR(str(finding)))
                findings += 1
            seals += audit.count_seals(db, id)
        for slug in sorted(anchors.keys() - workspaces.keys()) if options["workspace"] is None else []:
            self.stdout.write(self.style.ERROR(f"{slug}: the anchor names this workspace, and it is gone"))
            findings += 1
        if options["workspace"] and options["anchor"] and options["workspace"] not in anchors:
            raise CommandError(f"{options['anchor']} says nothing about workspace {options['workspace']!r}.")
        looked = f"{seals} seal{'' if seals == 1 else 's'} of {len(workspaces)} workspace(s)"
        if findings:
            raise CommandError(f"the ledger is not what was sealed: {findings} finding(s) in {looked}", returncode=1)
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
        read = json.loads(Path(path).read_text(encoding="utf-8"))
        if read["holdpoint_anchor"] != 1:
            raise ValueError(f"version {read['holdpoint_anchor']!r}")
        anchors = [Anchor(**chain) for chain in read["chains"]]
    except OSError as error:
        raise CommandError(f"cannot read {path}: {error.strerror}") from error
    except (ValueError, KeyError, TypeError) as error:
        raise CommandError(f"{path} is not what `ledger anchor` writes: {error}") from error
    return {anchor.workspace: anchor for anchor in anchors}
