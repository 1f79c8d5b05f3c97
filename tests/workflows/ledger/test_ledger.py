"""The ledger is append-only, and whatever was sealed is found when it is changed behind the trigger's back."""

from __future__ import annotations

import json
import random
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from uuid import UUID

import pytest
from django.db import IntegrityError, connection, connections, transaction
from psycopg.conninfo import make_conninfo

import workflows
from tests.support.horizon import wait_for_foreigners
from tests.support.ledger_rows import execute, live, no_triggers, seal, seal_now
from tests.support.races import COMMITTED, Other, run_threads
from workflows.exceptions import InvalidCall
from workflows.ledger import (
    Anchor,
    Damage,
    Finding,
    export_lines,
    make_anchors,
    redact,
    seal_ledger,
    verify_workspace,
)
from workflows.models import Instance, LedgerEvent, LedgerSeal, Workspace
from workflows.store.ledger import ledger_audit
from workflows.store.ledger import seals as sealing
from workflows.store.ledger.tombstones import prune_rows
from workflows.testing import drain

#: Edits, cuts and moves are what is tested here; what the engine itself wrote is folded after its own tests.
pytestmark = [
    COMMITTED,
    pytest.mark.usefixtures("committed"),
    pytest.mark.no_fold(reason="rows of the ledger are changed behind the engine's back"),
]


def verify(slug: str = "default", anchor: Anchor | None = None) -> list[Finding]:
    workspace = Workspace.objects.get(slug=slug)
    return list(verify_workspace(connections["default"], slug, workspace.pk, anchor=anchor))


def troubles(slug: str = "default", anchor: Anchor | None = None) -> list[str]:
    return [str(finding.damage) for finding in verify(slug, anchor)]


# --- what is right -------------------------------------------------------------------------------------------------


def test_an_untouched_history_verifies_over_many_seals() -> None:
    for _ in range(4):
        live(2)
        assert seal() == 1
    assert seal() == 0
    assert list(LedgerSeal.objects.values_list("number", "rows")) == [(n, 8) for n in range(1, 5)]
    assert verify() == []


def test_a_workspace_without_history_gets_no_seal_and_verifies() -> None:
    assert seal() == 0
    assert verify() == []
    assert make_anchors(connections["default"]) == []


def test_each_workspace_has_a_chain_of_its_own() -> None:
    for slug in ("acme", "globex"):
        workflows.workspace.create(slug)
    live(1)
    live(2, "acme")
    assert seal() == 2
    live(1, "globex")
    live(1, "acme")
    assert seal() == 2
    chains = LedgerSeal.objects.order_by("workspace__slug", "number").values_list("workspace__slug", "number", "rows")
    assert list(chains) == [("acme", 1, 8), ("acme", 2, 4), ("default", 1, 4), ("globex", 1, 4)]
    live(1)
    seal()
    assert [verify(slug) for slug in ("default", "acme", "globex")] == [[], [], []]
    heads = {anchor.workspace: anchor.number for anchor in make_anchors(connections["default"])}
    assert heads == {"acme": 2, "default": 2, "globex": 1}


def test_a_backlog_is_sealed_in_bounded_batches() -> None:
    # A batch is cut at the first rows as they lie in the table; where rows were deleted, new ones lie in any order.
    execute("VACUUM (FULL) holdpoint_ledger")
    live(20)
    wait_for_foreigners()
    assert seal_ledger(connections["default"], batches=2, limit=10) == 2
    assert sum(LedgerSeal.objects.values_list("rows", flat=True)) < 80
    assert seal_ledger(connections["default"], batches=100, limit=10) > 2
    assert sum(LedgerSeal.objects.values_list("rows", flat=True)) == 80
    assert verify() == []


def test_hashes_do_not_depend_on_the_sessions_time_zone_or_formats() -> None:
    live()
    execute("SET TIME ZONE 'Pacific/Auckland'")
    try:
        seal()
        execute("SET TIME ZONE 'America/St_Johns'")
        execute("SET DateStyle = 'ISO, DMY'")
        execute("SET extra_float_digits = 0")
        execute("SET bytea_output = 'escape'")
        assert verify() == []
    finally:
        connection.close()


# --- transactions --------------------------------------------------------------------------------------------------


def test_what_commits_late_falls_into_the_next_seal() -> None:
    with transaction.atomic():
        late = workflows.start("ledger.waiter", {"late": True})

        def seal_meanwhile() -> int:
            workflows.start("ledger.waiter", {"quick": True})
            return seal_now()

        early = Other(seal_meanwhile).join()
        assert early == 0  # the quick one is younger than the open one, so it has to wait too
    assert seal() == 1
    assert verify() == []
    assert LedgerEvent.objects.filter(instance=late).exists()


