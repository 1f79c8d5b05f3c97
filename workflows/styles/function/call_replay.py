"""How a call of a durable function finds what an earlier run saved, and how a run of it ends.

Lives here: the checkpoints of a run, in their order. Must not live here: what a call does. Invariants owned:

* A saved result is never made again. Calls are matched by position, kind and id; a run that makes others is
  told what differed (`NonDeterministic`), before it has done anything new.
* After a suspension nothing happens any more: every further call of that run suspends again.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import CoroutineType
from typing import TYPE_CHECKING, Any, NoReturn

from workflows.definitions.outcomes import Done, Next, Outcome
from workflows.engine.answers.open_questions import find_names
from workflows.engine.context import Context
from workflows.engine.event_loop import run_coroutine
from workflows.exceptions import DuplicateCheckpoint, InvalidCall, NonDeterministic, show
from workflows.lifecycle import Call, Watch
from workflows.store import Saved
from workflows.styles.caught_exceptions import describe_raised, is_authors, revive_error
from workflows.values.json_text import RESERVED, check_text, read_back

if TYPE_CHECKING:
    from workflows.engine.journals.journal import Journal
    from workflows.store import Claim


class Suspended(BaseException):
    """Ends a run that waits. Not an Exception, so that an author's `except Exception` cannot swallow it."""

    def __init__(self, outcome: Outcome) -> None:
        self.outcome = outcome


