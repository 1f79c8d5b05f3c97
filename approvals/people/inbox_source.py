"""The table that somebody's reviews are read from: candidates' rows in the order of the list, merged.

A person is asked under several names (themselves, groups, permissions, rules), and under each in several workspaces.
For one name in one workspace an index gives the reviews in the order in which they are due. Here these streams are
merged like sorted piles, and the result stands in `FROM` in place of `holdpoint_review`: filters, orders, pages and
counts of a queryset work on it as on the table. Lives here: that merge. Must not live here: whose names are read.

Invariants owned: a page costs what it shows, however many rows wait before, behind or beside it, whichever way it is
read; a review that is reached under two names is there once.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from django import VERSION
from django.apps import apps
from django.db import connections
from django.db.models import F, QuerySet
from django.db.models.expressions import Col, RawSQL
from django.db.models.sql import Query
from django.db.models.sql.datastructures import BaseTable
from django.db.models.sql.where import NothingNode, WhereNode
from psycopg.sql import Literal

from workflows import store

#: More rows than there are. A bound, however large, is what makes PostgreSQL plan for the first rows: without one it
#: sorts a stream as a whole where that is cheaper for all of them, and a page of 50 costs a million.
EVERYTHING = 1_000_000_000

#: The names under which something waits, and what people have handed on of what asks a group. LIMIT keeps the first
#: part from being planned as one join, which would read the table.
_LOOK = """
    SELECT p.principal, p.workspace, NULL::uuid FROM unnest(%(principals)s::text[], %(workspaces)s::bigint[])
      AS p(principal, workspace)
    CROSS JOIN LATERAL (
      SELECT 1 FROM holdpoint_candidate c
      WHERE c.principal = p.principal AND c.workspace_id = p.workspace AND c.open LIMIT 1
    ) found
    UNION ALL
    SELECT added_by, NULL, review_id FROM holdpoint_candidate
    WHERE open AND instead_of <> '' AND added_by = ANY(%(names)s::text[])
"""

#: Names stand in the statement itself: a plan that is kept for whatever name is one for few rows.
_STREAM = "SELECT due_at, review_id FROM holdpoint_candidate c WHERE principal = {} AND workspace_id = {} AND open"


@dataclass(frozen=True, slots=True)
class InboxSource:
    """The open reviews that ask one principal in one workspace; `where` is SQL about the candidate's row `c`."""

    principal: str
    workspace: int
    where: str = ""
    params: tuple[Any, ...] = ()


def look_around(
    alias: str, pairs: Iterable[tuple[str, int]], names: Iterable[str]
) -> tuple[set[tuple[str, int]], dict[str, list[UUID]]]:
    """Those of the (principal, workspace) pairs that anything waits for; and the reviews of which the people of these
    names have given their share to somebody."""
    wanted = list(dict.fromkeys(pairs))
    asked: set[tuple[str, int]] = set()
    handed_on: dict[str, list[UUID]] = {}
    if not wanted:
        return asked, handed_on
    params = {
        "principals": [one for one, _ in wanted],
        "workspaces": [one for _, one in wanted],
        "names": list(names),
    }
    for name, workspace, review in store.fetch(connections[alias], _LOOK, params):
        if review is None:
            asked.add((name, workspace))
        else:
            handed_on.setdefault(name, []).append(review)
    return asked, handed_on


def read_streams(rows: QuerySet[Any], streams: Sequence[InboxSource]) -> Any:
    """The same queryset, of these streams' reviews only."""
    if not streams:
        return rows.none()
    found = leave_streams(rows).all()
    alias = found.query.get_initial_alias()
    found.query.alias_map[alias] = Merged(found.query.alias_map[alias].table_name, alias, tuple(streams))
    return push_down(found)


def leave_streams(rows: Any) -> Any:
    """The same queryset of the table itself, for what Django does only there: combining queries, grouping by row."""
    merged = _find_merged(rows.query)
    if merged is None:
        return rows
    table, alias = merged.table_name, merged.table_alias
    ids: QuerySet[Any] = QuerySet(rows.model, using=rows.db)
    ids.query.alias_map[ids.query.get_initial_alias()] = Merged(table, table, merged.streams, merged.bounds)
    found = rows.all()
    found.query.alias_map[alias] = BaseTable(table, alias)
    return found.filter(pk__in=ids.order_by().values("pk"))


