"""How an author's error is told: shortly in the log, and at more length on the row of the instance.

Invariants owned:

* What an exception says stays on its line, so that no text of a stranger looks like a line of the log.
* No value that Django's own error reports would hide stands in a stored traceback. Looking for them has a budget; where
  it does not suffice, no text is stored that could hold one.
* What an author's variables hold is looked at by its type only: none of their code runs, and no query.
"""

from __future__ import annotations

import inspect
import logging
import re
import site
import sysconfig
import traceback
from collections.abc import Iterable, Iterator
from itertools import zip_longest
from pathlib import Path
from types import FrameType, SimpleNamespace, TracebackType
from typing import Any, cast

from django.conf import settings
from django.views.debug import SafeExceptionReporterFilter, get_default_exception_reporter_filter

from workflows.exceptions import describe_error, to_one_line

#: Lines of the author's own code that are told, and causes of the error.
FRAMES = 3
CAUSES = 2

#: Of a traceback that is stored: bytes, lines of the author's own code, causes, and bytes of what one error says.
LONGEST = 16 * 1024
STORED_FRAMES = 40
STORED_CAUSES = 5
LONGEST_MESSAGE = 4_000
#: A value that is shorter may stand anywhere by chance.
SHORTEST_SECRET = 4
#: Of a longer one this much is looked for, and what follows in its line goes too.
LONGEST_SECRET = 4_000
#: What is looked at for secrets, in all: variables and entries of containers, characters of names, and secrets.
MOST_ENTRIES = 50_000
MOST_LETTERS = 500_000
MOST_SECRETS = 500
#: Frames whose callers are looked at for Django's decorator.
MOST_FRAMES = 300
#: Python writes no number that is much longer.
MOST_BITS = 4_096
#: What stands instead of texts where the budget did not suffice.
LEFT_OUT = "(not shown: its variables hold too much to be looked through for secrets)"

logger = logging.getLogger("workflows")

#: `name=` and `name:`, as code, reprs and headers write them, and the value that follows; and passwords of addresses.
#: Whatever is looked at, each letter is so a few times only: which of the names are hidden is asked of each by itself.
_NAME = re.compile(r"""(?<![\w.-])(?P<name>[\w.-]+)["']?\s*[=:]\s*""")
_VALUE = re.compile(
    r"""[bru]?"(?:[^"\\]|\\.)*"|[bru]?'(?:[^'\\]|\\.)*'|(?:(?:Bearer|Basic|Token|ApiKey)\s+)?[^\s,;)}\]"']+""",
    re.IGNORECASE,
)
_PASSWORD = re.compile(r"(?P<user>://[^/\s:@]*:)[^@\s/]+(?=@)")

#: The function that Django's decorator puts around another one.
_DECORATED = "sensitive_variables_wrapper"

_ENGINE = f"{Path(__file__).resolve().parents[1]}/"
_LIBRARIES = tuple(
    f"{Path(place).resolve()}/"
    for place in {*site.getsitepackages(), site.getusersitepackages(), sysconfig.get_paths()["stdlib"]}
)


def log_raised(logger: logging.Logger, level: int, message: str, error: BaseException) -> None:
    """One record: the message, where the error was raised, what it says and what caused it."""
    if not logger.isEnabledFor(level):
        return
    info = (type(error), error, error.__traceback__)
    record = logger.makeRecord(logger.name, level, __file__, 0, to_one_line(message), (), info, "log_raised")
    record.exc_text = "\n".join(_tell(error))  # what formatters show; the exception itself is there for other handlers
    logger.handle(record)


class _BudgetSpentError(Exception):
    """There is more than may be looked at."""


