"""Reading JSON strictly: a reader that refuses what other readers quietly repair.

Lives here: the grammar, and the limits that only a reader can hold. Invariants owned: nesting is measured before
anything recursive runs; what is returned reads the same for every other strict reader of JSON, and PostgreSQL can keep
it. Every error says at which place: a line and column for grammar, a path such as `$.data.lines[0]` for values.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from itertools import islice
from typing import Any, NoReturn

from workflows.exceptions import NotSerializable, WorkflowError
from workflows.values.json_text import MAX_DEPTH, MAX_DIGITS, dump_value

#: In one body: a hundred for each of as many signals as one call may carry.
MOST_VALUES = 1_000_000

# Possessive, so that no text makes it look at a character twice: an unclosed string ends with the text.
_STRING = r'"(?:[^"\\]++|\\.)*+"?'
_BRACKETS = re.compile(rf"{_STRING}|[\[\]{{}}]", re.DOTALL)
_COMMAS = re.compile(rf"{_STRING}|,", re.DOTALL)
_DIGITS = re.compile(rf"{_STRING}|[0-9]++", re.DOTALL)


class UnreadableJson(WorkflowError):
    """Bytes that are no JSON text in UTF-8, or a value that PostgreSQL cannot keep; the message names the place."""


class TooManyValues(UnreadableJson):
    """A JSON text with more than `MOST_VALUES` values."""


def parse_json(raw: bytes) -> Any:
    """The value of a JSON text in UTF-8; `UnreadableJson` otherwise.

    >>> parse_json(b'{"data": 1}')
    {'data': 1}
    """
    text = decode_text(raw)
    _check_count(text)  # first, because it looks at no more than the values that are allowed
    _check_depth(text)
    try:
        value = _load(text, _read_pairs)
    except _DuplicateName:
        _refuse_duplicate(_load(text, _Pairs))
    return check_kept(value)


def check_kept(value: Any) -> Any:
    """The value, where PostgreSQL can keep it."""
    try:
        # Its own limit never binds here: what counts is the size of the body that was sent.
        dump_value(value, "the body", limit=1 << 62, measured=True)
    except NotSerializable as error:
        _refuse(f"at {error.path}: {error.problem}")
    return value


def decode_text(raw: bytes) -> str:
    """The text of bytes in UTF-8."""
    if not raw:
        _refuse("at byte 0: the body is empty (and a body needs the header Content-Length)")
    if raw.startswith(b"\xef\xbb\xbf"):
        _refuse("at byte 0: the body begins with a byte order mark; leave it away")
    try:
        return raw.decode()
    except UnicodeDecodeError as error:
        _refuse(f"at byte {error.start}: this is not UTF-8")


def _check_depth(text: str) -> None:
    # Counting brackets is a cheap upper bound; only a suspicious text is walked.
    if text.count("[") + text.count("{") <= MAX_DEPTH:
        return
    depth = 0
    for found in _BRACKETS.finditer(text):
        token = found[0]
        if token in "[{":
            depth += 1
            if depth > MAX_DEPTH:
                _refuse(f"at {_place(text, found.start())}: it is nested deeper than {MAX_DEPTH} levels")
        elif token in "]}":
            depth -= 1


def _check_count(text: str) -> None:
    # Values of a few bytes cost some twenty times as much once they are read. Commas in texts are none.
    if text.count(",") < MOST_VALUES:
        return
    commas = (found for found in _COMMAS.finditer(text) if found[0] == ",")
    if next(islice(commas, MOST_VALUES - 1, None), None) is not None:
        raise TooManyValues(f"The body holds more than {MOST_VALUES} values, the limit. Send it in parts.")


def _load(text: str, read_pairs: Callable[[list[tuple[str, Any]]], Any]) -> Any:
    try:
        return json.loads(text, object_pairs_hook=read_pairs)
    except json.JSONDecodeError as error:
        problem = error.msg[:1].lower() + error.msg[1:]
        _refuse(f"at line {error.lineno} column {error.colno}: {problem}")
    except ValueError:  # Python reads no integer of more digits
        _refuse_digits(text)


class _DuplicateName(Exception):
    pass


class _Pairs(list[tuple[str, Any]]):
    """An object as it was written, to look for the name that stands there twice."""


def _read_pairs(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    read = dict(pairs)
    if len(read) != len(pairs):
        raise _DuplicateName
    return read


def _refuse_duplicate(root: Any) -> NoReturn:
    # A place is its parent's place and one step, put together at the end: a path for each value would
    # repeat a long name as often as there are values below it.
    waiting: list[tuple[Any, Any]] = [((None, "$"), root)]
    while waiting:
        place, value = waiting.pop()
        if isinstance(value, _Pairs):
            seen: set[str] = set()
            for name, item in value:
                if name in seen:
                    _refuse(f"at {_join((place, f'.{name}'))}: the name stands there twice")
                seen.add(name)
                waiting.append(((place, f".{name}"), item))
        elif isinstance(value, list):
            waiting.extend(((place, f"[{index}]"), item) for index, item in enumerate(value))
    raise AssertionError("the first reader met a name that stands there twice")


def _join(place: Any) -> str:
    steps: list[str] = []
    while place is not None:
        place, step = place
        steps.append(f"{step:.60}")
    return "".join(reversed(steps))


def _refuse_digits(text: str) -> NoReturn:
    for found in _DIGITS.finditer(text):
        if len(found[0]) > MAX_DIGITS and not found[0].startswith('"'):
            _refuse(f"at {_place(text, found.start())}: the number has more than {MAX_DIGITS} digits")
    _refuse("at $: it has a number of more digits than this site reads")


def _place(text: str, position: int) -> str:
    line = text.count("\n", 0, position) + 1
    return f"line {line} column {position - text.rfind(chr(10), 0, position)}"


def _refuse(problem: str) -> NoReturn:
    raise UnreadableJson(f"The body cannot be read: {problem}.")