def test_an_open_transaction_does_not_hold_up_what_is_older() -> None:
    live(1)
    wait_for_foreigners()
    with transaction.atomic():
        late = workflows.start("ledger.waiter", {"late": True})
        assert Other(seal_now).join() == 1
        assert Other(verify).join() == []
    [first] = LedgerSeal.objects.all()
    assert first.rows == 4
    event = LedgerEvent.objects.get(instance=late)
    assert event.xid >= first.to_xid
    assert verify() == []
    assert seal() == 1
    assert LedgerSeal.objects.get(number=2).rows == 1
    assert verify() == []


def test_rolled_back_work_leaves_nothing_to_seal() -> None:
    with transaction.atomic():
        workflows.start("ledger.waiter", {})
        transaction.set_rollback(True)
    live(1)
    assert seal() == 1
    assert verify() == []


def test_two_sealers_never_seal_the_same_row() -> None:
    live(2)
    with transaction.atomic():
        assert seal() == 1
        assert Other(seal_now).join() == 0
    assert verify() == []


def test_sealing_next_to_work_leaves_no_row_out() -> None:
    def work(name: str) -> None:
        for n in range(15):
            with transaction.atomic():
                one = workflows.start("ledger.waiter", {"n": n}, key=f"{name}{n}")
                workflows.cancel(one, reason="enough")

    def keep_sealing() -> None:
        for _ in range(15):
            seal_now()

    run_threads([lambda: work("a"), lambda: work("b"), keep_sealing, keep_sealing])
    while seal():
        pass
    assert sum(LedgerSeal.objects.values_list("rows", flat=True)) == LedgerEvent.objects.count() == 60
    assert verify() == []


#: Another program on the same server: a database of its own, always one or two transactions open.
FOREIGNER = """
import random, sys, time
import psycopg
first, second = (psycopg.connect(sys.argv[1]) for _ in range(2))
for db in (first, second):
    db.execute("SELECT pg_current_xact_id()")
print("open", flush=True)
while True:
    for db in (first, second):
        time.sleep(random.uniform(0, 0.05))
        db.commit()
        db.execute("SELECT pg_current_xact_id()")
"""


@contextmanager
def foreigner() -> Iterator[None]:
    """Such a program at work."""
    parameters = connection.get_connection_params()
    names = {"host", "port", "user", "password"}
    conninfo = make_conninfo(**{name: parameters[name] for name in names & parameters.keys()}, dbname="postgres")
    with subprocess.Popen([sys.executable, "-c", FOREIGNER, conninfo], stdout=subprocess.PIPE, text=True) as program:
        try:
            assert program.stdout is not None
            assert program.stdout.readline() == "open\n"
            yield
        finally:
            program.kill()


def test_what_runs_in_another_database_holds_seals_up_and_never_confuses_them() -> None:
    with foreigner():
        for _ in range(5):
            live(1)
            assert seal() == 1
            assert verify() == []
            time.sleep(random.uniform(0, 0.02))
            live(1)
            seal_now()  # whatever it may seal just now
            assert verify() == []
        seal()
    assert sum(LedgerSeal.objects.values_list("rows", flat=True)) == LedgerEvent.objects.count() == 40
    assert verify() == []


# --- the trigger ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "sql",
    [
        "UPDATE holdpoint_ledger SET actor = 'mallory'",
        "UPDATE holdpoint_ledger SET data = '1'",
        "UPDATE holdpoint_ledger SET data = NULL",
        "UPDATE holdpoint_ledger SET data = NULL, salt = NULL, actor = 'mallory'",
        "DELETE FROM holdpoint_ledger",
        "UPDATE holdpoint_seal SET rows = 0",
        "DELETE FROM holdpoint_seal",
        "SET LOCAL holdpoint.pruning = 'on'; DELETE FROM holdpoint_seal",
        "SET LOCAL holdpoint.pruning = 'on'; UPDATE holdpoint_ledger SET actor = 'mallory'",
    ],
)
def test_rows_and_seals_cannot_be_changed_or_deleted(sql: str) -> None:
    live(1)
    seal()
    with pytest.raises(IntegrityError, match="append-only"), transaction.atomic():
        execute(sql)
    assert verify() == []


# --- what is found -------------------------------------------------------------------------------------------------