def push_down(rows: Any) -> Any:
    """What a queryset asks of nothing but the order's columns is asked within each stream: where it begins and ends.

    PostgreSQL does not move conditions into what is bounded. For querysets that nobody else has yet.
    """
    merged, where = _find_merged(rows.query), rows.query.where
    if merged is None or where.connector != "AND" or where.negated:
        return rows
    theirs = _map_columns(merged.table_alias)
    moved = [one for one in where.children if (found := _list_columns(one)) and all(c in theirs for c in found)]
    if moved:
        where.children = [one for one in where.children if one not in moved]
        bounds = (*merged.bounds, *(one.replace_expressions(theirs) for one in moved))
        narrowed = Merged(merged.table_name, merged.table_alias, merged.streams, bounds)
        rows.query.alias_map[merged.table_alias] = narrowed
    return rows


class Merged(BaseTable):
    """`holdpoint_review`, as some streams give it."""

    table_alias: str

    def __init__(
        self, table_name: str, alias: str, streams: tuple[InboxSource, ...] = (), bounds: tuple[Any, ...] = ()
    ) -> None:
        super().__init__(table_name, alias)
        self.streams, self.bounds = streams, bounds

    def relabeled_clone(self, change_map: dict[Any, str]) -> Merged:
        """Django's: the same under another alias."""
        alias = change_map.get(self.table_alias, self.table_alias)
        return type(self)(self.table_name, alias, self.streams, self.bounds)

    @property
    def identity(self) -> tuple[Any, ...]:
        """Django's: by what it is told from others."""
        return (*super().identity, self.streams, self.bounds)

    def as_sql(self, compiler: Any, connection: Any) -> tuple[str, Any]:
        """Django's: what stands in FROM."""
        quote = connection.ops.quote_name
        way = "DESC" if _reads_backwards(compiler.query) else "ASC"
        order = f"ORDER BY due_at {way}, review_id {way} LIMIT {EVERYTHING}"
        bounds = [compiler.compile(one) for one in self.bounds]
        end = "".join(f" AND ({sql})" for sql, _ in bounds) + f" {order}"
        shared = [one for _, params in bounds for one in params]
        parts: list[str] = []
        params: list[Any] = []
        for stream in self.streams:
            name = Literal(stream.principal).as_string(None).replace("%", "%%")
            parts.append(f"({_STREAM.format(name, int(stream.workspace))}{stream.where}{end})")
            params += [*stream.params, *shared]
        merged = parts[0]
        if len(parts) > 1:
            merged = f"(SELECT DISTINCT due_at, review_id FROM ({' UNION ALL '.join(parts)}) u {order})"
        # These two are the stream's own, because it is in their order.
        fields = apps.get_model("holdpoint_approvals", "Review")._meta.concrete_fields
        # Newer than 6.0, Django quotes every alias; before, none that it made itself.
        name_of = compiler.quote_name if VERSION >= (6, 1) else compiler.quote_name_unless_alias
        alias = name_of(self.table_alias)
        columns = ", ".join(f"r.{quote(one.column)}" for one in fields if one.column not in ("id", "due_at"))
        return (
            f"(SELECT s.review_id AS id, s.due_at, {columns} FROM {merged} s "
            f"JOIN {quote(self.table_name)} r ON r.id = s.review_id) {alias}"
        ), params


def _find_merged(query: Query) -> Merged | None:
    return next((one for one in query.alias_map.values() if isinstance(one, Merged)), None)


def _map_columns(alias: str) -> dict[Any, Any]:
    """The columns of the list's order -> the same in the row of a candidate."""
    review, candidate = (apps.get_model("holdpoint_approvals", name)._meta for name in ("Review", "Candidate"))
    key, theirs = review.get_field("interaction"), candidate.get_field("review")
    return {
        review.get_field("due_at").get_col(alias): candidate.get_field("due_at").get_col("c"),
        key.get_col(alias): theirs.get_col("c"),
        key.get_col(alias, key): theirs.get_col("c", theirs),  # as relations are compared
    }


def _list_columns(condition: Any) -> list[Any]:
    """The columns in a condition; with None where it is about more than columns and values."""
    if isinstance(condition, Col):
        return [condition]
    if isinstance(condition, RawSQL | NothingNode | F) or hasattr(condition, "query"):
        return [None]
    if condition.contains_aggregate or condition.contains_over_clause:
        return [None]
    parts = condition.children if isinstance(condition, WhereNode) else condition.get_source_expressions()
    return [column for part in parts if part is not None for column in _list_columns(part)]


def _reads_backwards(query: Query) -> bool:
    """Whether the list's end is wanted first."""
    first: Any = next(iter(query.order_by), None)
    descending = first.startswith("-") if isinstance(first, str) else getattr(first, "descending", False)
    return bool(descending == query.standard_ordering)
