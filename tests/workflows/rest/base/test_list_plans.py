"""What pages of lists and completions cost beside 20,000 others: index look-ups, wherever the page lies."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from itertools import islice
from typing import Any

import pytest
from django.db import transaction
from django.db.models import Q

from tests.support.database import db
from tests.support.rest_pages import MIDDLE, MODES, OTHER, page
from tests.support.statements import explain, listen
from workflows.lifecycle import InteractionStatus, Status, UnitStatus
from workflows.models import AwaitUnit, Instance, Interaction, Workspace
from workflows.rest.base.lists import Segment, has_status, is_within
from workflows.rest.resources.instance_views import has_key
from workflows.rest.resources.interaction_views import BY_DEADLINE, BY_INDEX
from workflows.store import find_interaction, prune_answers
from workflows.units.unit_history import Cut, walk_history

pytestmark = [pytest.mark.django_db, pytest.mark.slow]

PARKED = 20_000
TABLES = "holdpoint_instance, holdpoint_unit, holdpoint_interaction, holdpoint_answer, holdpoint_ledger"
NOW = datetime(2030, 1, 1, tzinfo=UTC)


def fill_tables() -> None:
    """Half of what is asked has a deadline; one in a thousand is Ann's, as many failed; some are answered."""
    rows = f"generate_series(1, {PARKED}) n, holdpoint_workspace w WHERE w.slug = 'default'"
    with db().cursor() as cursor:
        cursor.execute(f"""
            INSERT INTO holdpoint_instance (id, created_at, workspace_id, fence, seq, inbox, pending, version, status,
              attempt, runs, spawns, timed_out, solo, workflow, step, started_by, names, input, key, error, finished_at)
            SELECT md5(n::text)::uuid, now(), w.id, 1, 3, 0, 0, 1, CASE WHEN mod(n, 1000) = 0 THEN 11 ELSE 3 END,
              0, 0, 0, false, false, 'Planned' || mod(n, 3), 'end', '', ARRAY['go'], '{{}}', 'key' || n,
              CASE WHEN mod(n, 1000) = 0 THEN 'no' END, CASE WHEN mod(n, 1000) = 0 THEN now() END
            FROM {rows}
        """)
        cursor.execute(f"""
            INSERT INTO holdpoint_unit (id, instance_id, created_at, workspace_id, visit, total, remaining, failed,
              status, cardinality, step)
            SELECT md5('u' || n)::uuid, md5(n::text)::uuid, now(), w.id, 1, 1, 1, 0, 1, 1, 'gate' FROM {rows}
        """)
        cursor.execute(f"""
            INSERT INTO holdpoint_interaction (id, unit_id, instance_id, created_at, workspace_id, index, version,
              status, owned, channel, signal_id, deadline, assignee, group_name, closed_at, actor,
              correlation_id)
            SELECT md5('i' || n)::uuid, md5('u' || n)::uuid, md5(n::text)::uuid, now(), w.id, 0, 1,
              CASE WHEN mod(n, 20) = 0 THEN 2 ELSE 1 END, false, 'api', 'gate-' || n,
              CASE WHEN mod(n, 2) = 0 THEN timestamptz '2030-01-01' + mod(n, 500) * interval '1 h' END,
              CASE WHEN mod(n, 999) = 0 THEN 'ann' END, CASE WHEN mod(n, 999) = 1 THEN 'desk' END,
              CASE WHEN mod(n, 20) = 0 THEN now() END, '', 'order-' || n
            FROM {rows}
        """)
        cursor.execute(
            "INSERT INTO holdpoint_unit (id, instance_id, created_at, workspace_id, visit, total, remaining, failed, "
            "status, cardinality, step, items) "
            "SELECT %s, md5('1')::uuid, now(), 1, 1, 10000, 10000, 0, 1, 1, 'pay', true",
            [MIDDLE],
        )
        cursor.execute(
            "INSERT INTO holdpoint_interaction (id, unit_id, instance_id, created_at, workspace_id, index, version, "
            "status, item, queued, owned, channel, signal_id, actor) SELECT md5('j' || n)::uuid, %s, md5('1')::uuid, "
            "now(), 1, n, 1, 1, true, n > 128, false, 'api', 'pay.' || n, '' FROM generate_series(0, 9999) n",
            [MIDDLE],
        )
        cursor.execute(f"""
            INSERT INTO holdpoint_answer (workspace_id, digest, body_hash, at, status, body)
            SELECT w.id, sha256(n::text::bytea), sha256('x'), now() - mod(n, 50) * interval '1 h', 202, '{{}}'
            FROM {rows}
        """)
        cursor.execute(
            "INSERT INTO holdpoint_ledger (instance_id, at, seq, workspace_id, kind, status, actor) "
            f"SELECT md5(n::text)::uuid, now(), s, w.id, 1, 1, '' FROM generate_series(1, 2) s, {rows} UNION ALL "
            "SELECT %s, now(), s, 1, 1, 1, '' FROM generate_series(1, 30000) s",
            [MIDDLE],
        )
        cursor.execute(f"ANALYZE {TABLES}")