def history() -> list[Instance]:
    """Three seals; what is changed lies in the second."""
    live(1)
    seal()
    made = live(3)
    seal()
    live(1)
    seal()
    assert verify() == []
    return made


@pytest.mark.parametrize(
    "change",
    [
        "actor = 'mallory'",
        "name = 'other'",
        "data = '{\"n\": 2}'",
        "data = NULL",
        "salt = gen_random_uuid()",
        "at = at + interval '1 us'",
        "due_at = now()",
        "kind = 6",
        "status = 12",
        "seq = seq + 10",
        "instance_id = gen_random_uuid()",
    ],
)
def test_an_edited_cell_is_told_as_edited(change: str) -> None:
    one = history()[1]
    with no_triggers():
        execute(f"UPDATE holdpoint_ledger SET {change} WHERE instance_id = %s AND kind = 12", [one.pk])
    [finding] = verify()
    assert (finding.damage, finding.seal) == (Damage.EDITED, 2)
    assert "12 rows" in finding.detail


def test_the_salt_is_a_cell_too_where_there_is_no_payload() -> None:
    one = history()[1]
    with no_triggers():
        execute(
            "UPDATE holdpoint_ledger SET salt = gen_random_uuid() WHERE instance_id = %s AND data IS NULL", [one.pk]
        )
    assert troubles() == ["edited"]


@pytest.mark.parametrize("change", ["xid = xid + 1000000", "workspace_id = 99", "at = at + interval '1 year'"])
def test_a_row_moved_out_of_its_seal_is_missing_there(change: str) -> None:
    one = history()[1]
    with no_triggers():
        execute(f"UPDATE holdpoint_ledger SET {change} WHERE instance_id = %s AND seq = 2", [one.pk])
    assert "missing" in troubles()


def test_a_deleted_row_is_told_as_missing_and_by_its_number() -> None:
    one = history()[1]
    with no_triggers():
        execute("DELETE FROM holdpoint_ledger WHERE instance_id = %s AND seq = 3", [one.pk])
    missing, hole = verify()
    assert (missing.damage, missing.seal) == (Damage.MISSING, 2)
    assert "11 of 12 rows" in missing.detail
    assert hole.damage is Damage.HOLE
    assert f"instance {one.pk} has no row 3" in hole.detail


def test_an_inserted_row_is_told_as_extra() -> None:
    one = history()[1]
    execute(
        "INSERT INTO holdpoint_ledger (instance_id, at, seq, workspace_id, kind, status, actor, xid) "
        "SELECT instance_id, at, 9, workspace_id, 12, 3, 'mallory', xid FROM holdpoint_ledger "
        "WHERE instance_id = %s AND seq = 2",
        [one.pk],
    )
    [finding] = verify()
    assert (finding.damage, finding.seal) == (Damage.EXTRA, 2)
    assert "13 of 12 rows" in finding.detail


def test_a_cut_tail_is_told_as_missing() -> None:
    history()
    with no_triggers():
        execute("DELETE FROM holdpoint_ledger WHERE xid >= (SELECT max(from_xid) FROM holdpoint_seal)")
    found = verify()
    assert (found[0].damage, found[0].seal) == (Damage.MISSING, 3)
    assert "0 of 4 rows" in found[0].detail


def test_a_tail_cut_together_with_its_seals_is_found_against_the_anchor_only() -> None:
    history()
    [anchor] = make_anchors(connections["default"])
    with no_triggers():
        execute("DELETE FROM holdpoint_ledger WHERE xid >= (SELECT max(from_xid) FROM holdpoint_seal)")
        execute("DELETE FROM holdpoint_instance WHERE id NOT IN (SELECT instance_id FROM holdpoint_ledger)")
        execute("DELETE FROM holdpoint_seal WHERE number = 3")
    assert verify() == []
    [finding] = verify(anchor=anchor)
    assert (finding.damage, finding.seal) == (Damage.ANCHOR, 3)
    assert "the chain ends at seal 2" in finding.detail


def test_a_history_sealed_anew_after_a_change_is_found_against_the_anchor_only() -> None:
    one = history()[1]
    [anchor] = make_anchors(connections["default"])
    with no_triggers():
        execute("UPDATE holdpoint_ledger SET actor = 'mallory' WHERE instance_id = %s", [one.pk])
        execute("DELETE FROM holdpoint_seal")
    for _ in range(3):
        live(1)
        seal()
    assert verify() == []
    assert troubles(anchor=anchor) == ["not as anchored"]


def test_an_anchor_still_holds_when_the_chain_has_grown() -> None:
    history()
    [anchor] = make_anchors(connections["default"])
    live(1)
    seal()
    assert verify(anchor=anchor) == []