class ReplayContext(Context):
    """What every call of a durable function is made of: its checkpoint is found, or made and added."""

    __slots__ = (
        "_adrift",
        "_attempt",
        "_cursor",
        "_names",
        "_opened",
        "_origins",
        "_raised",
        "_read",
        "_running",
        "_saved",
        "_taken",
        "interrupted",
        "suspended",
    )

    def __init__(self, claim: Claim, left: Journal) -> None:
        super().__init__(claim, left)
        #: What earlier runs saved, read once, when the first call asks; nothing can be there in the first run.
        self._saved: list[Saved] | None = [] if claim.fence == 1 else None
        self._attempt = max(0, claim.runs - 1)
        #: Children that live on although their calls are to be made again.
        self._adrift: list[Saved] = []
        self._cursor = 0
        #: The call whose function is being run just now.
        self._running: str | None = None
        self._raised: tuple[Call, str, BaseException] | None = None
        self._origins: list[tuple[BaseException, Saved]] = []
        #: What ended a call and is not the author's to catch, such as the end of the step's time.
        self.interrupted: BaseException | None = None
        self._names: set[str] = set()
        #: The open questions of this run, by their places.
        self._opened: dict[int, Saved] = {}
        self._taken: set[str] = set()
        #: The places of questions of which this run has been told that they are over, or which it has withdrawn.
        self._read: set[int] = set()
        self.suspended: Suspended | None = None

    @property
    def attempt(self) -> int:
        """0 in the first run; runs that failed one after another without progress add one each."""
        return self._attempt

    def progress(self, done: float, total: float | None = None, note: str = "") -> None:
        """Say how far the instance is; kept at most twice a second, and at the end of the run.

        A run that repeats what an earlier one did says nothing until it has come as far.
        """
        if self.suspended is None and self._cursor == len(self._load()):
            super().progress(done, total, note)

    @property
    def failed_call(self) -> str | None:
        """The call that raised and was not caught, as far as this run knows."""
        return None if self._raised is None else self._raised[1]

    def give_up(self, error: Exception, *, for_good: bool) -> None:
        """The function ends this run with an error: the call it came from was not caught after all.

        What that call raised must not be raised again for ever, nor what came after it be kept: a `finally` with calls
        of its own, say. When the instance fails for good, a retry begins again with that call.
        """
        new = None if self._raised is None else self._raised[2]
        self._raised = None
        found: BaseException | None = error
        # Along `raise … from …` only: what a handler meets on its way has the caught error as its context, and that one
        # was caught. What a new call raised came from nowhere else.
        while found is not None and found is not new:
            for raised, saved in self._origins:
                if raised is found:
                    if saved.failed and not for_good:
                        self._left.forget(saved.position, self._attempt + 1)
                    else:
                        self._left.blame(saved.position)
                    return
            found = found.__cause__
        # Without asking the database: where it has not been read, something may be blamed.
        if self._saved is None or any(one.blamed for one in self._saved):
            self._left.blame(-1)  # an earlier run ended there, and this one got past it

    def end(self, result: object, what: str) -> Outcome:
        """The function has returned: what that means."""
        if self.suspended is not None:
            return self.suspended.outcome
        if self.interrupted is not None:
            raise self.interrupted
        self.refuse_unmade_calls()
        if isinstance(result, Outcome):
            raise InvalidCall(
                f"{what} returned {type(result).__name__}(…), which only steps return. A function returns "
                "its result itself, waits by a call such as ctx.wait_for_signal(…) or ctx.wait_for(…), and fails by "
                "raising"
            )
        return Done(result)

    def refuse_unmade_calls(self) -> None:
        """A run that ends before it has made all the calls of an earlier one took another way."""
        saved = self._load()
        if self._cursor < len(saved):
            raise NonDeterministic(self._cursor, show_call(saved[self._cursor]), "the end of the function")

    def number_handed(self, more: frozenset[str] = frozenset()) -> list[int]:
        """What was awaited and what an early answer brought: both have been used."""
        if not self._opened:
            return super().number_handed(more | frozenset(self._taken))
        # What came for an open question that nobody has looked at yet stays in the inbox, and so does a signal of a
        # name that is still waited for: a question takes one.
        waiting = [one for one in self._opened.values() if one.unit is None and not one.settled]
        kept = {name for one in waiting for name in find_names(one)}
        names = {name for name in self._claim.names or () if name.startswith(RESERVED)}
        names = (names | more | self._taken) - kept
        used = {one.signal for one in self._load() if one.signal is not None}
        if self._claim.signals is not None:
            return [row[0] for row in self._claim.signals if row[1] in names or row[0] in used]
        by_name = set(self._left.count(sorted(names))) if names else set()
        return [n for n in self._left.count(None) if n in by_name or n in used]

    def refuse_nesting(self, what: str) -> None:
        """No call inside the function of another, and none after a suspension."""
        if self.suspended is not None:
            raise self.suspended
        if self.interrupted is not None:
            raise self.interrupted
        self._save_failure()
        if self._running is not None:
            raise InvalidCall(
                f"{what} inside the function of {self._running!r}: a later run skips that function and would miss "
                "the call. Make it before or after."
            )

    def _load(self) -> list[Saved]:
        if self._saved is None:
            loaded = self._left.load()
            self._adrift = [one for one in loaded if one.position < 0]
            self._saved = [one for one in loaded if one.position >= 0]
        return self._saved

    def _find(self, call: Call, id: str, *, repeats: bool = False) -> Saved | None:
        """The checkpoint of this call, or None where it is the first new one. A name of the engine's own `repeats`."""
        self.refuse_nesting(f"ctx.{call.value}({id!r})")
        if not repeats:
            check_text(id, "the id of a call")
        if id in self._names and not repeats:
            raise DuplicateCheckpoint(id)
        self._names.add(id)
        self._left.refuse_open_block(f"ctx.{call.value}({id!r})")
        saved = self._load()
        if self._cursor == len(saved):
            self._part_inherited()
            return None
        found = saved[self._cursor]
        if found.call is not call or found.name != id:
            raise NonDeterministic(self._cursor, show_call(found), f"{call.value} {id!r}")
        self._cursor += 1
        if found.failed:
            raise self._trace(found, revive_error(read_saved(found.value)))
        return found

    @contextmanager
    def _making(self, call: Call, id: str) -> Iterator[None]:
        """What a call raises is remembered: should the function go on from it, it is saved like a result.

        It is handed on as a later run will raise it, so that nothing depends on what cannot be kept.
        """
        try:
            yield
        except BaseException as error:
            if not is_authors(error):
                self.interrupted = error
                raise
            known = revive_error(read_saved(describe_raised(error)))
            if type(known) is not type(error):
                self._raised = (call, id, error)
                raise
            self._raised = (call, id, known)
            raise known from error

    def _save_failure(self) -> None:
        """The function caught what a call of it raised: every later run has to be told the same."""
        if self._raised is not None:
            call, id, error = self._raised
            self._raised = None
            if type(revive_error(read_saved(describe_raised(error)))) is not type(error):
                raise InvalidCall(
                    f"{call.value} {id!r} raised {type(error).__qualname__}, which no later run could raise again: "
                    "catch it inside the function you pass, or define its class at the top of a module"
                ) from error
            saved = self._left.save(self._cursor, call, id, value=describe_raised(error), failed=True)
            self._trace(self._add(saved), error)

    def _trace(self, saved: Saved, error: BaseException) -> BaseException:
        """Remember which call an error came from."""
        self._origins.append((error, saved))
        return error

    def _run(self, id: str, fn: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        self._running = id
        try:
            value = fn(*args, **kwargs)
            return run_coroutine(value, f"the function of {id!r}") if isinstance(value, CoroutineType) else value
        finally:
            self._running = None

    def _add(self, saved: Saved) -> Saved:
        self._load().append(saved)
        self._cursor += 1
        return saved

    def _replace(self, old: Saved, new: Saved) -> None:
        old.settled, old.expired, old.value, old.signal = new.settled, new.expired, new.value, new.signal

    def _part_inherited(self) -> None:
        """Of a fork: the run has come to the point. What no call before it has read is asked anew, by another run.

        By another one, as this run may have handed an address on that belongs to the first instance.
        """
        inherited = [one for one in self._load() if one.watch == Watch.INHERITED]
        if not inherited:
            return
        unread = [one for one in inherited if one.position not in self._read]
        self._left.part_inherited([one.position for one in unread])
        for one in inherited:
            one.watch = Watch.NONE
        if unread:
            for one in unread:
                one.signal = None  # it stays in the inbox
            self._suspend(Next(self.step_name, delay=0))

    def _suspend(self, outcome: Outcome) -> NoReturn:
        self._part_inherited()
        self.suspended = Suspended(outcome)
        raise self.suspended


def check_function(fn: object, what: str, error: type[Exception] = InvalidCall) -> None:
    """Something that can be called, and returns once."""
    if not callable(fn):
        raise error(f"{what} takes a function, not {show(fn)}")
    if inspect.isasyncgenfunction(fn):
        raise error(f"{what}: {getattr(fn, '__name__', fn)} is an async generator, which returns nothing to be kept")


def refuse_async(fn: object, what: str, hint: str, error: type[Exception] = InvalidCall) -> None:
    """Of functions that have to be ordinary ones; `hint` says where async ones may stand."""
    check_function(fn, what, error)
    if inspect.iscoroutinefunction(fn):
        raise error(f"{what}: {getattr(fn, '__name__', fn)} is async. {hint}")


def read_saved(text: str | None) -> Any:
    """The value of a checkpoint, from its JSON text."""
    return None if text is None else read_back(text)


def show_call(saved: Saved) -> str:
    """A call in a message."""
    return f"{saved.call.value} {saved.name!r}"
