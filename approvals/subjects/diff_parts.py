"""The smaller pieces of a difference: of two lines, of texts with many, and of nested JSON.

Pure: nothing here knows a field or queries. Invariants owned: whatever is given, the work is linear in its size but
for `MAX_COMPARED` lines, and the pieces are bounded; what was left out is told by a last piece.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from difflib import SequenceMatcher
from itertools import zip_longest
from typing import Any, Final

from django.utils.translation import ngettext

from approvals.display.values import ShownValue, count_shared, show_text, show_texts
from approvals.subjects.field_values import write_canonical

#: Lines that are matched one by one, after those that the texts share at both ends; more are told as all replaced.
MAX_COMPARED = 300
#: Lines of a difference that are shown, characters of each, and unchanged ones around a change.
MAX_LINES = 80
MAX_LINE = 300
AROUND = 2
#: Places of a JSON value that are told apart, and how deep.
MAX_PLACES = 50
MAX_DEPTH = 12

#: Where a place of a JSON value has nothing, not even null.
ABSENT: Final = object()

Place = tuple[str | int, ...]


@dataclass(frozen=True, slots=True)
class DiffPart:
    """A piece of a difference: `sign` is "-" for gone, "+" for new, " " for the same and "…" for left out."""

    sign: str
    shown: ShownValue


def mark_change(before: str, after: str) -> tuple[DiffPart, ...]:
    """The middle in which two similar lines differ; nothing where too little is the same to help the eye.

    >>> [(part.sign, part.shown.text) for part in mark_change("IE64 0032 61", "IE64 0032 67")]
    [(' ', 'IE64 0032 6'), ('-', '1'), ('+', '7')]
    """
    start = count_shared(before, after)
    end = min(count_shared(before[start:][::-1], after[start:][::-1]), len(before) - start, len(after) - start)
    if start + end < max(len(before), len(after)) / 2:
        return ()
    pieces = [
        (" ", before[:start]),
        ("-", before[start : len(before) - end]),
        ("+", after[start : len(after) - end]),
        (" ", before[len(before) - end :]),
    ]
    return tuple(DiffPart(sign, ShownValue(text)) for sign, text in pieces if text)


def diff_lines(before: str, after: str) -> tuple[DiffPart, ...]:
    """What changes line by line, with a little of what is around it."""
    lines = list(_fold_same(_match_lines(before.split("\n"), after.split("\n"))))
    parts = [DiffPart(line.sign, ShownValue(_show_line(line))) for line in lines[:MAX_LINES]]
    if len(lines) > MAX_LINES:
        parts.append(DiffPart("…", ShownValue(_count_lines(len(lines) - MAX_LINES, "more"))))
    return tuple(parts)


def diff_json(before: Any, after: Any) -> list[tuple[Place, Any, Any]]:
    """The places where two JSON values differ, with what stands there; `ABSENT` where there is no such place.

    >>> diff_json({"limits": {"daily": 5}}, {"limits": {"daily": 7}})
    [(('limits', 'daily'), 5, 7)]
    """
    return list(_walk(before, after, ()))


def same_json(before: Any, after: Any) -> bool:
    """Whether two values are one and the same JSON; to Python true is 1, and 1e17 not what jsonb makes of it."""
    return before is after or write_canonical(before) == write_canonical(after)


@dataclass(frozen=True, slots=True)
class _DiffLine:
    sign: str
    text: str
    #: The line in whose place it comes, or which comes in its place.
    other: str | None = None


def _match_lines(old: list[str], new: list[str]) -> Iterator[_DiffLine]:
    start = 0
    while start < min(len(old), len(new)) and old[start] == new[start]:
        start += 1
    end = 0
    while end < min(len(old), len(new)) - start and old[-1 - end] == new[-1 - end]:
        end += 1
    yield from (_DiffLine(" ", line) for line in old[:start])
    left, right = old[start : len(old) - end], new[start : len(new) - end]
    if max(len(left), len(right)) <= MAX_COMPARED:
        for tag, i, j, k, m in SequenceMatcher(None, left, right, autojunk=False).get_opcodes():
            if tag == "equal":
                yield from (_DiffLine(" ", line) for line in left[i:j])
            else:
                gone, come = _pair(left[i:j], right[k:m])
                yield from (*gone, *come)
    else:
        # In turn, so that the bound on what is shown does not hide one of the two sides.
        for pair in zip_longest(*_pair(left, right)):
            yield from (line for line in pair if line is not None)
    yield from (_DiffLine(" ", line) for line in old[len(old) - end :])


def _pair(left: list[str], right: list[str]) -> tuple[list[_DiffLine], list[_DiffLine]]:
    gone = [_DiffLine("-", line, other) for line, other in zip_longest(left, right[: len(left)])]
    come = [_DiffLine("+", line, other) for line, other in zip_longest(right, left[: len(right)])]
    return gone, come


def _fold_same(lines: Iterator[_DiffLine]) -> Iterator[_DiffLine]:
    """The same, with long stretches that do not change told by their length."""
    waiting: list[_DiffLine] = []
    changed = False
    for line in lines:
        if line.sign == " ":
            waiting.append(line)
            continue
        yield from _tell_same(waiting, AROUND if changed else 0, AROUND)
        waiting, changed = [], True
        yield line
    yield from _tell_same(waiting, AROUND if changed else 0, 0)


def _tell_same(lines: list[_DiffLine], first: int, last: int) -> Iterator[_DiffLine]:
    folded = len(lines) - first - last
    if folded <= 1:
        yield from lines
        return
    yield from lines[:first]
    yield _DiffLine("…", _count_lines(folded, "same"))
    yield from lines[len(lines) - last :]


def _show_line(line: _DiffLine) -> str:
    if line.sign == "…":
        return line.text
    if line.other is None:
        return show_text(line.text, MAX_LINE)
    return show_texts(line.text, line.other, MAX_LINE)[0]


def _count_lines(count: int, what: str) -> str:
    if what == "same":
        return ngettext("%(count)d line is the same", "%(count)d lines are the same", count) % {"count": count}
    return ngettext("%(count)d more line", "%(count)d more lines", count) % {"count": count}


def _walk(before: Any, after: Any, place: Place) -> Iterator[tuple[Place, Any, Any]]:
    if same_json(before, after):
        return
    left, right = _open(before, after), _open(after, before)
    if left is None or right is None or len(place) >= MAX_DEPTH:
        yield place, before, after
    elif isinstance(left, dict) and isinstance(right, dict):
        for key in dict.fromkeys((*left, *right)):
            yield from _walk(left.get(key, ABSENT), right.get(key, ABSENT), (*place, key))
    else:
        yield from _walk_lists(left, right, place)


def _walk_lists(left: Any, right: Any, place: Place) -> Iterator[tuple[Place, Any, Any]]:
    """Item by item after those that are the same at both ends, so that one more does not move all the others."""
    shortest = min(len(left), len(right))
    start = next((at for at in range(shortest) if not same_json(left[at], right[at])), shortest)
    room = shortest - start
    end = next((at for at in range(room) if not same_json(left[-1 - at], right[-1 - at])), room)
    pairs = zip_longest(left[start : len(left) - end], right[start : len(right) - end], fillvalue=ABSENT)
    for at, (old, new) in enumerate(pairs, start):
        yield from _walk(old, new, (*place, at))


def _open(value: Any, other: Any) -> Any:
    """A container to look into; an empty one where the other side has one and this side nothing."""
    if isinstance(value, dict | list) and (value or isinstance(other, type(value))):
        return value if not isinstance(other, dict | list) or isinstance(other, type(value)) else None
    if (value is ABSENT or value is None) and isinstance(other, dict | list) and other:
        return type(other)()
    return None