def test_a_missing_seal_is_told() -> None:
    history()
    with no_triggers():
        execute("DELETE FROM holdpoint_seal WHERE number = 2")
    [finding] = verify()
    assert (finding.damage, finding.seal) == (Damage.SEAL_MISSING, 2)


def test_an_edited_seal_breaks_the_chain() -> None:
    history()
    with no_triggers():
        execute("UPDATE holdpoint_seal SET hash = sha256('x') WHERE number = 2")
    assert [(str(one.damage), one.seal) for one in verify()] == [("chain broken", 3), ("edited", 2)]


def test_a_range_that_was_moved_breaks_the_chain() -> None:
    history()
    with no_triggers():
        execute("UPDATE holdpoint_seal SET from_xid = from_xid + 1 WHERE number = 2")
    assert "chain broken" in troubles()


def test_every_change_is_found_wherever_it_lies() -> None:
    for _ in range(12):
        live(1)
        seal()
    rows = execute("SELECT instance_id, seq FROM holdpoint_ledger")
    with no_triggers():
        for instance, seq in rows[::5]:
            with transaction.atomic():
                execute(
                    "UPDATE holdpoint_ledger SET due_at = now() WHERE instance_id = %s AND seq = %s", [instance, seq]
                )
                assert troubles() == ["edited"]
                transaction.set_rollback(True)
    assert verify() == []


# --- what lies outside every seal ------------------------------------------------------------------------------------


def forge(one: Instance, **cells: str) -> None:
    """A row like the second one of this instance, but for its number and some cells, given as SQL."""
    columns = {name: name for name in ("instance_id", "at", "due_at", "workspace_id", "kind", "status", "actor", "xid")}
    columns |= {"seq": "99", **cells}
    execute(
        f"INSERT INTO holdpoint_ledger ({', '.join(columns)}) SELECT {', '.join(columns.values())} "
        "FROM holdpoint_ledger WHERE instance_id = %s AND seq = 2",
        [one.pk],
    )


def tell_stray(slug: str = "default") -> str:
    """What verification says of the only thing that is wrong."""
    [finding] = verify(slug)
    assert finding.damage is Damage.STRAY
    return finding.detail


@pytest.mark.parametrize(
    ("cells", "why"),
    [
        ({"xid": "-5"}, "no transaction has such a number"),
        ({"xid": "-9223372036854775808"}, "no transaction has such a number"),
        ({"xid": "9223372036854775807"}, "its transaction is yet to come"),
        ({"at": "'1969-12-31 00:00Z'"}, "such a moment"),
        ({"at": "'-infinity'"}, "such a moment"),
        ({"at": "'infinity'"}, "such a moment"),
        ({"due_at": "'infinity'"}, "such a moment"),
        ({"due_at": "'-infinity'"}, "such a moment"),
        ({"due_at": "'294276-12-31 00:00Z'"}, "such a moment"),
        ({"at": "now() + interval '1 year'"}, "was sealed without it"),
        ({"workspace_id": "99"}, "its workspace does not exist"),
    ],
)
def test_a_row_put_where_no_seal_looks_is_told(cells: dict[str, str], why: str) -> None:
    one = history()[1]
    forge(one, **cells)
    told = tell_stray()
    assert f"instance {one.pk} row 99: " in told
    assert why in told


def test_a_row_with_a_moment_that_is_none_keeps_no_other_from_being_sealed() -> None:
    [one] = live(1)
    forge(one, due_at="'infinity'")
    seal()
    assert "such a moment" in tell_stray()
    live(1)
    seal()
    assert LedgerSeal.objects.count() == 2
    assert "such a moment" in tell_stray()


@pytest.mark.parametrize("xid", ["0", "2"])
def test_a_transaction_that_never_was_is_told_though_a_seal_reaches_there(xid: str) -> None:
    forge(history()[1], xid=xid)
    assert troubles() == ["extra", "in no seal"]


def test_such_a_row_is_told_before_anything_is_sealed_too() -> None:
    [one] = live(1)
    forge(one, xid="1")
    assert "no transaction has such a number" in tell_stray()
    seal()
    assert "no transaction has such a number" in tell_stray()


def test_a_row_between_a_workspaces_last_seal_and_that_of_others_is_told() -> None:
    workflows.workspace.create("acme")
    [one] = live(1, "acme")
    seal()
    live(1)
    seal()
    assert verify("acme") == []
    forge(one, xid="(SELECT max(xid) FROM holdpoint_ledger)")
    assert "was sealed without it" in tell_stray("acme")
    assert verify() == []


