"""How an author's error is told: shortly in the log, and at more length on the row of the instance.

Invariants owned: what an exception says stays on its line, so that no text of a stranger looks like a line of the log.
No value that Django's own error reports would hide stands in a stored traceback.
"""

from __future__ import annotations

import logging
import re
import site
import sysconfig
import traceback
from collections.abc import Iterable, Iterator
from pathlib import Path
from types import TracebackType
from typing import Any

from django.conf import settings
from django.views.debug import get_default_exception_reporter_filter

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
#: How deep values of variables are searched for secrets, and how many entries of each.
DEPTH = 4
MOST_ENTRIES = 200
#: Python writes no number that is much longer.
MOST_BITS = 4_096

logger = logging.getLogger("workflows")

#: `name=value` and `name: value` of a name that is hidden, as code, reprs and headers write them; and passwords of
#: addresses.
_NAMED = (
    r"""(?P<name>(?<![\w.-])[\w.-]*(?:{hidden})[\w.-]*)(?P<is>["']?\s*(?:=|:)\s*)"""
    r"""(?P<value>[bru]?"(?:[^"\\]|\\.)*"|[bru]?'(?:[^'\\]|\\.)*'|(?:(?:Bearer|Basic)\s+)?[^\s,;)}\]"']+)"""
)
_PASSWORD = re.compile(r"(?P<user>://[^/\s:@]*:)[^@\s/]+(?=@)")

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


def write_traceback(error: BaseException) -> str:
    """The author's lines that led to an error, what it says and what caused it, to be stored; secrets are hidden.

    Hidden are values of variables and settings that Django hides in its own reports, wherever they show up, and what is
    written beside such a name. Empty where what the author has in his variables cannot be looked through.
    """
    try:
        return _write_hiding(error)
    except Exception:
        logger.warning("the traceback of a failed run could not be stored", exc_info=True)
        return ""


def _write_hiding(error: BaseException) -> str:
    lines = _tell(error, STORED_FRAMES, STORED_CAUSES)
    # What is cut off here is cut off again below: of a secret no beginning stays at the end of a line.
    text = "\n".join(line[: 4 * LONGEST_MESSAGE] for line in lines)
    reporter = get_default_exception_reporter_filter()
    hidden, instead = reporter.hidden_settings, reporter.cleansed_substitute
    secrets = {one for one in _list_secrets(error, reporter) if len(one) >= SHORTEST_SECRET}
    for secret in sorted(secrets, key=len, reverse=True):
        text = text.replace(to_one_line(secret), instead)

    named = re.compile(_NAMED.replace("{hidden}", hidden.pattern), hidden.flags)
    text = named.sub(lambda found: f"{found['name']}{found['is']}{instead}", text)
    text = _PASSWORD.sub(lambda found: f"{found['user']}{instead}", text)
    text = "\n".join(
        line if len(line) <= LONGEST_MESSAGE else f"{line[:LONGEST_MESSAGE]}…" for line in text.split("\n")
    )
    return text.encode()[:LONGEST].decode(errors="ignore")


def _list_secrets(error: BaseException, reporter: Any) -> Iterator[str]:
    """The texts that Django's reports would hide: of settings, and of the variables of all lines on the way."""
    for name in dir(settings):
        if name.isupper():
            yield from _find_secrets(name, getattr(settings, name, None), reporter.hidden_settings)
    seen: set[int] = set()
    cause: BaseException | None = error
    while cause is not None and id(cause) not in seen:
        seen.add(id(cause))
        trace: TracebackType | None = cause.__traceback__
        while trace is not None:
            frame = trace.tb_frame
            shown = dict(reporter.get_traceback_frame_variables(None, frame))
            for name, value in frame.f_locals.items():
                # As it is, if a decorator (`sensitive_variables`) hides it whole.
                whole = shown.get(name) is not value and shown.get(name) == reporter.cleansed_substitute
                yield from _find_secrets(name, value, reporter.hidden_settings, is_secret=whole)
            trace = trace.tb_next
        cause = cause.__cause__ or cause.__context__


def _find_secrets(
    name: object, value: object, hidden: re.Pattern[str], *, is_secret: bool = False, depth: int = DEPTH
) -> Iterator[str]:
    is_secret = is_secret or (isinstance(name, str) and hidden.search(name) is not None)
    if type(value) is str:
        if is_secret:
            yield value
    elif type(value) is bytes:
        if is_secret:
            yield value.decode(errors="backslashreplace")
    elif type(value) is int:
        if is_secret and value.bit_length() <= MOST_BITS:
            yield str(value)
    elif depth and type(value) in (dict, list, tuple):
        entries: Iterable[tuple[object, object]]
        entries = value.items() if isinstance(value, dict) else ((name, one) for one in value)  # type: ignore[attr-defined]
        for _, (key, one) in zip(range(MOST_ENTRIES), entries, strict=False):
            yield from _find_secrets(key, one, hidden, is_secret=is_secret, depth=depth - 1)


def _tell(error: BaseException, most: int = FRAMES, causes_at_most: int = CAUSES) -> Iterator[str]:
    for frame in _choose(error, most):
        yield f'  File "{frame.filename}", line {frame.lineno}, in {frame.name}'
        if frame.line:
            yield f"    {to_one_line(frame.line)}"
    text = _describe(error)
    yield text
    causes = 0
    cause = error.__cause__ or (None if error.__suppress_context__ else error.__context__)
    while cause is not None and causes < causes_at_most:
        if (other := _describe(cause)) != text:
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


def _describe(error: BaseException) -> str:
    return to_one_line(describe_error(error))
