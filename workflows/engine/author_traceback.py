"""How an author's error is told in the log: shortly, with his own lines, and in lines that only the log begins.

Invariant owned: what an exception says stays on its line, so that no text of a stranger looks like a line of the log.
"""

from __future__ import annotations

import logging
import site
import sysconfig
import traceback
from collections.abc import Iterator
from pathlib import Path

from workflows.exceptions import describe_error, to_one_line

#: Lines of the author's own code that are told, and causes of the error.
FRAMES = 3
CAUSES = 2

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


def _tell(error: BaseException) -> Iterator[str]:
    for frame in _choose(error):
        yield f'  File "{frame.filename}", line {frame.lineno}, in {frame.name}'
        if frame.line:
            yield f"    {to_one_line(frame.line)}"
    text = _describe(error)
    yield text
    causes = 0
    cause = error.__cause__ or (None if error.__suppress_context__ else error.__context__)
    while cause is not None and causes < CAUSES:
        if (other := _describe(cause)) != text:
            last = traceback.extract_tb(cause.__traceback__)[-1:]
            where = f' (File "{last[0].filename}", line {last[0].lineno})' if last else ""
            yield f"caused by {other}{where}"
            causes, text = causes + 1, other
        cause = cause.__cause__ or (None if cause.__suppress_context__ else cause.__context__)


def _choose(error: BaseException) -> list[traceback.FrameSummary]:
    """The author's last lines, and the one that raised: neither the engine's lines nor a library's way to it."""
    frames = list(traceback.extract_tb(error.__traceback__))
    while (copied := error.__cause__) is not None and _describe(copied) == _describe(error):
        error = copied  # a call of a function hands on a copy of what was raised
        frames += traceback.extract_tb(error.__traceback__)
    frames = [one for one in frames if not one.filename.startswith(_ENGINE)]
    own = [one for one in frames if not one.filename.startswith(_LIBRARIES)]
    chosen = own[-FRAMES:] or frames[-FRAMES:]
    return chosen if not frames or frames[-1] in chosen else [*chosen, frames[-1]]


def _describe(error: BaseException) -> str:
    return to_one_line(describe_error(error))