def test_a_row_in_a_workspace_that_was_never_sealed_is_told() -> None:
    workflows.workspace.create("acme")
    one = history()[1]
    forge(one, instance_id="gen_random_uuid()", workspace_id="(SELECT id FROM holdpoint_workspace WHERE slug = 'acme')")
    assert "was sealed without it" in tell_stray("acme")
    assert verify() == []


def test_a_row_slipped_behind_an_era_that_is_over_is_told() -> None:
    [one] = live(1)
    seal()
    restore_elsewhere()
    live(1)
    seal()
    live(1)
    seal()
    assert LedgerSeal.objects.latest("id").era == 1
    assert verify() == []
    forge(one, xid="xid + 1000")  # not sealed with what came along, and of no transaction of this server
    assert "was sealed without it" in tell_stray()


def test_many_such_rows_are_told_by_ten_of_them() -> None:
    one = history()[1]
    for number in range(12):
        forge(one, xid="-1", seq=str(100 + number))
    assert troubles() == ["in no seal"] * 10


def test_what_is_still_to_be_sealed_is_not_told_nor_what_this_very_transaction_wrote() -> None:
    history()
    live(1)
    assert verify() == []
    with transaction.atomic():
        workflows.start("ledger.waiter", {})
        assert verify() == []
        assert Other(verify).join() == []


def test_nothing_is_told_while_others_work_and_seal() -> None:
    told: list[list[Finding]] = []

    def work(name: str) -> None:
        for n in range(15):
            with transaction.atomic():
                workflows.cancel(workflows.start("ledger.waiter", {"n": n}, key=f"{name}{n}"), reason="enough")

    def keep_sealing() -> None:
        for _ in range(20):
            seal_now()

    def keep_verifying() -> None:
        told.extend(verify() for _ in range(10))

    run_threads([lambda: work("a"), lambda: work("b"), keep_sealing, keep_verifying])
    assert told == [[]] * 10


# --- redaction -----------------------------------------------------------------------------------------------------


def redact_one(one: Instance, seq: int = 3, **more: Any) -> int:
    options = {"actor": "dpo", "reason": "asked to be forgotten", **more}
    return redact(connections["default"], one.pk, seq, **options)


def with_payload() -> tuple[Instance, int]:
    event = LedgerEvent.objects.filter(data__isnull=False).order_by("instance_id", "seq").first()
    assert event is not None
    return Instance.objects.get(pk=event.instance_id), event.seq


@pytest.mark.parametrize("sealed_before", [True, False])
def test_a_redacted_payload_is_gone_and_the_history_verifies(sealed_before: bool) -> None:
    live()
    if sealed_before:
        seal()
    one, seq = with_payload()
    number = redact_one(one, seq)
    assert verify() == []
    seal()
    assert verify() == []
    row = LedgerEvent.objects.get(instance=one, seq=seq)
    assert (row.data, row.salt) == (None, None)
    told = LedgerEvent.objects.get(instance=one, seq=number)
    assert (str(told.kind), told.actor, told.data["seq"]) == ("redacted", "dpo", seq)
    assert told.data["reason"] == "asked to be forgotten"
    one.refresh_from_db()
    assert one.seq == number


def test_only_a_payload_that_is_there_can_be_redacted() -> None:
    live(1)
    one, seq = with_payload()
    number = redact_one(one, seq)
    for wrong in (seq, number, 99):
        with pytest.raises(InvalidCall, match="no payload"):
            redact_one(one, wrong)
    workflows.workspace.create("acme")
    with pytest.raises(InvalidCall, match="no instance"):
        redact_one(one, seq, workspace="acme")
    with pytest.raises(InvalidCall):
        redact_one(one, seq, reason=" ")


def test_a_payload_cleared_without_a_redaction_is_told() -> None:
    live(1)
    seal()
    one, seq = with_payload()
    execute("UPDATE holdpoint_ledger SET data = NULL, salt = NULL WHERE instance_id = %s AND seq = %s", [one.pk, seq])
    edited, lost = verify()
    assert (edited.damage, lost.damage) == (Damage.EDITED, Damage.LOST)
    assert f"instance {one.pk} row {seq}" in lost.detail


def test_a_redaction_that_is_undone_with_another_payload_is_told() -> None:
    live(1)
    one, seq = with_payload()
    redact_one(one, seq)
    seal()
    with no_triggers():
        execute(
            "UPDATE holdpoint_ledger SET data = '1', salt = gen_random_uuid() WHERE instance_id = %s AND seq = %s",
            [one.pk, seq],
        )
    assert troubles() == ["edited"]


