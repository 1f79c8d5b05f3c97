"""An inbox of tens of thousands of reviews, for tests of what its queries read.

Lives here: filling the tables, people whose share differs, and the plan of a query. What must not: bounds.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import Any

import psycopg
from django.contrib.auth.models import Group, Permission, User
from django.contrib.contenttypes.models import ContentType
from django.db import connection, transaction

from workflows.models import Workspace

TABLES = "holdpoint_review, holdpoint_candidate, holdpoint_vote, holdpoint_snooze"
#: Where PostgreSQL takes a list for so short that it is as quick to read it as a whole.
MOST_ROWS_OF_A_BADGE = 50_000
PEOPLE = {
    "all": "may decide nearly all of it, as a member of one group",
    "five": "is asked five times",
    "none": "is asked nothing",
    "names": "has 300 permissions, ten of which are asked",
    "worst": "has 300 permissions, each of which is asked",
    "late": "is asked a thousandth, all of which is due after everything else",
    "both": "is in the group, and a member of two workspaces",
    "root": "has every permission there is, 310 of which are asked, in two workspaces",
    "away": "stands in for who may decide nearly all",
}


def fill(pending: int) -> None:
    """So many reviews in the first workspace and a third as many in the second; half of them are due some time."""
    first = Workspace.objects.get(slug="default")
    second, _ = Workspace.objects.get_or_create(slug="second", defaults={"name": "Second"})
    finance, _ = Group.objects.get_or_create(name="finance")
    people = {name: User.objects.get_or_create(username=name, is_superuser=name == "root")[0] for name in PEOPLE}
    kind = ContentType.objects.get_for_model(User)
    held = [f"{name}.{n}" for name in ("names", "worst") for n in range(300)]
    Permission.objects.bulk_create(
        [Permission(content_type=kind, codename=one, name=one) for one in held], ignore_conflicts=True
    )
    for name in ("names", "worst"):
        people[name].user_permissions.set(Permission.objects.filter(codename__startswith=f"{name}."))
    for name in ("all", "both"):
        people[name].groups.set([finance])
    first.members.set(people.values())
    second.members.set([people["both"], people["root"]])
    people["away"].holdpoint_substitutions.all().delete()
    people["away"].holdpoint_substitutions.create(user=people["all"], since="2020-01-01T00:00Z")
    with connection.cursor() as cursor:
        cursor.execute(f"TRUNCATE {TABLES}")
        cursor.execute(f"""
            INSERT INTO holdpoint_review (id, instance_id, created_at, due_at, workspace_id, requester_id, version,
              rung, open, four_eyes, risk, title, why, workflow, step, subject_model, subject_pk, subject_using,
              subject_label, digest, outcome, on_decision, calendar, outcomes, quorum)
            SELECT md5('r' || n)::uuid, md5('i' || n)::uuid, now(),
              CASE WHEN n % 2 = 0 THEN timestamptz '2030-01-01' + n * 997 % {pending} * interval '1 min' END,
              CASE WHEN n <= {pending} THEN {first.pk} ELSE {second.pk} END, 1000000 + n % 1000, 1, 0, true, true,
              'low', 'Refund number ' || n, '', 'refund' || n % 20, 'ask', 'shop.order', n::text, '', 'Order ' || n,
              repeat('0', 64), '', '', '', '[]', '{{"rule": 1, "groups": {{}}}}'
            FROM generate_series(1, {pending * 4 // 3}) n
        """)
        cursor.execute(f"""
            INSERT INTO holdpoint_candidate (review_id, due_at, workspace_id, open, principal, instead_of, added_by)
            SELECT r.id, r.due_at, r.workspace_id, true, c.principal, '', '' FROM holdpoint_review r
            CROSS JOIN LATERAL (SELECT r.subject_pk::int AS n) s
            CROSS JOIN LATERAL (
              SELECT 'group:{finance.pk}' AS principal WHERE n % 50 <> 0
              UNION ALL SELECT 'user:' || 1000000 + n % {pending // 5 + 1}
              UNION ALL SELECT 'permission:auth.worst.' || n / 3 % 300 WHERE n % 3 = 0
              UNION ALL SELECT 'permission:auth.names.' || n / 3 % 10 WHERE n % 3 = 1
              UNION ALL SELECT 'user:{people["five"].pk}' WHERE n <= {pending} AND n % {pending // 5} = 3
              UNION ALL SELECT 'user:{people["late"].pk}' WHERE n <= {pending} AND r.due_at IS NULL AND n % 1000 = 1
            ) c
        """)
        cursor.execute(f"""
            INSERT INTO holdpoint_vote (id, review_id, instance_id, at, user_id, standing, automated, override, step,
              outcome, reason, actor, door, digest, groups)
            SELECT gen_random_uuid(), id, instance_id, now(), CASE WHEN subject_pk::int % 100 = 0
              THEN {people["all"].pk} ELSE 1000000 + subject_pk::int % 997 END, true, false, false, 'ask', 'approve',
              '', '', 'page', '', '{{}}'
            FROM holdpoint_review WHERE subject_pk::int % 10 = 0
        """)


def explain(sql: str, params: Any, *, generic: bool) -> str:
    """What PostgreSQL did, with the values known when it planned, or without, as a kept statement ends up."""
    raw: Any = psycopg.ClientCursor(connection.connection)
    options = "EXPLAIN (ANALYZE, COSTS OFF, TIMING OFF, SUMMARY OFF, BUFFERS OFF)"
    names = re.findall(r"%\((\w+)\)s", sql) if isinstance(params, dict) else ()
    values = [params[one] for one in names] if isinstance(params, dict) else list(params or ())
    if isinstance(params, dict):
        sql = re.sub(r"%\(\w+\)s", "%s", sql)
    if not generic:
        raw.execute(f"{options} {sql}", values)
        return "\n".join(row[0] for row in raw.fetchall())
    # A type stands with what has none of its own without its value.
    numbered = iter(f"${n}{'::interval' if isinstance(one, timedelta) else ''}" for n, one in enumerate(values, 1))
    raw.execute("SET LOCAL plan_cache_mode = force_generic_plan")
    raw.execute("PREPARE planned AS " + re.sub("%s", lambda _: next(numbered), sql).replace("%%", "%"))
    given = f"({', '.join(['%s'] * len(values))})" if values else ""
    raw.execute(f"{options} EXECUTE planned{given}", values)
    plan = "\n".join(row[0] for row in raw.fetchall())
    raw.execute("DEALLOCATE planned")
    raw.execute("SET LOCAL plan_cache_mode = auto")
    return plan


@contextmanager
def filled(django_db_blocker: Any, pending: int) -> Iterator[None]:
    """For the length of a block, and nothing analyzed since; what a transaction brought goes with it."""
    with django_db_blocker.unblock(), transaction.atomic():
        fill(1_000)
        analyze()  # what the statistics tell is long past
        fill(pending)
        yield
        transaction.set_rollback(True)


def analyze(*others: str) -> None:
    """Let the statistics tell what is there, in these tables too."""
    with connection.cursor() as cursor:
        cursor.execute(f"ANALYZE {', '.join((TABLES, *others))}")
