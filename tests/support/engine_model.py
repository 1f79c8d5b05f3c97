"""The engine in plain Python: what every call must do to the rows, without a database.

Lives here: `World`, a few instances and the workers' claims on them, and the rules that move them. It is
written from the promises and not from the SQL, so that the two can disagree. What must not: queries.
"""

from __future__ import annotations

from dataclasses import dataclass, field

MAX_ATTEMPTS = 3
LIVE = {"runnable", "running", "awaiting", "sleeping", "awaiting_children"}


@dataclass
class Received:
    """One accepted signal."""

    n: int
    name: str
    dedup: str | None
    consumed_by: int | None = None


@dataclass
class Row:
    """One instance as its row must be."""

    id: str
    parent: str | None = None
    status: str = "runnable"
    step: str = "one"
    attempt: int = 0
    runs: int = 0
    fence: int = 0
    timed_out: bool = False
    solo: bool = False
    names: list[str] | None = None
    pending: int = 0
    #: Whether time alone can move it: its deadline, delay or lease is over.
    overdue: bool = False
    signals: list[Received] = field(default_factory=list)

    @property
    def live(self) -> bool:
        return self.status in LIVE

    @property
    def inbox(self) -> list[Received]:
        return [signal for signal in self.signals if signal.consumed_by is None]


@dataclass(frozen=True)
class Held:
    """A claim as its worker remembers it."""

    id: str
    fence: int
    runs: int
    handed: tuple[int, ...]
    all_numbers: tuple[int, ...]
    timed_out: bool
    attempt: int
    step: str


@dataclass(frozen=True)
class Plan:
    """What a step will return. `wait` is "none", "over" (at once) or "long" (never in a trial)."""

    kind: str
    names: tuple[str, ...] = ()
    step: str = "one"
    wait: str = "none"
    consume: str | None = None
    children: tuple[str, ...] = ()


