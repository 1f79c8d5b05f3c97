"""What a durable function may call on its `ctx`.

Lives here: the calls that save a result or a moment, and the class that has them all. Must not live here: waits, which
have modules of their own beside this one. Invariant owned: the writes of `ctx.atomic` and its checkpoint are one
transaction.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from datetime import datetime
from typing import Any, ParamSpec, TypeVar, overload

from workflows.definitions.awaited_kinds import Pause
from workflows.definitions.outcomes import Suspend
from workflows.engine.event_loop import refuse_coroutines
from workflows.lifecycle import Call
from workflows.styles.function.call_replay import check_function, read_saved, refuse_async
from workflows.styles.function.child_calls import ChildCalls
from workflows.styles.function.each_item import EachCalls
from workflows.styles.function.event_calls import EventCalls
from workflows.styles.function.gather_calls import GatherCalls
from workflows.styles.function.question_calls import QuestionCalls
from workflows.values.json_text import dump_value
from workflows.values.types_of_signatures import Duration

P = ParamSpec("P")
R = TypeVar("R")


class FunctionContext(QuestionCalls, EachCalls, EventCalls, ChildCalls, GatherCalls):
    """The `ctx` of a durable function.

    >>> def outreach(ctx: FunctionContext, contact: str) -> dict[str, str]:
    ...     return {"draft": ctx.step("draft", write_draft, contact)}
    """

    __slots__ = ()

    @overload
    def step(self, id: str, fn: Callable[P, Coroutine[Any, Any, R]], /, *args: P.args, **kwargs: P.kwargs) -> R: ...
    @overload
    def step(self, id: str, fn: Callable[P, R], /, *args: P.args, **kwargs: P.kwargs) -> R: ...
    def step(self, id: str, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:
        """The result of `fn(*args, **kwargs)`, made once and saved: every run gets what JSON makes of it."""
        check_function(fn, f"ctx.step({id!r})")
        saved = self._find(Call.STEP, id)
        if saved is None:
            with self._making(Call.STEP, id):
                text = dump_value(self._run(id, fn, args, kwargs), f"the result of step {id!r}")
            saved = self._add(self._left.save(self._cursor, Call.STEP, id, value=text))
        return read_saved(saved.value)

    def atomic(self, id: str, fn: Callable[P, R], /, *args: P.args, **kwargs: P.kwargs) -> R:
        """The result of `fn(*args, **kwargs)`; its database writes and the saving are one transaction: exactly once."""
        hint = "Its transaction would stay open for as long as it waits: await in ctx.step(…), and write here"
        refuse_async(fn, f"ctx.atomic({id!r})", hint)
        saved = self._find(Call.ATOMIC, id)
        if saved is None:
            what = f"the result of atomic {id!r}"
            with self._making(Call.ATOMIC, id), refuse_coroutines(f"ctx.atomic({id!r})"):
                saved = self._add(
                    self._left.save_with(self._cursor, Call.ATOMIC, id, lambda: self._run(id, fn, args, kwargs), what)
                )
        result: R = read_saved(saved.value)
        return result

    def sleep(self, id: str, duration: Duration | None = None, *, until: datetime | None = None) -> None:
        """Do nothing for a while, or until a moment; costs nothing meanwhile."""
        time = Pause(duration, until).read_time()
        saved = self._find(Call.SLEEP, id)
        if saved is None:
            saved = self._add(self._left.save(self._cursor, Call.SLEEP, id, timeout=time))
        if saved.deadline is not None and saved.deadline > self._claim.at:
            self._suspend(Suspend(until=saved.deadline))
