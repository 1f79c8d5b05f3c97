"""What an item costs: the same for the first and the last of ten thousand, and no other item is read for it."""

import json
from collections.abc import Callable
from typing import Any

import pytest
from django.db import connection, connections, transaction
from django.test.utils import CaptureQueriesContext

import workflows
from tests.support.races import COMMITTED, work
from tests.support.units.payments import pay
from workflows import store
from workflows.models import AwaitUnit, Instance, Interaction
from workflows.units import unit_sweep
from workflows.units.item_outcomes import release

pytestmark = [COMMITTED, pytest.mark.usefixtures("committed")]

MANY = 10_000
#: Enough where no item may be read, or a few: that all are read would be seen.
SOME = 2_000


class _Back(Exception):
    """What was only looked at."""


def begin(items: int = MANY, **more: Any) -> Instance:
    instance = workflows.start(pay, {"n": items, **more})
    work()
    return instance


def answer(instance: Instance, index: int) -> None:
    workflows.complete(f"pay.{index}-{instance.pk}", index)


def list_statements(call: Callable[[], Any]) -> list[str]:
    """What a call sends."""
    with CaptureQueriesContext(connection) as captured:
        call()
    return [one["sql"] for one in captured]


def count_buffers(statement: str) -> int:
    """Pages that a statement looks at, without its effect."""
    try:
        with transaction.atomic(), connection.cursor() as cursor:
            cursor.execute("EXPLAIN (ANALYZE, BUFFERS, TIMING OFF, FORMAT JSON) " + statement.replace("%", "%%"))
            found = cursor.fetchone()[0]
            plan = (found if isinstance(found, list) else json.loads(found))[0]["Plan"]
            raise _Back
    except _Back:
        return int(plan["Shared Hit Blocks"] + plan["Shared Read Blocks"])


def count_rows(call: Callable[[], Any], table: str) -> tuple[int, int]:
    """Rows of a table that a call fetches by an index, and by reading the table."""
    with transaction.atomic(), connection.cursor() as cursor:

        def look() -> tuple[int, int]:
            cursor.execute(
                "SELECT coalesce(idx_tup_fetch, 0), coalesce(seq_tup_read, 0) FROM pg_stat_xact_user_tables "
                "WHERE relname = %s",
                [table],
            )
            found = cursor.fetchone()
            return found[0], found[1]

        before = look()
        call()
        after = look()
    return after[0] - before[0], after[1] - before[1]


def write_answer(instance: Instance, index: int) -> str:
    """The one statement that answers an item, as text, for an item that is not answered by it."""
    item = Interaction.objects.get(instance=instance, index=index)
    db = connections["default"]

    def call() -> None:
        try:
            with transaction.atomic():
                store.complete_items(db, [store.ItemAnswer(item.pk, "1")], actor="", lines=False)
                raise _Back
        except _Back:
            pass

    [statement] = [one for one in list_statements(call) if "holdpoint_unit" in one]
    return statement


def answer_the_others(instance: Instance) -> None:
    """All but the first hundred, which keep the unit open."""
    lines = [(f"pay.{n}-{instance.pk}", n) for n in range(100, MANY)]
    assert all(one.ok for one in workflows.complete_many(lines))


def test_item_10_000_costs_as_many_statements_and_pages_as_item_1_and_reads_no_other() -> None:
    instance = begin(concurrency=MANY)
    with connection.cursor() as cursor:
        cursor.execute("ANALYZE holdpoint_interaction, holdpoint_unit, holdpoint_instance, holdpoint_ledger")
    first = count_buffers(write_answer(instance, 0))
    statements = len(list_statements(lambda: answer(instance, 0)))
    rows = count_rows(lambda: answer(instance, 1), "holdpoint_interaction")
    answer_the_others(instance)
    last = count_buffers(write_answer(instance, 2))
    assert len(list_statements(lambda: answer(instance, 2))) == statements == 2
    again = count_rows(lambda: answer(instance, 3), "holdpoint_interaction")
    # An index may have become one page deeper meanwhile, in each of its few.
    assert last <= first * 1.2 + 8, (first, last)
    assert rows[1] == again[1] == 0
    assert rows[0] <= 6, rows
    assert again[0] <= 6, again


def test_asking_the_next_item_reads_as_many_rows_for_the_last_as_for_the_first() -> None:
    instance = begin(SOME, concurrency=10)
    db = connections["default"]
    unit = AwaitUnit.objects.get(instance=instance).pk
    with connection.cursor() as cursor:
        cursor.execute("ANALYZE holdpoint_interaction, holdpoint_unit, holdpoint_instance, holdpoint_ledger")

    def end_one() -> None:
        item = Interaction.objects.filter(instance=instance, status="pending", queued=False).first()
        store.complete_items(db, [store.ItemAnswer(item.pk, "1")], actor="", lines=False)

    end_one()
    first = count_rows(lambda: store.admit_items(db, unit), "holdpoint_interaction")
    workflows.complete_many([(f"pay.{n}-{instance.pk}", n) for n in range(20, SOME - 50)])
    end_one()
    last = count_rows(lambda: store.admit_items(db, unit), "holdpoint_interaction")
    assert first[1] == last[1] == 0
    # Entries of items that were asked meanwhile may still stand in the index until it is tidied up; rows do not.
    assert last[0] <= first[0] + 20, (first, last)


def test_the_release_reads_no_item() -> None:
    instance = begin(SOME, concurrency=SOME)
    db = connections["default"]
    items = Interaction.objects.filter(instance=instance).values_list("pk", flat=True)
    store.complete_items(db, [store.ItemAnswer(pk, "1") for pk in items], actor="", lines=False)
    unit = AwaitUnit.objects.get(instance=instance).pk
    assert len(list_statements(lambda: store.release_unit(db, unit))) == 1
    assert unit not in store.list_closed_units(db)
    assert count_rows(lambda: release(db, unit), "holdpoint_interaction") == (0, 0)


def test_the_sweeps_look_is_one_statement_that_reads_no_item_of_a_unit_under_way() -> None:
    begin(SOME, timeout="1h")
    db = connections["default"]
    assert len(list_statements(lambda: unit_sweep.seconds_to_next(db))) == 1
    assert count_rows(lambda: unit_sweep.seconds_to_next(db), "holdpoint_interaction")[1] == 0


def test_opening_a_unit_of_10_000_takes_one_statement() -> None:
    workflows.start(pay, {"n": MANY})
    sent = list_statements(work)
    assert len([one for one in sent if "INSERT INTO holdpoint_interaction" in one]) == 1
    assert len([one for one in sent if "holdpoint_unit" in one]) <= 2