# --- pruning -------------------------------------------------------------------------------------------------------


def prune(*ids: UUID) -> None:
    with transaction.atomic():
        prune_rows(connections["default"], ids)
        execute("DELETE FROM holdpoint_signal WHERE instance_id = ANY(%s)", [list(ids)])
        execute("DELETE FROM holdpoint_instance WHERE id = ANY(%s)", [list(ids)])


def test_a_pruned_history_still_verifies_and_says_what_went() -> None:
    long_lived = workflows.start("ledger.waiter", {})
    drain()
    seal()
    made = history()
    workflows.signal(long_lived, "go")
    drain()
    seal()
    redact_one(made[0], LedgerEvent.objects.filter(instance=made[0], data__isnull=False).first().seq)
    seal()
    prune(made[0].pk, made[1].pk, long_lived.pk)
    assert verify() == []
    seal()
    assert verify() == []
    [left] = LedgerEvent.objects.filter(instance_id=long_lived.pk)
    assert left.data["pruned"] == 4
    assert len(left.data["parts"]) == 2
    prune(made[2].pk, long_lived.pk)
    seal()
    assert verify() == []
    assert LedgerEvent.objects.filter(instance_id=long_lived.pk).count() == 1


def test_rows_that_were_never_sealed_are_pruned_without_a_trace() -> None:
    [one] = live(1)
    prune(one.pk)
    assert not LedgerEvent.objects.exists()
    assert seal() == 0


def test_what_stays_in_a_pruned_seal_is_still_vouched_for() -> None:
    made = history()
    prune(made[0].pk)
    seal()
    with no_triggers():
        execute("UPDATE holdpoint_ledger SET actor = 'x' WHERE instance_id = %s AND seq = 1", [made[1].pk])
    assert [(str(one.damage), one.seal) for one in verify()] == [("edited", 2)]
    with no_triggers():
        execute("DELETE FROM holdpoint_ledger WHERE instance_id = %s AND kind = 34", [made[0].pk])
    assert ("missing", 2) in [(str(one.damage), one.seal) for one in verify()]


DIGEST = "0123456789abcdef" * 4


@pytest.mark.parametrize(
    "parts",
    [
        None,
        1,
        "[]",
        {},
        {"1": [1, 1, DIGEST]},
        [],
        [None],
        [1],
        ["2"],
        [{}],
        [[]],
        [[2]],
        [[2, 4]],
        [[None, None, None]],
        [["2", 4, DIGEST]],
        [["x", 4, DIGEST]],
        [[2.5, 4, DIGEST]],
        [[0, 4, DIGEST]],
        [[-2, 4, DIGEST]],
        [[10**12, 4, DIGEST]],
        [[2, 0, DIGEST]],
        [[2, -4, DIGEST]],
        [[2, 10**30, DIGEST]],
        [[2, 2**63 - 1, DIGEST], [2, 2**63 - 1, DIGEST]],
        [[2, 4, None]],
        [[2, 4, "xyz"]],
        [[2, 4, DIGEST[1:]]],
        [[2, 4, DIGEST.upper()]],
        [[2, 4, DIGEST + "\n"]],
        [[2, 4, DIGEST, 1]],
        [[[2, 4, DIGEST]]],
        [[2, 4, DIGEST], 1],
        [[2, 4, DIGEST], [2]],
    ],
    ids=repr,
)
def test_a_tombstone_that_pruning_never_writes_is_told_and_stands_for_nothing(parts: Any) -> None:
    one = history()[1]
    forge(
        one, kind="34", data=f"'{json.dumps({'pruned': 4, 'parts': parts})}'", xid="pg_current_xact_id()::text::bigint"
    )
    [finding] = verify()
    assert finding.damage is Damage.TOMBSTONE
    assert f"instance {one.pk} row 99 " in finding.detail
    seal()
    assert troubles() == ["tombstone malformed"]


def test_a_tombstone_need_not_even_be_an_object() -> None:
    forge(history()[1], kind="34", data="""'["parts"]'""", xid="pg_current_xact_id()::text::bigint")
    assert troubles() == ["tombstone malformed"]


def test_a_tombstone_that_is_spoilt_is_told_with_what_it_stood_for() -> None:
    one = history()[1]
    prune(one.pk)
    seal()
    assert verify() == []
    with no_triggers():
        execute(
            """UPDATE holdpoint_ledger SET data = jsonb_set(data, '{parts,0,2}', '"spoilt"') WHERE instance_id = %s""",
            [one.pk],
        )
    assert [(str(found.damage), found.seal) for found in verify() if found.damage is not Damage.HOLE] == [
        ("missing", 2),
        ("edited", 4),
        ("tombstone malformed", None),
    ]