class _Search:
    """One search for secrets, within its budget."""

    def __init__(self, hidden: re.Pattern[str]) -> None:
        self.found: set[str] = set()
        self._hidden = hidden
        self._entries, self._letters = MOST_ENTRIES, MOST_LETTERS
        #: Containers that were looked into, as secret or not: they may contain themselves.
        self._seen: set[tuple[int, bool]] = set()

    def look(self, name: object, value: object, *, is_secret: bool = False) -> None:
        """Look at a variable and at all that stands in it."""
        left: list[tuple[object, object, bool]] = [(name, value, is_secret)]
        self._spend(1)
        while left:
            name, value, is_secret = left.pop()
            is_secret = is_secret or self._is_hidden(name)
            kind = type(value)
            if issubclass(kind, (str, bytes, int)):
                if is_secret:
                    self._keep(value)
                continue
            if not issubclass(kind, (dict, list, tuple, set, frozenset)) or (id(value), is_secret) in self._seen:
                continue
            self._seen.add((id(value), is_secret))
            # By the methods of the built-in type: those of a class of the author's may do anything.
            base: Any = next(one for one in (dict, list, tuple, set, frozenset) if issubclass(kind, one))
            held: Any = value
            self._spend(base.__len__(held))
            entries = dict.items(held) if base is dict else zip_longest((), base.__iter__(held))
            left.extend((key, one, is_secret) for key, one in entries)

    def _is_hidden(self, name: object) -> bool:
        if not issubclass(type(name), str):
            return False
        text = str.__str__(cast("str", name))
        self._letters -= len(text)
        if self._letters < 0:
            raise _BudgetSpentError
        return self._hidden.search(text) is not None

    def _keep(self, value: Any) -> None:
        if issubclass(type(value), str):
            text = str.__str__(value)[: LONGEST_SECRET + 1]
        elif issubclass(type(value), bytes):
            text = bytes.__getitem__(value, slice(LONGEST_SECRET + 1)).decode(errors="backslashreplace")
        elif type(value) is int and value.bit_length() <= MOST_BITS:
            text = str(value)
        else:
            return
        if len(text) < SHORTEST_SECRET:
            return
        self.found.add(to_one_line(text))
        if len(self.found) > MOST_SECRETS:
            raise _BudgetSpentError

    def _spend(self, count: int) -> None:
        self._entries -= count
        if self._entries < 0:
            raise _BudgetSpentError


def write_traceback(error: BaseException) -> str:
    """The author's lines that led to an error, what it says and what caused it, to be stored; secrets are hidden.

    Hidden are values of variables and settings that Django hides in its own reports, wherever they show up, and what is
    written beside such a name. Where that cannot be looked through, only the places are told and the classes.
    """
    try:
        try:
            text = _write_hiding(error)
        except _BudgetSpentError:
            text = "\n".join(_tell(error, STORED_FRAMES, STORED_CAUSES, bare=True))
        return text.encode(errors="replace")[:LONGEST].decode(errors="ignore")
    except Exception:
        logger.warning("the traceback of a failed run could not be stored", exc_info=True)
        return ""


def _write_hiding(error: BaseException) -> str:
    reporter = get_default_exception_reporter_filter()
    hidden, instead = reporter.hidden_settings, reporter.cleansed_substitute
    secrets = sorted(_find_secrets(error, reporter), key=len, reverse=True)
    lines, size = [], 0
    for line in _tell(error, STORED_FRAMES, STORED_CAUSES):
        line = _hide_all(line[: 4 * LONGEST_MESSAGE], secrets, instead)
        line = _hide_named(line, hidden, instead)
        line = _PASSWORD.sub(lambda found: f"{found['user']}{instead}", line)
        lines.append(line if len(line) <= LONGEST_MESSAGE else f"{line[:LONGEST_MESSAGE]}…")
        size += len(lines[-1])
        if size > LONGEST:
            break
    return "\n".join(lines)


def _hide_all(line: str, secrets: Iterable[str], instead: str) -> str:
    """A line without these; one that is cut off where a secret begins loses that beginning."""
    was_cut = len(line) == 4 * LONGEST_MESSAGE
    for secret in secrets:
        if len(secret) > LONGEST_SECRET:
            before, is_there, _ = line.partition(secret[:LONGEST_SECRET])
            line = f"{before}{instead}" if is_there else line
        else:
            line = line.replace(secret, instead)
        start = line.find(secret[:SHORTEST_SECRET], max(0, len(line) - len(secret))) if was_cut else -1
        while start >= 0:
            if secret.startswith(line[start:]):
                line = line[:start]
                break
            start = line.find(secret[:SHORTEST_SECRET], start + 1)
    return line


def _hide_named(line: str, hidden: re.Pattern[str], instead: str) -> str:
    """A line without what is written beside a name that is hidden."""
    parts, kept, at = [], 0, 0
    while (found := _NAME.search(line, at)) is not None:
        at = found.end()
        if hidden.search(found["name"]) and (value := _VALUE.match(line, at)) is not None:
            parts += [line[kept:at], instead]
            kept = at = value.end()
    return "".join([*parts, line[kept:]])