def questions(**filters: Any) -> Any:
    workspace = Workspace.objects.get(slug="default").pk
    pending = Interaction.objects.filter(has_status(InteractionStatus.PENDING), queued=False)
    return pending.filter(workspace_id=workspace, **filters)


def items(*filters: Any) -> Any:
    return Interaction.objects.filter(is_within(1), *filters, unit_id=MIDDLE)


def units(*filters: Any, workspace: int = 1, **more: Any) -> Any:
    return AwaitUnit.objects.filter(is_within(workspace), *filters, **more)


def instances(*filters: Any, workspace: int | None = None) -> Any:
    default = Workspace.objects.get(slug="default").pk
    return Instance.objects.filter(is_within(workspace or default), *filters)


def history(place: int = 0, *, back: bool = False) -> Callable[[], object]:
    """The 30,000 rows of an instance; those of a unit are read alike."""
    return lambda: list(islice(walk_history("default", MIDDLE, 30_000, [], Cut(place), back=back), 50))


NEWEST = [Segment(("id",), descending=True)]
SOON = NOW + timedelta(hours=250)
#: What no index knows: an index for each would cost every row, and these are looked through as far as it takes.
SCANNED: dict[str, Callable[[], Callable[[], object]]] = {
    "questions of a workflow": lambda: page(questions(instance__workflow="Rare"), BY_DEADLINE),
    "questions of a step": lambda: page(questions(unit__step="rare"), BY_DEADLINE),
    "questions of a channel": lambda: page(questions(channel="rare"), BY_DEADLINE),
    "units of a step": lambda: page(units(step="rare"), NEWEST),
    "instances of a workflow": lambda: page(instances(Q(workflow="Rare")), NEWEST),
    "instances that are done": lambda: page(instances(has_status(Status.DONE)), NEWEST),
    "instances that sleep": lambda: page(instances(has_status(Status.SLEEPING)), NEWEST),
}
CALLS: dict[str, Callable[[], Callable[[], object]]] = {
    "first page": lambda: page(questions(), BY_DEADLINE),
    "middle page": lambda: page(questions(), BY_DEADLINE, False, 0, (SOON, MIDDLE)),
    "middle page, back": lambda: page(questions(), BY_DEADLINE, True, 0, (SOON, MIDDLE)),
    "middle page of those without a deadline": lambda: page(questions(), BY_DEADLINE, False, 1, (MIDDLE,)),
    "of an assignee": lambda: page(questions(assignee="ann"), BY_DEADLINE),
    "of a group": lambda: page(questions(group="desk"), BY_DEADLINE, False, 0, (SOON, MIDDLE)),
    "of a correlation id": lambda: page(questions(correlation_id="order-77"), BY_DEADLINE),
    "items of a unit": lambda: page(items(), BY_INDEX),
    "items of a unit, middle page": lambda: page(items(), BY_INDEX, False, 0, (5_000,)),
    "items of a unit, middle page, back": lambda: page(items(), BY_INDEX, True, 0, (5_000,)),
    "pending items of a unit": lambda: page(
        items(has_status(InteractionStatus.PENDING), Q(queued=False)), BY_INDEX, False, 0, (50,)
    ),
    "units": lambda: page(units(), NEWEST),
    "units, middle": lambda: page(units(), NEWEST, False, 0, (MIDDLE,)),
    "another tenant's units": lambda: page(units(workspace=OTHER), NEWEST),
    "units of an instance": lambda: page(units(instance_id=MIDDLE), NEWEST),
    "open units of items": lambda: page(units(has_status(UnitStatus.OPEN), items=True), NEWEST),
    "instances": lambda: page(instances(), NEWEST),
    "instances, middle": lambda: page(instances(), NEWEST, False, 0, (MIDDLE,)),
    "instances by key": lambda: page(instances(has_key("key7")), NEWEST),
    "instances that failed": lambda: page(instances(has_status(Status.FAILED)), NEWEST),
    "another tenant's instances": lambda: page(instances(workspace=OTHER), NEWEST),
    "another tenant's questions": lambda: page(Interaction.objects.filter(is_within(OTHER)), BY_DEADLINE),
    "questions of any status": lambda: page(
        Interaction.objects.filter(is_within(1)), BY_DEADLINE, False, 0, (SOON, MIDDLE)
    ),
    "a long history, beginning": lambda: history(),
    "a long history, middle page": lambda: history(15_000),
    "a long history, middle page, back": lambda: history(15_000, back=True),
    "old answers": lambda: lambda: prune_answers(db()),
    "by id": lambda: lambda: find_interaction(db(), "id", MIDDLE, workspace="default"),
    "by signal id": lambda: lambda: find_interaction(db(), "signal_id", "gate-7", workspace="default"),
}
#: In one of the plans of the call.
INDEXES = {
    "first page": "holdpoint_interaction_inbox",
    "middle page": "holdpoint_interaction_inbox",
    "middle page, back": "holdpoint_interaction_inbox",
    "middle page of those without a deadline": "holdpoint_interaction_inbox",
    "of an assignee": "holdpoint_interaction_assignee",
    "of a group": "holdpoint_interaction_group",
    "of a correlation id": "holdpoint_interaction_related",
    "items of a unit": "holdpoint_interaction_item",
    "items of a unit, middle page": "holdpoint_interaction_item",
    "items of a unit, middle page, back": "holdpoint_interaction_item",
    "pending items of a unit": "holdpoint_interaction_item",
    "units": "holdpoint_unit_pkey",
    "units, middle": "holdpoint_unit_pkey",
    "another tenant's units": "holdpoint_unit_tenant",
    "units of an instance": "holdpoint_unit_instance",
    "open units of items": "holdpoint_unit_open",
    "instances": "holdpoint_instance_pkey",
    "instances, middle": "holdpoint_instance_pkey",
    "instances by key": "holdpoint_past_key",
    "instances that failed": "holdpoint_failed",
    "another tenant's instances": "holdpoint_tenant",
    "another tenant's questions": "holdpoint_interaction_list",
    "questions of any status": "holdpoint_interaction_list",
    "a long history, beginning": "holdpoint_ledger_instance",
    "a long history, middle page": "holdpoint_ledger_long",
    "a long history, middle page, back": "holdpoint_ledger_long",
    "old answers": "holdpoint_answer_age",
    "by id": "holdpoint_interaction_pkey",
    "by signal id": "holdpoint_interaction_signal",
}