def test_pruning_waits_for_a_sealer_at_work() -> None:
    [one] = live(1)
    with transaction.atomic():
        seal()
        other = Other(lambda: prune(one.pk))
        other.wait_until_blocked()
    assert other.join() is None
    seal()
    assert verify() == []


# --- a database that was restored elsewhere ------------------------------------------------------------------------


def restore_elsewhere(unsealed: int = 0) -> None:
    """As a dump of a busier cluster looks in a new one: all it brought along has transactions yet to come."""
    with no_triggers():
        execute("UPDATE holdpoint_ledger SET xid = xid + 1000000000")
        execute("UPDATE holdpoint_seal SET from_xid = from_xid + 1000000000 WHERE from_xid > 0")
        execute("UPDATE holdpoint_seal SET to_xid = to_xid + 1000000000")
        # The chain is written anew over the moved rows: here it is the old cluster's.
        for seal_id, workspace, number in execute("SELECT id, workspace_id, number FROM holdpoint_seal ORDER BY id"):
            execute(
                "UPDATE holdpoint_seal SET previous = coalesce((SELECT hash FROM holdpoint_seal WHERE workspace_id = %s"
                " AND number = %s), '') WHERE id = %s",
                [workspace, number - 1, seal_id],
            )
            execute(
                f"""WITH hashed AS (
                  SELECT l.workspace_id, l.instance_id, l.seq, {sealing.ROW_HASH} AS h
                  FROM holdpoint_ledger l, holdpoint_seal s WHERE s.id = %(id)s AND l.workspace_id = s.workspace_id
                    AND l.xid >= s.from_xid AND l.xid < s.to_xid
                ), part AS ({sealing.fold_parts("workspace_id")}
                ), content AS ({sealing.fold_content("workspace_id")}
                ), s AS (SELECT s.*, c.content FROM holdpoint_seal s, content c WHERE s.id = %(id)s)
                UPDATE holdpoint_seal t SET hash = {sealing.SEAL_HASH} FROM s WHERE t.id = s.id""",
                {"id": seal_id},
            )
    assert verify() == []


def test_a_restored_database_begins_an_era_and_leaves_nothing_unsealed() -> None:
    live(2)
    seal()
    live(1)
    seal()
    live(1)  # not sealed when the dump was made
    restore_elsewhere()
    live(3)
    assert verify() == []
    assert seal() == 2
    assert list(LedgerSeal.objects.values_list("era", "number", "rows")) == [
        (0, 1, 8),
        (0, 2, 4),
        (0, 3, 4),
        (1, 4, 12),
    ]
    live(1)
    seal()
    assert verify() == []
    assert sum(LedgerSeal.objects.values_list("rows", flat=True)) == LedgerEvent.objects.count()
    one = LedgerEvent.objects.order_by("xid").first()
    assert one is not None
    with no_triggers():
        execute("UPDATE holdpoint_ledger SET actor = 'x' WHERE instance_id = %s AND seq = 1", [one.instance_id])
    assert [(str(found.damage), found.seal) for found in verify()] == [("edited", 4)]


def test_an_era_with_nothing_to_seal_yet_begins_later() -> None:
    live(1)
    seal()
    live(1)
    restore_elsewhere()
    assert seal() == 1  # what came along
    assert seal() == 0
    live(1)
    assert seal() == 1
    assert list(LedgerSeal.objects.values_list("era", flat=True)) == [0, 0, 1]
    assert verify() == []
    [pruned] = live(1)
    seal()
    old = LedgerEvent.objects.order_by("at").first()
    assert old is not None
    prune(pruned.pk, old.instance_id)
    seal()
    assert verify() == []


# --- export and plans ----------------------------------------------------------------------------------------------


def test_an_export_holds_every_row_with_its_hash() -> None:
    made = live(2)
    seal()
    lines = [json.loads(line) for line in export_lines(connections["default"])]
    assert [line["type"] for line in lines] == ["seal"] + ["row"] * 8
    assert lines[0]["rows"] == 8
    first = min(made, key=lambda one: one.pk)
    assert [(line["instance"], line["seq"]) for line in lines[1:5]] == [(str(first.pk), n) for n in range(1, 5)]
    assert [line["kind"] for line in lines[1:5]] == ["started", "parked", "signalled", "done"]
    assert lines[2]["data"] == ["go"]
    bare = [json.loads(line) for line in export_lines(connections["default"], payloads=False)]
    assert "data" not in bare[1]
    assert [line.get("hash") for line in bare] == [line["hash"] for line in lines]


