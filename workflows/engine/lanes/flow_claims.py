"""What is claimed of lanes, and how much: by priority, in turns, and as far as slots and tokens go.

Lives here: whose turn it is, and which numbers hold. Must not live here: SQL, and what comes before or after a claim.
Invariants owned:

* Within a queue of a workspace the higher priority comes first; queues share a claim.
* Of one priority each lane has its turn before any has a second one.
* A lane that can let nothing through costs the others nothing but its look.
"""

from __future__ import annotations

import time
from collections import Counter, defaultdict
from collections.abc import Collection, Sequence
from dataclasses import replace
from functools import partial
from itertools import chain

from django.db.backends.base.base import BaseDatabaseWrapper

from workflows import store
from workflows.conf import conf
from workflows.definitions import registry
from workflows.definitions.flow.flow_options import DEFAULT_QUEUE, find_stretch, number_of
from workflows.definitions.flow.known_limits import check_queue, list_queues, list_weights
from workflows.definitions.flow.limits import QUEUE_BUCKET
from workflows.definitions.registry import LINES, Definition
from workflows.engine.lanes.lane_search import MOST_LANES, REST, LaneSearch
from workflows.engine.lanes.look_backs import LookBacks
from workflows.engine.lanes.shares import find_draws, find_free, find_parts_needed, go_round, share_out
from workflows.store import Bucket, Claim, Control, Lane, Part, Ticket, Tokens

#: What is set at run time is read so often, in seconds.
READ_EVERY = 1.0
#: It is read so often at least, however long that takes: what is set is in force within 5 s.
SELDOM = 4.0
#: Where a claim brings nothing, so many times as many lanes are tried at once.
WIDER = 8
#: Of a workflow that this process does not know, so many are claimed at a time, to be put back.
UNKNOWN = 1
#: Buckets that a pump remembers to have rows: of rates with a key there may be millions in its life.
MOST_PROVIDED = 100_000
#: How often it is looked for rows that wait for a clock which was put back.
UNSTICK_EVERY = 30.0