class World:
    """All instances of one trial."""

    def __init__(self) -> None:
        self.rows: dict[str, Row] = {}

    def start(self, id: str, parent: str | None = None) -> None:
        self.rows[id] = Row(id, parent)

    # What callers do

    def deliver(self, id: str, n: int | None, name: str, dedup: str | None) -> tuple[bool, bool, bool]:
        """(refused, duplicate, woke); `n` is the number the database gave it."""
        row = self.rows[id]
        if dedup is not None and any(signal.dedup == dedup for signal in row.signals):
            return False, True, False
        if not row.live:
            return True, False, False
        assert n is not None, "accepted by the model, refused by the engine"
        row.signals.append(Received(n, name, dedup))
        if row.status == "awaiting" and name in (row.names or ()):
            self._become(row, "runnable")
            return False, False, True
        return False, False, False

    def cancel(self, id: str) -> bool:
        root = self.rows[id]
        if not root.live:
            return False
        for row in self._tree(id):
            if row.live:
                row.fence += 1
                self._become(row, "cancelled")
        self._count_down(root)
        return True

    def reopen(self, id: str) -> bool:
        row = self.rows[id]
        if row.status != "failed" or row.parent is not None:
            return False
        row.attempt = row.runs = 0
        self._become(row, "runnable")
        return True

    # What time does

    def expire(self) -> int:
        due = [row for row in self.rows.values() if row.status in ("awaiting", "sleeping") and row.overdue]
        for row in due:
            row.timed_out = row.timed_out or row.status == "awaiting"
            self._become(row, "runnable")
        return len(due)

    def reclaim(self) -> int:
        due = [row for row in self.rows.values() if row.status == "running" and row.overdue]
        for row in due:
            row.fence += 1
            row.solo = True
            self._become(row, "runnable")
        return len(due)

    # What workers do

    def claim(self, taken: list[str], limit: int) -> list[Held]:
        """The database chooses among the runnable; whether it was allowed to is checked here."""
        ready = {row.id for row in self.rows.values() if row.status == "runnable"}
        assert set(taken) <= ready, "claimed what is not runnable"
        assert bool(taken) == bool(ready), "work is left and none was taken"
        assert len(taken) <= limit
        if any(self.rows[id].solo for id in taken):
            assert len(taken) == 1, "a solo instance has neighbours"
        return [self._hold(self.rows[id]) for id in taken]

    def _hold(self, row: Row) -> Held:
        row.fence += 1
        row.runs += 1
        self._become(row, "running")
        handed = tuple(signal.n for signal in row.inbox if signal.name in (row.names or ()))
        numbers = tuple(signal.n for signal in row.inbox)
        return Held(row.id, row.fence, row.runs, handed, numbers, row.timed_out, row.attempt, row.step)

    def holds(self, held: Held) -> bool:
        row = self.rows[held.id]
        return row.status == "running" and row.fence == held.fence

    def forget(self, held: Held) -> None:
        """Its worker is dead and the lease has run out."""
        if self.holds(held):
            self.rows[held.id].overdue = True

    def renew(self, held: Held) -> bool:
        if not self.holds(held):
            return False
        self.rows[held.id].overdue = False
        return True

    def release(self, held: Held, solo: bool) -> bool:
        if not self.holds(held):
            return False
        row = self.rows[held.id]
        row.runs -= 1
        row.solo = row.solo or solo
        self._become(row, "runnable")
        return True

    def settle(self, held: Held, plan: Plan) -> bool:
        """Whether the outcome was applied."""
        if not self.holds(held):
            return False
        row = self.rows[held.id]
        kind = plan.kind
        if held.runs > MAX_ATTEMPTS or (kind == "exit" and held.runs >= MAX_ATTEMPTS):
            kind = "stop"
        if kind in ("next", "done", "spawn"):
            consumed = set(held.handed)
            if kind == "next" and plan.consume:
                consumed |= {s.n for s in row.signals if s.n in held.all_numbers and s.name == plan.consume}
            for signal in row.signals:
                if signal.n in consumed:
                    assert signal.consumed_by is None, "consumed twice"
                    signal.consumed_by = held.fence
        if kind in ("next", "park", "done", "spawn"):
            row.attempt, row.runs, row.timed_out = 0, 0, False
            row.names = sorted(plan.names) if kind == "park" else None
        row.solo = kind == "exit"
        if kind in ("next", "park", "spawn"):
            row.step = plan.step
        getattr(self, f"_{kind}")(row, held, plan)
        return True

    def _next(self, row: Row, held: Held, plan: Plan) -> None:
        self._sleep(row, plan.wait)

    def _retry(self, row: Row, held: Held, plan: Plan) -> None:
        row.attempt += 1
        row.runs = 0
        self._sleep(row, plan.wait)

    def _exit(self, row: Row, held: Held, plan: Plan) -> None:
        self._sleep(row, "long")

    def _park(self, row: Row, held: Held, plan: Plan) -> None:
        if any(signal.name in plan.names and signal.n not in held.handed for signal in row.inbox):
            self._become(row, "runnable")
        else:
            self._become(row, "awaiting", overdue=plan.wait == "over")

    def _spawn(self, row: Row, held: Held, plan: Plan) -> None:
        for child in plan.children:
            self.start(child, row.id)
        row.pending = len(plan.children)
        self._become(row, "awaiting_children")

    def _done(self, row: Row, held: Held, plan: Plan) -> None:
        self._become(row, "done")
        self._count_down(row)

    def _stop(self, row: Row, held: Held, plan: Plan) -> None:
        self._become(row, "failed")
        self._count_down(row)

    def _sleep(self, row: Row, wait: str) -> None:
        self._become(row, "runnable" if wait == "none" else "sleeping", overdue=wait == "over")

    def _become(self, row: Row, status: str, *, overdue: bool = False) -> None:
        row.status, row.overdue = status, overdue

    def _tree(self, id: str) -> list[Row]:
        below = [row for child in self.rows.values() if child.parent == id for row in self._tree(child.id)]
        return [self.rows[id], *below]

    def _count_down(self, row: Row) -> None:
        parent = self.rows.get(row.parent or "")
        if parent is None or not parent.live:
            return
        parent.pending -= 1
        if parent.pending == 0 and parent.status == "awaiting_children":
            self._become(parent, "runnable")
