"""Checking the history against its seals.

Lives here: the order of the proofs, and the sentence of each finding. Must not live here: SQL. Invariant owned:
whatever was sealed is found when it is edited, removed or cut, and so is a row that was put where no seal looks; a cut
together with its seals is found against an anchor that was kept elsewhere. What is not sealed yet, about the last
minute, is not vouched for.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from django.db.backends.base.base import BaseDatabaseWrapper

from workflows.ledger.sealing import Anchor, write_moment
from workflows.store.ledger import ledger_audit
from workflows.store.ledger.ledger_audit import SealLink

#: Rows and seals that one statement of a verification looks at.
RUN_ROWS = 50_000

RUN_SEALS = 500

#: How many rows are named after a removal.
NAMED = 10

#: Why no seal covers a row, by what `ledger_audit.find_stray` calls it.
_STRAY = {
    "unsealed": "everything of its transaction and moment was sealed without it, so it was added or moved later",
    "transaction": "no transaction has such a number",
    "future": "its transaction is yet to come; one of another server is sealed when this one has counted so far",
    "moment": "no row of the engine has such a moment",
    "workspace": "its workspace does not exist",
}

Progress = Callable[[int, int], None]


class Damage(StrEnum):
    """What can be wrong."""

    EDITED = "edited"
    MISSING = "missing"
    EXTRA = "extra"
    CHAIN = "chain broken"
    SEAL_MISSING = "seal missing"
    ANCHOR = "not as anchored"
    HOLE = "number without a row"
    TOMBSTONE = "tombstone malformed"
    STRAY = "in no seal"
    LOST = "payload lost"


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that is wrong, and where."""

    damage: Damage
    workspace: str
    seal: int | None
    detail: str

    def __str__(self) -> str:
        where = f"{self.workspace}, seal {self.seal}" if self.seal else self.workspace
        return f"{where}: {self.damage}: {self.detail}"


def verify_workspace(
    db: BaseDatabaseWrapper,
    slug: str,
    workspace: int,
    *,
    anchor: Anchor | None = None,
    on_progress: Progress | None = None,
) -> Iterator[Finding]:
    """Everything that is wrong with a workspace's sealed history, from its beginning on."""
    total = ledger_audit.count_seals(db, workspace) if on_progress else 0
    eras = ledger_audit.read_eras(db)
    last: SealLink | None = None
    anchored: str | None = None
    run: list[SealLink] = []
    done, removed = 0, False
    for link in _flush_at_end(ledger_audit.read_links(db, workspace)):
        if run and (link is None or not _joins(run, link)):
            for finding in _prove_run(db, slug, workspace, run, eras):
                removed = removed or finding.damage is Damage.MISSING
                yield finding
            done, run = done + len(run), []
            if on_progress:
                on_progress(done, total)
        if link is not None:
            yield from _check_link(slug, last, link)
            if anchor and link.number == anchor.number:
                anchored = link.hash.hex()
            run.append(link)
            last = link
    if anchor and anchored != anchor.hash:
        removed = removed or anchored is None
        yield _tell_anchor(slug, anchor, last, anchored)
    if removed:
        yield from _name_holes(db, slug, workspace)
    for instance, number in ledger_audit.find_malformed(db, workspace, NAMED):
        detail = f"instance {instance} row {number} is not as pruning writes it, and so vouches for nothing"
        yield Finding(Damage.TOMBSTONE, slug, None, detail)
    for instance, number, why in ledger_audit.find_stray(db, workspace, NAMED):
        yield Finding(Damage.STRAY, slug, None, f"instance {instance} row {number}: {_STRAY[why]}")
    for instance, number in ledger_audit.find_lost(db, workspace, NAMED):
        detail = f"the payload of instance {instance} row {number} was cleared, and no redaction tells of it"
        yield Finding(Damage.LOST, slug, None, detail)


def _flush_at_end(links: Iterator[SealLink]) -> Iterator[SealLink | None]:
    yield from links
    yield None


def _joins(run: list[SealLink], link: SealLink) -> bool:
    """Whether one statement can look at this seal's rows together with those before it."""
    last = run[-1]
    follows = (link.number, link.era, link.from_xid) == (last.number + 1, last.era, last.to_xid)
    return follows and len(run) < RUN_SEALS and sum(one.rows for one in run) + link.rows <= RUN_ROWS


def _check_link(slug: str, last: SealLink | None, link: SealLink) -> Iterator[Finding]:
    expected = last.number + 1 if last else 1
    if link.number != expected:
        gone = f"seal {expected} is" if link.number == expected + 1 else f"seals {expected} to {link.number - 1} are"
        yield Finding(Damage.SEAL_MISSING, slug, expected, f"{gone} gone, so nothing vouches for their rows")
        return
    if link.previous != (last.hash if last else b""):
        yield Finding(Damage.CHAIN, slug, link.number, "it does not carry the hash of the seal before it")
    begin = last.to_xid if last and last.era == link.era else 0
    if link.from_xid != begin or link.to_xid <= link.from_xid or (last and link.era < last.era):
        yield Finding(Damage.CHAIN, slug, link.number, "it does not begin where the seal before it ends")


def _prove_run(
    db: BaseDatabaseWrapper, slug: str, workspace: int, run: list[SealLink], eras: dict[int, datetime]
) -> Iterator[Finding]:
    until = min((since for era, since in eras.items() if era > run[0].era), default=None)
    links = {link.number: link for link in run}
    for number, found, intact in ledger_audit.prove(db, workspace, run, until):
        link = links.get(number)
        if intact or link is None:
            continue
        where = f"sealed {write_moment(link.sealed_at)} over transactions {link.from_xid} to {link.to_xid - 1}"
        counted = f"{found} of {link.rows} rows are there ({where})"
        if found < link.rows:
            yield Finding(Damage.MISSING, slug, number, counted)
        elif found > link.rows:
            yield Finding(Damage.EXTRA, slug, number, counted)
        else:
            detail = f"a cell of its {link.rows} rows, or of the seal, is not what was sealed ({where})"
            yield Finding(Damage.EDITED, slug, number, detail)


def _tell_anchor(slug: str, anchor: Anchor, last: SealLink | None, anchored: str | None) -> Finding:
    if anchored is None:
        ends = f"the chain ends at seal {last.number}" if last else "there is no seal"
        detail = f"anchored on {anchor.sealed_at}, but {ends}: the ledger was cut together with its seals"
    else:
        detail = f"its hash is {anchored} and was {anchor.hash}: the history was sealed anew after a change"
    return Finding(Damage.ANCHOR, slug, anchor.number, detail)


def _name_holes(db: BaseDatabaseWrapper, slug: str, workspace: int) -> Iterator[Finding]:
    """After a removal: which rows it was, where numbers that were given out tell."""
    for instance, first, last in ledger_audit.find_holes(db, workspace, NAMED):
        rows = f"row {first}" if first == last else f"rows {first} to {last}"
        yield Finding(Damage.HOLE, slug, None, f"instance {instance} has no {rows}")