def _find_secrets(error: BaseException, reporter: Any) -> set[str]:
    """The texts that Django's reports would hide: of settings, and of the variables of all lines on the way."""
    search = _Search(reporter.hidden_settings)
    for name in dir(settings):
        if name.isupper():
            search.look(name, getattr(settings, name, None))
    seen: set[int] = set()
    cause: BaseException | None = error
    while cause is not None and id(cause) not in seen:
        seen.add(id(cause))
        trace: TracebackType | None = cause.__traceback__
        is_decorated = _is_decorated(cause, reporter)
        while trace is not None:
            if is_decorated:
                whole = _list_sensitive(trace.tb_frame, reporter)
                is_decorated -= 1
                if not is_decorated:
                    raise _BudgetSpentError
            else:
                whole = set()
            for name, value in trace.tb_frame.f_locals.items():
                search.look(name, value, is_secret=name in whole)
            trace = trace.tb_next
        cause = cause.__cause__ or cause.__context__
    return search.found


def _is_decorated(error: BaseException, reporter: Any) -> int:
    """How many frames the project's filter may look at: none where nobody has used Django's decorator.

    It looks at the callers of each, which are many where a function has called itself too often.
    """
    if type(reporter).get_traceback_frame_variables is not SafeExceptionReporterFilter.get_traceback_frame_variables:
        return MOST_FRAMES
    first = error.__traceback__
    trace, frame = first, None if first is None else first.tb_frame.f_back
    while trace is not None:
        code = trace.tb_frame.f_code
        if code.co_name == _DECORATED or code.co_flags & inspect.CO_COROUTINE:
            return MOST_FRAMES
        trace = trace.tb_next
    while frame is not None:
        if frame.f_code.co_name == _DECORATED:
            return MOST_FRAMES
        frame = frame.f_back
    return 0


def _list_sensitive(frame: FrameType, reporter: Any) -> set[str]:
    """The variables that a decorator (`sensitive_variables`) hides whole. The filter is handed none of their values."""
    names = list(frame.f_locals)
    blank: dict[str, Any] = {name: f"value {n}" for n, name in enumerate(names)}
    if frame.f_code.co_name == _DECORATED and _DECORATED in blank:
        blank[_DECORATED] = frame.f_locals[_DECORATED]
    seen = SimpleNamespace(f_code=frame.f_code, f_back=frame.f_back, f_locals=blank)
    shown = dict(reporter.get_traceback_frame_variables(None, seen))
    return {name for name in names if shown.get(name) == reporter.cleansed_substitute}


def _tell(
    error: BaseException, most: int = FRAMES, causes_at_most: int = CAUSES, *, bare: bool = False
) -> Iterator[str]:
    describe = _name_class if bare else _describe
    for frame in _choose(error, most):
        yield f'  File "{frame.filename}", line {frame.lineno}, in {frame.name}'
        if frame.line and not bare:
            yield f"    {to_one_line(frame.line)}"
    text = describe(error)
    yield text
    causes = 0
    cause = error.__cause__ or (None if error.__suppress_context__ else error.__context__)
    while cause is not None and causes < causes_at_most:
        # A run that was interrupted may have been so in the midst of what its error says.
        if (other := describe(cause) if isinstance(error, Exception) else type(cause).__name__) != text:
            last = traceback.extract_tb(cause.__traceback__)[-1:]
            where = f' (File "{last[0].filename}", line {last[0].lineno})' if last else ""
            yield f"caused by {other}{where}"
            causes, text = causes + 1, other
        cause = cause.__cause__ or (None if cause.__suppress_context__ else cause.__context__)


def _choose(error: BaseException, most: int) -> list[traceback.FrameSummary]:
    """The author's last lines, and the one that raised: neither the engine's lines nor a library's way to it."""
    frames = list(traceback.extract_tb(error.__traceback__))
    while (copied := error.__cause__) is not None and _describe(copied) == _describe(error):
        error = copied  # a call of a function hands on a copy of what was raised
        frames += traceback.extract_tb(error.__traceback__)
    frames = [one for one in frames if not one.filename.startswith(_ENGINE)]
    own = [one for one in frames if not one.filename.startswith(_LIBRARIES)]
    chosen = own[-most:] or frames[-most:]
    return chosen if not frames or frames[-1] in chosen else [*chosen, frames[-1]]


def _name_class(error: BaseException) -> str:
    return f"{type(error).__name__}: {LEFT_OUT}"


def _describe(error: BaseException) -> str:
    return to_one_line(describe_error(error))
