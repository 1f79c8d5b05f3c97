"""Migrations since the latest release: whether a site with many rows can go on while they run."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest
from django.db import connection
from django.db.migrations.loader import MigrationLoader

from tests.support.released import LAST

#: The table of a statement that changes an existing one.
CHANGED = re.compile(r'(?i)^(?:ALTER TABLE|CREATE (?:OR REPLACE )?TRIGGER .*? ON)(?: ONLY)? "?(\w+)"?')
BRIEFLY = re.compile(r"(?i)^SET LOCAL lock_timeout = [1-9]\d{0,2}$")
TAKEN = re.compile(r"(?i)^LOCK TABLE (\w+) IN ACCESS EXCLUSIVE MODE$")


def find_blocking(statements: list[str], created: set[str]) -> Iterator[str]:
    """Sentences about statements that keep writers out while they read a table or wait for somebody."""
    briefly, taken = False, set[str]()
    for sql in _split("\n".join(statements)):
        if made := re.match(r'(?i)CREATE TABLE "?(\w+)"?', sql):
            created.add(made[1])
        briefly = briefly or bool(BRIEFLY.match(sql))
        if locked := TAKEN.match(sql):
            taken.add(locked[1])
            if not briefly:
                yield f"waits for a lock as long as it takes: {sql}"
        yield from (f"{problem}: {sql}" for problem in _judge(sql, created, taken))


def _split(text: str) -> Iterator[str]:
    """One statement after the other, on one line, without comments and bodies of functions."""
    text = re.sub(r"(?s)\$\$.*?\$\$", "''", re.sub(r"(?m)^--.*$", "", text))
    yield from (" ".join(one.split()) for one in text.split(";") if one.strip())


def _judge(sql: str, created: set[str], taken: set[str]) -> Iterator[str]:
    if index := re.match(r'(?i)CREATE (?:UNIQUE )?INDEX (CONCURRENTLY )?.*? ON "?(\w+)"?', sql):
        if index[2] not in created and not index[1]:
            yield "builds an index while nobody may write"
        return
    if re.match(r"(?i)DROP INDEX(?! CONCURRENTLY)|REINDEX(?!.* CONCURRENTLY)|CLUSTER|VACUUM FULL|TRUNCATE", sql):
        yield "takes a table for itself"
        return
    if (written := re.match(r'(?i)(?:UPDATE|DELETE FROM|INSERT INTO) "?(\w+)"?', sql)) and written[1] not in created:
        yield "writes rows within a migration"
        return
    changed = CHANGED.match(sql)
    if changed is None or changed[1] in created:
        return
    if "VALIDATE CONSTRAINT" in sql:
        return
    if changed[1] not in taken:
        yield "waits for a lock as long as it takes"
    if re.search(r"(?i)\bADD CONSTRAINT\b", sql) and not re.search(r"(?i)\b(NOT VALID|USING INDEX)$", sql):
        yield "reads all rows for a constraint"
    if re.search(r"(?i)\bTYPE\b|\bSET NOT NULL\b|\bSET (?:UN)?LOGGED\b|\bSET TABLESPACE\b", sql):
        yield "reads or writes all rows"
    if re.search(r"(?i)\b(RENAME|DROP COLUMN)\b", sql):
        yield "takes from the earlier release what it uses"
    if column := re.search(r"(?i)\bADD COLUMN (.*)", sql):
        yield from _judge_column(column[1])


def _judge_column(column: str) -> Iterator[str]:
    default = re.search(r"(?i)\bDEFAULT (\S+)", column)
    if re.search(r"(?i)\bNOT NULL\b", column) and default is None:
        yield "asks for a value that the earlier release does not give"
    if default is not None and "(" in default[1]:
        yield "computes a default for each row"
    if re.search(r"(?i)\b(UNIQUE|PRIMARY KEY|REFERENCES|GENERATED|SERIAL|BIGSERIAL)\b", column):
        yield "reads or writes all rows"


@pytest.mark.django_db(transaction=True)
def test_no_migration_since_the_release_keeps_writers_waiting() -> None:
    loader = MigrationLoader(connection, replace_migrations=False)
    created: set[str] = set()
    problems = []
    for app, last in LAST.items():
        released = set(loader.graph.forwards_plan((app, last)))
        for leaf in loader.graph.leaf_nodes(app):
            for node in loader.graph.forwards_plan(leaf):
                if node[0] == app and node not in released:
                    statements = loader.collect_sql([(loader.graph.nodes[node], False)])
                    problems += [f"{node[1]} {problem}" for problem in find_blocking(statements, created)]
    assert problems == []
    assert created, "nothing was looked at"


@pytest.mark.parametrize(
    ("statements", "problem"),
    [
        (["CREATE INDEX a ON holdpoint_instance (due_at);"], "builds an index"),
        (['CREATE UNIQUE INDEX "a" ON "holdpoint_instance" ("key") WHERE x;'], "builds an index"),
        (["DROP INDEX IF EXISTS a;"], "takes a table"),
        (["ALTER TABLE holdpoint_instance ADD COLUMN a integer NULL;"], "waits for a lock"),
        (["LOCK TABLE holdpoint_instance IN ACCESS EXCLUSIVE MODE;"], "waits for a lock"),
        (["CREATE TRIGGER a BEFORE UPDATE ON holdpoint_instance EXECUTE FUNCTION b();"], "waits for a lock"),
        (
            ["CREATE FUNCTION b() AS $$ BEGIN; END $$; CREATE TRIGGER a AFTER UPDATE ON c FOR EACH ROW;"],
            "waits for a lock",
        ),
        (["UPDATE holdpoint_instance SET a = 1;"], "writes rows"),
    ],
)
def test_a_statement_that_keeps_writers_waiting_is_found(statements: list[str], problem: str) -> None:
    [found] = find_blocking(statements, set())
    assert found.startswith(problem)


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ("ADD CONSTRAINT a CHECK (b > 0)", "reads all rows for a constraint"),
        ("ADD CONSTRAINT a FOREIGN KEY (b) REFERENCES c (id) DEFERRABLE", "reads all rows for a constraint"),
        ("ALTER COLUMN a TYPE bigint", "reads or writes all rows"),
        ("ALTER COLUMN a SET NOT NULL", "reads or writes all rows"),
        ("ADD COLUMN a integer NOT NULL", "asks for a value"),
        ("ADD COLUMN a uuid DEFAULT gen_random_uuid() NOT NULL", "computes a default"),
        ("ADD COLUMN a integer NULL UNIQUE", "reads or writes all rows"),
        ("DROP COLUMN a", "takes from the earlier release"),
        ("RENAME COLUMN a TO b", "takes from the earlier release"),
    ],
)
def test_a_change_that_takes_long_is_found_under_a_lock_that_was_got_briefly(change: str, problem: str) -> None:
    lock = ["SET LOCAL lock_timeout = 500;", "LOCK TABLE holdpoint_instance IN ACCESS EXCLUSIVE MODE;"]
    [found] = find_blocking([*lock, f"ALTER TABLE holdpoint_instance {change};"], set())
    assert found.startswith(problem)


def test_a_new_table_may_be_changed_as_one_likes() -> None:
    new = ["CREATE TABLE a (b integer);", "CREATE INDEX c ON a (b);", "ALTER TABLE a ADD CONSTRAINT d CHECK (b > 0);"]
    assert list(find_blocking(new, set())) == []
