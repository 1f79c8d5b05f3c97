"""What pages of /v1/approvals cost beside 50,000 others: index look-ups, wherever the page lies."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from django.contrib.auth.models import Group, User
from django.db import transaction
from django.db.models import Q

from approvals.models import Review
from approvals.rest.review_list import BY_DECISION, BY_DUE, NEWEST, is_asked
from approvals.rest.review_rows import read_rows
from tests.support.database import db
from tests.support.rest_pages import MIDDLE, MODES, OTHER, page
from tests.support.statements import explain, listen
from workflows.models import Workspace
from workflows.rest.base.lists import OrderPlace, find_page

pytestmark = [pytest.mark.django_db, pytest.mark.slow]

ASKED = 50_000
TABLES = (
    "holdpoint_instance, holdpoint_unit, holdpoint_interaction, holdpoint_review, holdpoint_candidate, holdpoint_vote"
)
NOW = datetime(2030, 1, 1, tzinfo=UTC)
SOON = NOW + timedelta(hours=250)


def fill_tables() -> None:
    """Half is due some time, one in five is decided; one in a thousand asks Ann, about as many the desk, all of them
    the crowd; and Ann asked for, and decided, one in a thousand."""
    ann, ben = (User.objects.create_user(name) for name in ("plan-ann", "plan-ben"))
    desk, crowd = (Group.objects.create(name=name) for name in ("plan-desk", "plan-crowd"))
    ann.groups.add(desk)
    rows = f"generate_series(1, {ASKED}) n, holdpoint_workspace w WHERE w.slug = 'default'"
    is_open = "mod(n, 5) <> 0"
    due = "CASE WHEN mod(n, 2) = 0 THEN timestamptz '2030-01-01' + mod(n, 500) * interval '1 h' END"
    with db().cursor() as cursor:
        cursor.execute("ALTER TABLE holdpoint_interaction DISABLE TRIGGER USER")
        cursor.execute(f"""
            INSERT INTO holdpoint_instance (id, created_at, workspace_id, fence, seq, inbox, pending, version, status,
              attempt, runs, spawns, timed_out, solo, workflow, step, started_by, names, input)
            SELECT md5(n::text)::uuid, now(), w.id, 1, 3, 0, 0, 1, 3, 0, 0, 0, false, false, 'Planned' || mod(n, 3),
              'end', '', ARRAY['go'], '{{}}' FROM {rows}
        """)
        cursor.execute(f"""
            INSERT INTO holdpoint_unit (id, instance_id, created_at, workspace_id, visit, total, remaining, failed,
              status, cardinality, step)
            SELECT md5('u' || n)::uuid, md5(n::text)::uuid, now(), w.id, 1, 1, 1, 0, 1, 1, 'gate' FROM {rows}
        """)
        cursor.execute(f"""
            INSERT INTO holdpoint_interaction (id, unit_id, instance_id, created_at, workspace_id, index, version,
              status, owned, channel, signal_id, actor, closed_at)
            SELECT md5('i' || n)::uuid, md5('u' || n)::uuid, md5(n::text)::uuid, now(), w.id, 0, 1,
              CASE WHEN {is_open} THEN 1 ELSE 2 END, true, 'approval', 'gate-' || n, '',
              CASE WHEN NOT ({is_open}) THEN now() END FROM {rows}
        """)
        cursor.execute(f"""
            INSERT INTO holdpoint_review (id, instance_id, created_at, due_at, decided_at, workspace_id, requester_id,
              decided_by_id, version, rung, open, four_eyes, risk, title, why, workflow, step, subject_model,
              subject_pk, subject_using, subject_label, digest, outcome, on_decision, calendar, outcomes, quorum)
            SELECT md5('i' || n)::uuid, md5(n::text)::uuid, now(), {due},
              CASE WHEN NOT ({is_open}) THEN timestamptz '2030-01-01' + mod(n, 501) * interval '1 h' END,
              w.id, CASE WHEN mod(n, 1000) = 1 THEN {ann.pk} ELSE {ben.pk} END,
              CASE WHEN NOT ({is_open}) THEN {ben.pk} END, 1, 0, {is_open}, true, 'low', 'Pay', '',
              'Planned' || mod(n, 3), 'gate', 'shop.order', mod(n, 5000)::text, '', 'Order', '',
              CASE WHEN {is_open} THEN '' ELSE 'approve' END, '', '', '[]',
              '{{"rule": {{}}, "groups": {{}}}}' FROM {rows}
        """)
        for principal, which in (
            (f"user:{ann.pk}", "mod(n, 1000) = 2"),
            (f"group:{desk.pk}", "mod(n, 1000) = 3"),
            (f"group:{crowd.pk}", "true"),
        ):
            cursor.execute(f"""
                INSERT INTO holdpoint_candidate (review_id, due_at, workspace_id, open, principal, instead_of, added_by)
                SELECT md5('i' || n)::uuid, {due}, w.id, {is_open}, '{principal}', '', '' FROM {rows} AND {which}
            """)
        cursor.execute(f"""
            INSERT INTO holdpoint_vote (id, review_id, instance_id, at, user_id, standing, automated, override, step,
              outcome, reason, actor, door, digest, groups)
            SELECT md5('v' || n)::uuid, md5('i' || n)::uuid, md5(n::text)::uuid, now(),
              CASE WHEN mod(n, 1000) = 5 THEN {ann.pk} ELSE {ben.pk} END, true, false, false, 'gate', 'approve', '', '',
              'api', '', '{{}}' FROM {rows} AND NOT ({is_open})
        """)
        cursor.execute(f"ANALYZE {TABLES}, auth_user, auth_group")
        cursor.execute("ALTER TABLE holdpoint_interaction ENABLE TRIGGER USER")


def reviews(status: str = "any", *filters: Any, workspace: int | None = None) -> Any:
    here = workspace or Workspace.objects.get(slug="default").pk
    return read_rows(Review.objects.with_status(status).filter(*filters, workspace_id=here))


def ann() -> User:
    found: User = User.objects.get(username="plan-ann")
    return found


def mine(**options: Any) -> Any:
    return read_rows(Review.objects.for_user(ann(), **options))


def visible(status: str) -> Any:
    return read_rows(Review.objects.visible_to(ann()).with_status(status))


def look_through(status: str, segments: Any, *place: Any, **wanted: Any) -> Callable[[], object]:
    """A page of what somebody may see who is asked for little of it."""
    here = Review.objects.filter(workspace_id=Workspace.objects.get(slug="default").pk, **wanted)
    where = OrderPlace(*place) if place else None
    return lambda: find_page(visible(status), segments, where, 50, str, here)


def asked(principal: str) -> Any:
    return is_asked(Review.objects.all(), principal, Workspace.objects.get(slug="default").pk, is_open=True)


CALLS: dict[str, Callable[[], Callable[[], object]]] = {
    "what I may decide": lambda: page(mine(), BY_DUE),
    "what I may decide, middle": lambda: page(mine(), BY_DUE, False, 0, (SOON, MIDDLE)),
    "what I may decide, middle, back": lambda: page(mine(), BY_DUE, True, 0, (SOON, MIDDLE)),
    "open": lambda: page(reviews("open"), BY_DUE),
    "open, middle": lambda: page(reviews("open"), BY_DUE, False, 0, (SOON, MIDDLE)),
    "open, middle, back": lambda: page(reviews("open"), BY_DUE, True, 0, (SOON, MIDDLE)),
    "open, middle of those never due": lambda: page(reviews("open"), BY_DUE, False, 1, (MIDDLE,)),
    "decided": lambda: page(reviews("decided"), BY_DECISION),
    "decided, middle": lambda: page(reviews("decided"), BY_DECISION, False, 0, (SOON, MIDDLE)),
    "another tenant's": lambda: page(reviews("open", workspace=OTHER), BY_DUE),
    "another tenant's, decided": lambda: page(reviews("decided", workspace=OTHER), BY_DECISION),
    "asked for by somebody": lambda: page(reviews("any", Q(requester_id=ann().pk)), NEWEST),
    "about a row": lambda: page(reviews("any", Q(subject_model="shop.order", subject_pk="7")), NEWEST),
    "of an assignee": lambda: page(reviews("open", asked(f"user:{ann().pk}")), BY_DUE),
    "seen, open": lambda: look_through("open", BY_DUE, open=True),
    "seen, open, middle": lambda: look_through("open", BY_DUE, False, 0, (SOON, MIDDLE), open=True),
    "seen, open, middle, back": lambda: look_through("open", BY_DUE, True, 0, (SOON, MIDDLE), open=True),
    "seen, decided": lambda: look_through("decided", BY_DECISION),
    "seen, closed": lambda: look_through("closed", NEWEST),
    "seen, any": lambda: look_through("any", NEWEST, False, 0, (MIDDLE,)),
}
#: In one of the plans of the call.
INDEXES = {
    **dict.fromkeys([name for name in CALLS if name.startswith("what I")], "holdpoint_candidate_open"),
    **dict.fromkeys([name for name in CALLS if name.startswith("open")], "holdpoint_review_open"),
    **dict.fromkeys([name for name in CALLS if "decided" in name], "holdpoint_review_decided"),
    "another tenant's": "holdpoint_review_open",
    "asked for by somebody": "holdpoint_review_requester",
    "about a row": "holdpoint_review_subject",
    "of an assignee": "holdpoint_candidate_open",
    **dict.fromkeys([name for name in CALLS if name.startswith("seen, open")], "holdpoint_review_open"),
    "seen, decided": "holdpoint_review_decided",
    **dict.fromkeys(["seen, closed", "seen, any"], "holdpoint_review_list"),
}


#: How rare it is what they look for decides their plan, so a kept one would cost more, and PostgreSQL makes none.
RARE = ("about a row", "of an assignee")
EACH = [(call, mode) for call in CALLS for mode in MODES if not (call in RARE and "generic" in mode)]


@pytest.fixture(scope="module")
def plans(django_db_setup: None, django_db_blocker: Any) -> dict[tuple[str, str], list[str]]:
    """(call, mode) -> the plans of its statements. Filled once, in one transaction that is rolled back."""
    found: dict[tuple[str, str], list[str]] = {}
    with django_db_blocker.unblock(), transaction.atomic():
        fill_tables()
        for name, prepare in CALLS.items():
            call = prepare()
            heard = [one for one in listen(call) if '"holdpoint_review"' in one[0]]
            assert heard
            for mode in MODES:
                found[name, mode] = [explain(mode, *one) for one in heard]
        transaction.set_rollback(True)
    return found


@pytest.mark.parametrize(("call", "mode"), EACH)
def test_each_page_goes_by_its_index(plans: Any, call: str, mode: str) -> None:
    told = "\n\n".join(plans[call, mode])
    assert INDEXES[call] in told, told
    assert not re.search(r"Seq Scan on holdpoint_(review|candidate|interaction|instance)\b", told), told


@pytest.mark.parametrize(("call", "mode"), [one for one in EACH if one[0].startswith("seen")])
def test_what_somebody_may_see_is_looked_for_between_two_places_of_an_index(plans: Any, call: str, mode: str) -> None:
    """However few of many it is: between where the last page stopped and two thousand further on."""
    looks = [plan for plan in plans[call, mode] if "holdpoint_candidate" in plan]
    assert looks
    for plan in looks:
        assert re.search(r"Index Cond: .*(<=|>=) ", plan), plan


@pytest.mark.parametrize(("call", "mode"), [one for one in EACH if one[0] != "of an assignee"])
def test_no_page_is_sorted(plans: Any, call: str, mode: str) -> None:
    for plan in plans[call, mode]:
        assert not re.search(r"-> +(Incremental )?Sort\b|^(Incremental )?Sort\b", plan), plan
        if "middle" in call:
            assert re.search(r"Index Cond: .*(ROW\(|due_at|decided_at|id [<>])", plan), plan
