"""Many answers at once: judged one by one as each would be alone, and written in batches.

Invariant owned: a line of a batch is told what a call of its own would be told. What cannot be written with the others
(another line or another caller came first, its time is over, it is no item) goes the way of a single answer.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from django.db import connections, router
from django.db.backends.base.base import BaseDatabaseWrapper

from workflows import store
from workflows.api.arguments import read_actor
from workflows.api.completions.completion import complete_at, read_line
from workflows.api.completions.completion_checks import AddressedAnswer, Completion, Ready, judge, write_completion
from workflows.conf import conf
from workflows.definitions.workspace import current_workspace
from workflows.exceptions import InvalidCall, UnknownWorkspace, WorkflowError, show
from workflows.models import Instance
from workflows.store import Ended, ItemAnswer
from workflows.store.items.item_ends import BATCH
from workflows.units.item_outcomes import follow_up


@dataclass(frozen=True, slots=True)
class CompletionResult:
    """What became of one answer of many: the completion, or the error that a call of its own would have raised."""

    completion: Completion | None = None
    error: WorkflowError | None = None

    @property
    def ok(self) -> bool:
        """Whether it was taken, now or by an equal call before."""
        return self.error is None


def complete_many(
    answers: Iterable[Any], *, workspace: str | None = None, actor: object = ""
) -> list[CompletionResult]:
    """Answer many pending interactions; a result for each, in their order.

    An answer is (target, data), and may go on with an idempotency key and a version, as `complete` takes them. Those of
    units of items are written together, a thousand in a statement.

    >>> [one.ok for one in complete_many([("pay.0-7", True), ("pay.1-7", False)])]
    [True, True]
    """
    scope: str | int = current_workspace(workspace)
    results: dict[int, CompletionResult] = {}
    lines: dict[str | int, dict[int, AddressedAnswer]] = {}
    for n, answer in enumerate(answers):
        if isinstance(answer, str | bytes) or not isinstance(answer, tuple | Sequence) or not 2 <= len(answer) <= 4:
            shape = "(target, data) or (target, data, idempotency_key, version)"
            raise InvalidCall(f"an answer is {shape}, not {show(answer)}")
        target, data, key, version = (*answer, None, None)[:4]
        try:
            within, line = read_line(target, data, key, version, scope, given=workspace)
        except WorkflowError as error:
            results[n] = CompletionResult(error=error)
        else:
            lines.setdefault(within, {})[n] = line
    for within in sorted(lines, key=str):
        batch = lines[within]
        done = complete_lines(list(batch.values()), workspace=within, door=None, actor=read_actor(actor))
        results.update(zip(batch, done, strict=True))
    return [results[n] for n in range(len(results))]


def complete_lines(
    lines: Sequence[AddressedAnswer],
    *,
    workspace: str | int,
    door: str | None,
    actor: str = "",
    workflows: Sequence[str] | None = None,
) -> list[CompletionResult]:
    """The same for a door of the outside: answers to questions of one workspace."""
    db = connections[router.db_for_write(Instance)]
    results: list[CompletionResult] = []
    for begin in range(0, len(lines), BATCH):
        batch = _AnswerBatch(db, lines[begin : begin + BATCH], workspace, door, actor, workflows)
        results += batch.complete()
    return results


class _AnswerBatch:
    """Lines that are found by two statements, and written by one."""

    def __init__(
        self,
        db: BaseDatabaseWrapper,
        lines: Sequence[AddressedAnswer],
        workspace: str | int,
        door: str | None,
        actor: str,
        workflows: Sequence[str] | None,
    ) -> None:
        self._db, self._lines, self._workspace = db, lines, workspace
        self._door, self._actor, self._workflows = door, actor, workflows
        self._results: dict[int, CompletionResult] = {}

    def complete(self) -> list[CompletionResult]:
        # The project's policy wants to see each row as it is: one after another.
        if conf.policy is None:
            self._write(self._judge())
        for n, line in enumerate(self._lines):
            if n not in self._results:
                self._results[n] = self._complete_alone(line)
        return [self._results[n] for n in range(len(self._lines))]

    def _judge(self) -> dict[UUID, tuple[int, Ready]]:
        """The items that can be answered together, each once; the first line of an item is the one."""
        ready: dict[UUID, tuple[int, Ready]] = {}
        targets, limit = self._find(), conf.max_body
        for n, line in enumerate(self._lines):
            target = targets.get(n)
            if target is None:
                self._results[n] = CompletionResult(error=UnknownWorkspace(self._workspace))
                continue
            question = target.question
            if question is not None and (not question.item or question.id in ready or question.late):
                continue
            try:
                line.measure(limit)
                one = judge(
                    self._db,
                    line,
                    target,
                    workspace=self._workspace,
                    door=self._door,
                    actor=line.actor or self._actor,
                    workflows=self._workflows,
                    policy=False,
                )
            except WorkflowError as error:
                self._results[n] = CompletionResult(error=error)
                continue
            if isinstance(one, Completion):
                self._results[n] = CompletionResult(one)
            else:
                ready[one.found.id] = (n, one)
        return ready

    def _find(self) -> dict[int, store.AnswerTarget]:
        found: dict[int, store.AnswerTarget] = {}
        for by in ("id", "signal_id"):
            lines = [(n, one.value, one.once) for n, one in enumerate(self._lines) if one.by == by]
            if lines:
                found |= store.find_interactions(
                    self._db, by, lines, workspace=self._workspace, workflows=self._workflows
                )
        return found

    def _write(self, ready: dict[UUID, tuple[int, Ready]]) -> None:
        if not ready:
            return
        ended = store.retrying(self._db, lambda: self._write_once(ready))
        for id in ended.how:
            n, one = ready[id]
            self._results[n] = CompletionResult(one.told)
        follow_up(self._db, ended)

    def _write_once(self, ready: dict[UUID, tuple[int, Ready]]) -> Ended:
        answers = [
            ItemAnswer(id, one.output, self._lines[n].version, self._lines[n].actor) for id, (n, one) in ready.items()
        ]
        keyed = any(self._lines[n].once is not None for n, _ in ready.values())
        has_lines = any(one.found.lines for _, one in ready.values())
        with store.atomic(self._db) if keyed else nullcontext():
            ended = store.complete_items(self._db, answers, actor=self._actor, door=self._door, lines=has_lines)
            kept = [
                (one.found.instance, once, write_completion(one.told))
                for id, (n, one) in ready.items()
                if (once := self._lines[n].once) is not None and id in ended.how
            ]
            if kept:
                workspace = next(one.found.workspace for _, one in ready.values())
                store.keep_item_answers(self._db, workspace, kept)
            return ended

    def _complete_alone(self, line: AddressedAnswer) -> CompletionResult:
        try:
            return CompletionResult(
                complete_at(
                    line.by,
                    line.value,
                    line.data,
                    workspace=self._workspace,
                    door=self._door,
                    actor=line.actor or self._actor,
                    once=line.once,
                    version=line.version,
                    workflows=self._workflows,
                    too_large=line.too_large,
                )
            )
        except WorkflowError as error:
            return CompletionResult(error=error)
