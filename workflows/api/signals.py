"""Delivering many signals, and one that starts its instance: finding key holders, batches in lock order, answers.

Invariants owned:

* Whatever way its line is addressed, a signal of a bulk call meets the same promises as one delivered alone, and the
  lines of one instance arrive in the caller's order.
* A signal that starts its instance and that instance are one transaction, and a dedup key starts one instance only,
  also after its end.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from django.db.backends.base.base import BaseDatabaseWrapper

from workflows import store
from workflows.definitions import registry
from workflows.definitions.registry import Definition
from workflows.exceptions import DuplicateKey, InvalidCall, NoReader
from workflows.store import Address, Delivered, SentSignal

#: Rows per statement of the bulk calls: beyond a few hundred nothing is gained, and locks are held longer.
BATCH = 500


@dataclass(frozen=True, slots=True)
class Delivery:
    """What became of a signal. In a bulk call `refused` is "no_target" or "no_reader" where a single one raises."""

    id: str | None
    duplicate: bool = False
    woke: bool = False
    refused: str | None = None


def group_by_workspace(
    db: BaseDatabaseWrapper, lines: list[tuple[int, Address, SentSignal]]
) -> dict[str | int, list[tuple[int, Address, SentSignal]]]:
    """The lines of each workspace, in order; one that is named both by slug and by id comes once."""
    scopes = {to.workspace for _, to, _ in lines}
    ids = store.resolve_workspaces(db, scopes) if len(scopes) > 1 else {}
    grouped: dict[str | int, list[tuple[int, Address, SentSignal]]] = {}
    for line in lines:
        scope = line[1].workspace
        grouped.setdefault(ids.get(scope, scope), []).append(line)
    # In one order, like the rows within each: two calls inside transactions must not meet crosswise.
    return dict(sorted(grouped.items(), key=lambda group: str(group[0])))


def deliver_lines(
    db: BaseDatabaseWrapper,
    lines: list[tuple[int, Address, SentSignal]],
    scope: str | int,
    source: str,
    answers: list[Delivery],
) -> None:
    sendable = [(position, line) for position, to, line in lines if to.by == "id"]
    keyed = {position: line for position, to, line in lines if to.by == "key"}
    held = _find_held(db, keyed, scope)
    sendable += held.items()
    _send(db, sendable, scope, source, answers)
    # A holder may have ended between being looked up and being locked: its lines are refused, or are
    # duplicates of what only it had. Whoever holds the key by now gets them, once.
    unsure = {at: line for at, line in keyed.items() if answers[at].refused or answers[at].duplicate}
    if at_risk := {at: line for at, line in unsure.items() if at in held}:
        now = _find_held(db, at_risk, scope)
        for at in at_risk:
            if at not in now:
                answers[at] = Delivery(None, refused="no_target")
        _send(db, [(at, line) for at, line in now.items() if line.id != held[at].id], scope, source, answers)


def check_starting(target: object, definition: Definition) -> None:
    """Refuse to start an instance by a signal that it could not read, or that is sent to an id."""
    if not isinstance(target, str):
        raise InvalidCall(
            "start= is for a signal that is sent to a correlation key (a str): what has an id has been started already"
        )
    if not definition.reads_signals:
        raise NoReader(definition.name)


def deliver_starting(
    db: BaseDatabaseWrapper, to: Address, sent: SentSignal, source: str, begin: Callable[[], object]
) -> Delivery:
    """Deliver to the live holder of a key; where there is none, `begin` writes one first.

    Whoever loses the key to another caller waits in `begin` for that one's commit, and delivers to what it started. One
    whose instance has ended before that looks again.
    """
    deaf = registry.list_deaf()

    def deliver() -> Delivered | None:
        told = store.deliver(db, to, sent.name, sent.payload, dedup=sent.dedup, source=source, deaf=deaf)
        if told is not None and told.deaf is not None:
            raise NoReader(told.deaf)
        return told

    def start_and_deliver() -> Delivered | None:
        begin()
        # Nobody else can take the key now: what had it before has ended, with all that it was sent.
        if sent.dedup is not None and (past := store.find_past_signal(db, to, sent.dedup)) is not None:
            raise _SentBefore(past)
        return deliver()

    for _ in range(store.KEY_TRIES):
        try:
            told = store.retrying(db, deliver) or store.in_transaction(db, start_and_deliver)
        except _SentBefore as before:  # and so what was started is taken back
            return tell_delivery(before.first)
        if told is not None:
            return tell_delivery(told)
    raise DuplicateKey(sent.id, None)


class _SentBefore(Exception):
    """An instance that had the key before took this very signal."""

    def __init__(self, first: Delivered) -> None:
        self.first = first


def tell_delivery(delivered: Delivered) -> Delivery:
    """What the caller is told."""
    return Delivery(f"{delivered.instance}:{delivered.n}", delivered.duplicate, delivered.woke)


def _find_held(db: BaseDatabaseWrapper, keyed: dict[int, SentSignal], scope: str | int) -> dict[int, SentSignal]:
    """The lines addressed by key, with the live holder's id in place of the key."""
    if not keyed:
        return {}
    holders = store.find_holders(db, sorted({line.id for line in keyed.values()}), scope)
    return {at: replace(line, id=str(holders[line.id])) for at, line in keyed.items() if line.id in holders}


def _send(
    db: BaseDatabaseWrapper,
    sendable: list[tuple[int, SentSignal]],
    scope: str | int,
    source: str,
    answers: list[Delivery],
) -> None:
    # Locks in id order, across the statements too where one transaction holds them all.
    sendable.sort(key=lambda one: (one[1].id, one[0]))
    for begin in range(0, len(sendable), BATCH):
        batch = sendable[begin : begin + BATCH]
        told = _deliver_batch(db, [line for _, line in batch], scope, source)
        for (position, _), delivered in zip(batch, told, strict=True):
            if delivered is not None and delivered.deaf is not None:
                answers[position] = Delivery(None, refused="no_reader")
            elif delivered is not None:
                answers[position] = tell_delivery(delivered)


def _deliver_batch(
    db: BaseDatabaseWrapper, lines: list[SentSignal], scope: str | int, source: str
) -> list[Delivered | None]:
    deaf = registry.list_deaf()
    return store.retrying(db, lambda: store.deliver_many(db, lines, workspace=scope, source=source, deaf=deaf))