@pytest.fixture(scope="module")
def plans(django_db_setup: None, django_db_blocker: Any) -> dict[tuple[str, str], list[str]]:
    """(call, mode) -> the plans of its statements. Filled once, in one transaction that is rolled back."""
    found: dict[tuple[str, str], list[str]] = {}
    with django_db_blocker.unblock(), transaction.atomic():
        fill_tables()
        for name, prepare in {**CALLS, **SCANNED}.items():
            call = prepare()
            heard = [one for one in listen(call) if re.search("holdpoint_[ialu]", one[0])]
            for mode in MODES:
                found[name, mode] = [explain(mode, *one) for one in heard]
        transaction.set_rollback(True)
    return found


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("call", CALLS)
def test_each_page_and_look_up_goes_by_its_index(plans: Any, call: str, mode: str) -> None:
    told = "\n\n".join(plans[call, mode])
    assert INDEXES[call] in told, told
    assert not re.search(r"Seq Scan on holdpoint_(instance|interaction|unit|answer|ledger)\b", told), told


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("call", [name for name in CALLS if "page" in name])
def test_no_page_is_sorted(plans: Any, call: str, mode: str) -> None:
    for plan in plans[call, mode]:
        assert "Sort" not in plan, plan
        if "middle" in call:
            assert re.search(r"Index Cond: .*(ROW\(|deadline|(id|seq|index) [<>])", plan), plan


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("call", SCANNED)
def test_what_no_index_knows_is_looked_through_once_per_part_of_the_list(plans: Any, call: str, mode: str) -> None:
    """Known and told in docs/api.md; whoever gives one of these an index moves it up."""
    parts = len(BY_DEADLINE) if "questions" in call else len(NEWEST)
    assert len(plans[call, mode]) == parts
    for plan in plans[call, mode]:
        assert re.search(r"Filter: .*(workflow|step|channel|status) = ", plan), plan