def test_new_rows_are_found_through_the_index_on_transactions() -> None:
    with transaction.atomic():
        execute(
            "INSERT INTO holdpoint_ledger (instance_id, at, seq, workspace_id, kind, status, actor, xid) "
            "SELECT gen_random_uuid(), now(), 1, w.id, 1, 1, '', n FROM generate_series(1, 50000) n, "
            "holdpoint_workspace w WHERE w.slug = 'default'"
        )
        execute("ANALYZE holdpoint_ledger")
        since = "2000-01-01"
        params: dict[str, Any] = {
            "lower": 49_900,
            "cut": 50_001,
            "horizon": 50_001,
            "since": since,
            "until": "infinity",
        }
        params |= {"era": 0, "sealed_at": since, "limit": 1000, "ws": Workspace.objects.get(slug="default").pk}
        params |= {"first": 1, "last": 1, "froms": [49_900], "upper": 50_001}
        for statement in (sealing._CUT, sealing._SEAL, ledger_audit._PROVE):
            plan = "\n".join(row[0] for row in execute("EXPLAIN (COSTS OFF) " + statement, params))
            assert "holdpoint_ledger_xid" in plan, plan
            assert "Seq Scan on holdpoint_ledger" not in plan, plan
        transaction.set_rollback(True)


def test_verifying_one_workspace_reads_its_own_rows_and_not_the_ledger_of_a_busy_neighbour() -> None:
    """Pinned is how many pages are looked at: of those that may hold the workspace's rows, and of nobody else's."""
    quiet = workflows.workspace.create("quiet")
    with transaction.atomic():
        rows = (
            "INSERT INTO holdpoint_ledger (instance_id, at, seq, workspace_id, kind, status, actor, xid) "
            "SELECT gen_random_uuid(), now(), 1, w.id, 1, 1, '', 100 + n FROM generate_series(1, %(n)s) n, "
            "holdpoint_workspace w WHERE w.slug = %(slug)s"
        )
        execute(rows, {"n": 3, "slug": "quiet"})
        execute(rows, {"n": 60_000, "slug": "default"})
        execute("SELECT brin_summarize_new_values('holdpoint_ledger_workspace')")
        execute("SELECT brin_summarize_new_values('holdpoint_ledger_xid')")
        execute("ANALYZE holdpoint_ledger")
        [[pages]] = execute("SELECT relpages FROM pg_class WHERE relname = 'holdpoint_ledger'")
        assert pages > 600
        params: dict[str, Any] = {"ws": quiet.pk, "limit": 10, "lower": 0, "upper": 100_000, "froms": [0]}
        params |= {"first": 1, "last": 1, "since": "2000-01-01", "until": "infinity"}
        execute("SET LOCAL enable_seqscan = off")  # as a verification does, around each of these
        for statement in (ledger_audit._PROVE, ledger_audit._STRAY, ledger_audit._LOST, ledger_audit._MALFORMED):
            [[[explained]]] = execute("EXPLAIN (ANALYZE, COSTS OFF, TIMING OFF, FORMAT JSON) " + statement, params)
            looked = find_scanned(explained)
            assert looked <= 100, f"{looked} of {pages} pages: {json.dumps(explained)[:3000]}"
        transaction.set_rollback(True)


def find_scanned(plan: Any) -> int:
    """Pages of the ledger that a plan looked at, in the scans of it that were begun at all."""
    found = 0
    waiting = [plan["Plan"]]
    while waiting:
        node = waiting.pop()
        waiting.extend(node.get("Plans", ()))
        if node.get("Relation Name") == "holdpoint_ledger" and node["Actual Loops"]:
            assert node["Node Type"] != "Seq Scan", f"the whole ledger is read: {json.dumps(plan)[:6000]}"
            found += node.get("Exact Heap Blocks", 0) + node.get("Lossy Heap Blocks", 0)
    return found


@pytest.mark.parametrize("busy", ["default", "quiet"])
def test_verifying_one_workspace_leaves_the_planner_of_the_session_as_it_was(busy: str) -> None:
    workflows.workspace.create("quiet")
    live(1)
    seal()
    with transaction.atomic():
        assert list(verify_workspace(connections["default"], busy, Workspace.objects.get(slug=busy).pk)) == []
        assert execute("SHOW enable_seqscan") == [("on",)]