class FlowClaims:
    """One pump's claims from lanes, one after the other."""

    def __init__(self, queues: Collection[str] | None = None, *, patience: float | None = None) -> None:
        for name in queues or ():
            check_queue(name)
        self._queues = queues
        #: Of the queues that are served, and of those that are paused, the upper bits of their lanes.
        self._served = None if queues is None else {find_stretch(one) for one in queues}
        self._closed: list[tuple[int, int]] = []
        self._search = LaneSearch(self._is_open, patience)
        self._backs = LookBacks()
        self.control = Control()
        #: Of each rate what a run takes at most: asked for where somebody has set a burst, which may be below that.
        self._weights: dict[str, int] = {}
        self._read_took = 0.0
        self._read_at = self._unstuck_at = float("-inf")
        #: Where the turn is, within a queue of a workspace and a priority; and among the queues.
        self._last: dict[tuple[int, str, int], int] = {}
        self._last_queue: tuple[int, str] = (0, "")
        #: Buckets that were provided with rows.
        self._provided: set[tuple[int, str, str]] = set()
        self._after_solo = False

    def refresh(self, db: BaseDatabaseWrapper, *, patience: float = READ_EVERY) -> None:
        """Read what is set, where it was not read for so many seconds; where that is dear, a tenth of the time.

        Whoever looks until nothing is left always knows what is set now.
        """
        now = time.monotonic()
        dear = 0.0 if self._search.is_thorough else min(REST * self._read_took, SELDOM)
        if now - self._read_at >= max(patience, dear):
            self.control = store.read_control(db)
            self._closed = self._list_closed()
            self._weights = list_weights() if self.control.rates else {}
            self._read_at = time.monotonic()
            self._read_took = self._read_at - now

    def is_active(self) -> bool:
        """Whether anything waits in lanes, as far as is known."""
        return self.control.lanes

    @property
    def serves_default(self) -> bool:
        """Whether plain instances are claimed here."""
        return self._queues is None or DEFAULT_QUEUE in self._queues

    def list_kept(self) -> list[tuple[int, str]]:
        """Plain instances that must not be claimed as such: workspace (0: any) and workflow ("": any)."""
        kept = {(at, name) for at, one in self.control.paused for name in (one, f"{one}{LINES}")}
        for (at, name), row in self.control.queues.items():
            if name == DEFAULT_QUEUE and (row.paused or row.limit is not None or row.rate is not None):
                kept.add((at, ""))
        if any(conf.queues.get(DEFAULT_QUEUE, ())):
            kept.add((0, ""))
        return sorted(kept)

    def look(self, db: BaseDatabaseWrapper) -> list[Lane]:
        """The lanes of which something may be claimed now, if there are many some of them."""
        lanes = self._search.look(partial(self._read_page, db))
        if not self._search.seen:
            self.control = replace(self.control, lanes=False)
        elif time.monotonic() - self._unstuck_at > UNSTICK_EVERY:
            self._unstuck_at = time.monotonic()
            store.unstick_lanes(db, self._search.seen)
        return lanes

    def look_on(self, db: BaseDatabaseWrapper) -> list[Lane]:
        """More of them, where the others have brought nothing; none where it was looked for long enough."""
        return self._search.look_on(partial(self._read_page, db))

    def _read_page(self, db: BaseDatabaseWrapper, place: tuple[int, int, int], most: int) -> list[Lane]:
        return store.look_at_lanes(db, place, most, served=self._served, closed=self._closed)

    def _list_closed(self) -> list[tuple[int, int]]:
        """Stretches of lanes in which all that stands is paused, by their workspaces."""
        paused = {at for at, row in self.control.queues.items() if row.paused}
        names = {*list_queues(), *(name for _, name in self.control.queues)} if paused else set()
        shared = Counter(find_stretch(one) for one in names)
        return [(at, find_stretch(name)) for at, name in sorted(paused) if shared[find_stretch(name)] == 1]

    def take(
        self, db: BaseDatabaseWrapper, lanes: Sequence[Lane], limit: int, lease: float = store.LEASE_SECONDS
    ) -> list[Claim]:
        """Claim up to so many of these lanes."""
        claims = self._take_some(db, lanes, limit, lease, solos=not self._after_solo)
        if not claims and self._after_solo:  # one that runs alone takes a whole turn: others come in between
            claims = self._take_some(db, lanes, limit, lease, solos=True)
        self._after_solo = bool(claims) and claims[0].solo
        return claims

    def _take_some(
        self, db: BaseDatabaseWrapper, lanes: Sequence[Lane], limit: int, lease: float, *, solos: bool
    ) -> list[Claim]:
        """What those bring whose turn it is; where they let nothing through, the next ones."""
        left, wide = list(lanes), limit
        while tickets := self._choose(left, wide):
            tried = {one.lane.place for one in tickets}
            self._search.pass_over(tried)
            if taken := self._claim(db, tickets, limit, lease, solos=solos):
                self._learn(taken)
                for ticket, _ in taken:
                    lane = ticket.lane
                    self._last_queue = lane.workspace, lane.queue
                    self._last[lane.workspace, lane.queue, lane.priority] = lane.number
                return [claim for _, claim in taken]
            left = [one for one in left if one.place not in tried]
            wide = min(wide * WIDER, max(limit, MOST_LANES))
        return []

    def _learn(self, taken: Sequence[tuple[Ticket, Claim]]) -> None:
        waited: dict[tuple[int, int, int], float] = {}
        for ticket, claim in taken:
            if ticket.back == store.EVER:
                place = ticket.lane.place
                waited[place] = max(claim.waited, waited.get(place, 0.0))
        for place, seconds in waited.items():
            self._backs.learn(place, seconds)

    def _is_open(self, lane: Lane) -> bool:
        if self._queues is not None and lane.queue not in self._queues:
            return False
        row = self.control.queues.get((lane.workspace, lane.queue))
        if (row is not None and row.paused) or (
            lane.workspace,
            lane.workflow.removesuffix(LINES),
        ) in self.control.paused:
            return False
        cap = self._find_cap(lane, registry.find(lane.workflow, lane.version))
        return cap is None or lane.taken < cap

    def _choose(self, lanes: Sequence[Lane], limit: int) -> list[Ticket]:
        """Share a claim: among the queues alike, within one by priority, and of one priority in turns."""
        groups: dict[tuple[int, str], dict[int, list[Lane]]] = defaultdict(lambda: defaultdict(list))
        for lane in lanes:
            groups[lane.workspace, lane.queue][lane.priority].append(lane)
        chosen: list[Ticket] = []
        order = go_round(sorted(groups), self._last_queue)
        for n, group in enumerate(order):
            share = -(-(limit - sum(one.quota for one in chosen)) // (len(order) - n))
            if share <= 0:
                break
            chosen += self._choose_of(group, groups[group], share)
        return chosen

    def _choose_of(self, group: tuple[int, str], levels: dict[int, list[Lane]], limit: int) -> list[Ticket]:
        chosen: list[Ticket] = []
        for priority in sorted(levels, reverse=True):
            by_number = {lane.number: lane for lane in levels[priority]}
            numbers = go_round(sorted(by_number), self._last.get((*group, priority), 0))
            rooms = [self._find_room(by_number[number]) for number in numbers]
            quotas = share_out(rooms, limit)
            for number, quota in zip(numbers, quotas, strict=True):
                if quota:
                    lane = by_number[number]
                    chosen.append(Ticket(lane, quota, back=self._backs.find_seconds(lane.place)))
            limit -= sum(quotas)
            if limit <= 0:
                break
        return chosen

    def _find_room(self, lane: Lane) -> int:
        """How many of a lane could be claimed, as far as is known."""
        definition = registry.find(lane.workflow, lane.version)
        if definition is None:
            return UNKNOWN
        cap = self._find_cap(lane, definition)
        return 1_000_000 if cap is None else max(0, cap - lane.taken)

    def _find_cap(self, lane: Lane, definition: Definition | None) -> int | None:
        """How many of its key may be at once; None where there is no limit, or it holds its key already."""
        limit = None if definition is None or definition.flow is None else definition.flow.concurrency
        if lane.key is None or lane.number < 0 or limit is None:
            return None
        slots = self.control.slots
        return slots.get((lane.workspace, lane.key), slots.get((lane.workspace, limit.name), limit.limit))

    def _find_queue_cap(self, lane: Lane) -> int | None:
        row = self.control.queues.get((lane.workspace, lane.queue))
        own = None if row is None else row.limit
        return conf.queues.get(lane.queue, (None, None))[0] if own is None else own

    def _find_buckets(self, lane: Lane) -> list[Bucket]:
        found = []
        row = self.control.queues.get((lane.workspace, lane.queue))
        pace = conf.queues.get(lane.queue, (None, None))[1]
        size = None if row is None else row.rate
        if size is None and pace is not None:
            size = Tokens(pace[0], float(pace[1]), pace[0])
        if size is not None:
            found.append(Bucket(lane.workspace, f"{QUEUE_BUCKET}{lane.queue}", "", size))
        definition = registry.find(lane.workflow, lane.version)
        rate = None if definition is None or definition.flow is None else definition.flow.rate
        if rate is not None and lane.rate_key is not None:
            own = self.control.rates.get((lane.workspace, rate.name))
            size = Tokens(rate.count, rate.per, rate.burst) if own is None else own
            heaviest = max(rate.weight, self._weights.get(rate.name, 1))
            found.append(Bucket(lane.workspace, rate.name, lane.rate_key, size, rate.weight, heaviest))
        return found

    def _claim(
        self, db: BaseDatabaseWrapper, tickets: list[Ticket], limit: int, lease: float, *, solos: bool
    ) -> list[tuple[Ticket, Claim]]:
        buckets = {bucket.address: bucket for one in tickets for bucket in self._find_buckets(one.lane)}
        if not buckets and not any(self._is_limited(one.lane) for one in tickets):
            return store.take_lanes(db, tickets, limit, lease, solos=solos)
        if missing := [one for one in buckets.values() if one.address not in self._provided]:
            store.provide_buckets(db, missing)
            if len(self._provided) > MOST_PROVIDED:
                self._provided.clear()  # what has rows is asked for once more, and nothing is written
            self._provided |= {one.address for one in missing}
        with store.atomic(db):
            tickets = self._admit(db, tickets)
            parts: dict[tuple[int, str, str], list[Part]] = {}
            if buckets and tickets:
                tickets, parts = self._draw(db, tickets, buckets)
            if not tickets:
                return []
            taken = store.take_lanes(db, tickets, limit, lease, solos=solos)
            self._spend(db, taken, parts)
            return taken

    def _is_limited(self, lane: Lane) -> bool:
        definition = registry.find(lane.workflow, lane.version)
        return self._find_cap(lane, definition) is not None or self._find_queue_cap(lane) is not None

    def _admit(self, db: BaseDatabaseWrapper, tickets: list[Ticket]) -> list[Ticket]:
        """Give each ticket numbers of free slots, under the locks of its key and its queue."""
        gates: dict[tuple[int, int], int] = {}
        queues: dict[tuple[int, str], int] = {}
        for one in tickets:
            lane = one.lane
            cap = self._find_cap(lane, registry.find(lane.workflow, lane.version))
            if cap is not None and lane.gate is not None:
                gates[lane.workspace, lane.gate] = number_of("slots", lane.workspace, lane.gate)
            if self._find_queue_cap(lane) is not None:
                queues[lane.workspace, lane.queue] = number_of("queue slots", lane.workspace, lane.queue)
        locked = store.lock_keys(db, [*gates.values(), *queues.values()]) if gates or queues else set()
        mine = [one for one, key in gates.items() if key in locked]
        mine_of_queues = [one for one, key in queues.items() if key in locked]
        taken = dict(zip(mine, store.read_slots(db, mine), strict=True))
        taken_of_queues = dict(zip(mine_of_queues, store.read_queue_slots(db, mine_of_queues), strict=True))
        admitted = []
        for one in tickets:
            lane, quota = one.lane, one.quota
            cap = self._find_cap(lane, registry.find(lane.workflow, lane.version))
            queue_cap = self._find_queue_cap(lane)
            slots: list[int] | None = None
            queue_slots: list[int] | None = None
            if cap is not None and lane.gate is not None:
                slots = find_free(taken.get((lane.workspace, lane.gate)), cap, quota)
                quota = len(slots)
            if queue_cap is not None:
                queue_slots = find_free(taken_of_queues.get((lane.workspace, lane.queue)), queue_cap, quota)
                quota = len(queue_slots)
            if quota:
                if slots is not None and lane.gate is not None:
                    slots = slots[:quota]
                    taken[lane.workspace, lane.gate] += slots
                if queue_slots is not None:
                    taken_of_queues[lane.workspace, lane.queue] += queue_slots
                admitted.append(Ticket(lane, quota, slots, cap if slots else None, queue_slots, queue_cap, one.back))
        return admitted

    def _draw(
        self, db: BaseDatabaseWrapper, tickets: list[Ticket], buckets: dict[tuple[int, str, str], Bucket]
    ) -> tuple[list[Ticket], dict[tuple[int, str, str], list[Part]]]:
        """No more of each than its buckets have tokens for, and of which part each run takes them."""
        needs: Counter[tuple[int, str, str]] = Counter()
        for one in tickets:
            for bucket in self._find_buckets(one.lane):
                needs[bucket.address] += one.quota * bucket.weight
        some = {address: find_parts_needed(bucket, needs[address]) for address, bucket in buckets.items()}
        parts = store.draw(db, list(buckets.values()), list(some.values()))
        drawn = self._draw_of(tickets, parts)
        if not drawn and any(some[address] < bucket.parts for address, bucket in buckets.items()):
            # By chance those were the empty ones.
            parts = store.draw(db, list(buckets.values()), [one.parts for one in buckets.values()])
            drawn = self._draw_of(tickets, parts)
        self._provided -= {address for address, found in parts.items() if not found}
        return drawn, parts

    def _draw_of(self, tickets: list[Ticket], parts: dict[tuple[int, str, str], list[Part]]) -> list[Ticket]:
        left = {part.id: part.tokens for found in parts.values() for part in found}
        drawn = []
        for one in tickets:
            buckets = self._find_buckets(one.lane)
            draws: list[tuple[tuple[int, float], ...]] = []
            while buckets and len(draws) < one.quota:
                run = [find_draws(parts[bucket.address], left, bucket.weight) for bucket in buckets]
                if not all(run):
                    break
                draws.append(tuple(chain.from_iterable(run)))
                for id, amount in draws[-1]:
                    left[id] -= amount
            quota = len(draws) if buckets else one.quota
            if quota:
                drawn.append(replace(one, quota=quota, draws=draws))
        return drawn

    def _spend(
        self,
        db: BaseDatabaseWrapper,
        taken: Sequence[tuple[Ticket, Claim]],
        parts: dict[tuple[int, str, str], list[Part]],
    ) -> None:
        """Write down what the claims have drawn."""
        by_id = {part.id: part for found in parts.values() for part in found}
        begun: Counter[int] = Counter()
        changed: dict[int, Part] = {}
        for ticket, claim in taken:
            if not ticket.draws:
                continue
            claim.drawn = ticket.draws[begun[id(ticket)]]
            begun[id(ticket)] += 1
            for part, amount in claim.drawn:
                by_id[part].spend(amount)
                changed[part] = by_id[part]
        if changed:
            store.keep_parts(db, list(changed.values()))
