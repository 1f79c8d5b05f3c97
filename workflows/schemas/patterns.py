"""Patterns of schemas: whether a text fits one, in a time that nobody who sends texts can stretch.

Lives here: which engine reads a pattern, and how long a text may be that Python's own engine is given. Invariant
owned: no pattern is tried in more ways than `MOST_TRIES` on any text. The engine that pydantic brings looks at each
character once; it knows no look-ahead, no look-behind and no reference to a group. Patterns with those go to Python's,
for which the ways are counted before: a repetition within a repetition has too many for any text worth the name.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from workflows.exceptions import show

#: Steps of Python's engine that one text may take: a tenth of a second.
MOST_TRIES = 5_000_000
#: A pattern that can be tried on no longer texts is refused where it is written.
SHORTEST = 32
#: Longer than any body that is read.
UNBOUNDED = 1 << 30

#: What reading the parts of a pattern may raise, where this Python keeps them in another way.
_UNKNOWN = (ImportError, AttributeError, RecursionError, TypeError, ValueError)

#: A pattern piece by piece: an escape, a class of characters, anything else.
_PIECES = re.compile(r"\\.|\[\^?\]?(?:\\.|[^\]\\])*+\]|.", re.DOTALL)
#: In a class these mean more to the linear engine than to Python's.
_SETS = re.compile(r"\[|&&|--|~~")


@dataclass(frozen=True, slots=True)
class Pattern:
    """One pattern. `longest` is the longest text that it is tried on."""

    source: str
    longest: int
    _linear: Any
    _backtracking: Any

    def count_steps(self, length: int) -> float:
        """What it may cost to try it on a text of this length, in steps of its engine."""
        return _count_steps(self.source, length.bit_length(), self._linear is not None)

    def fits(self, text: str) -> bool:
        """Whether the pattern stands somewhere in the text, which is not longer than `longest`."""
        if self._linear is not None:
            fits: bool = self._linear.isinstance_python(text)
            return fits
        return self._backtracking.search(text) is not None


@lru_cache(maxsize=512)
def read_pattern(source: str) -> Pattern:
    """The pattern as it is tried; `re.error` and its like where it is none."""
    compiled = re.compile(source)
    linear = None if _reads_differently(source) else _make_linear(source)
    if linear is not None:
        return Pattern(source, UNBOUNDED, linear, None)
    return Pattern(source, find_longest(source, compiled.flags), None, compiled)


@lru_cache(maxsize=512)
def find_longest(source: str, flags: int = 0) -> int:
    """The longest text on which Python's own engine tries this pattern in no more than `MOST_TRIES` ways.

    >>> find_longest("^(a+)+$") < SHORTEST < find_longest("^(?=.*[0-9]).{8,}$")
    True
    """
    try:
        tree, anchored = _parse(source, flags)
        longest, length = 0, 8
        while length < UNBOUNDED:
            if _count_tries(tree, length, anchored=anchored) > MOST_TRIES:
                break
            longest, length = length, length * 2
        return longest
    except _UNKNOWN:
        return 0  # a Python whose patterns are kept in another way: none is tried that the linear engine does not read


@lru_cache(maxsize=4096)
def _count_steps(source: str, bits: int, linear: bool) -> float:
    length = 1 << bits
    try:
        tree, anchored = _parse(source, re.compile(source).flags)
        tries = _count_tries(tree, length, anchored=anchored)
        # The linear engine may have to look at each character from each place in the pattern, and never more often.
        return min(tries, length * _count_places(tree)) if linear else tries
    except _UNKNOWN:
        return length


@lru_cache(maxsize=512)
def _parse(source: str, flags: int) -> tuple[Any, bool]:
    """The parts of a pattern, and whether it is tried at the beginning of a text alone."""
    from re import _parser  # type: ignore[attr-defined]

    tree = _parser.parse(source, flags & ~re.DEBUG)
    anchored = bool(tree) and str(tree[0]) in ("(AT, AT_BEGINNING)", "(AT, AT_BEGINNING_STRING)")
    return tree, anchored and not flags & re.MULTILINE


def _count_tries(tree: Any, length: int, *, anchored: bool) -> float:
    _ways, tries = _count(tree, float(length))
    return tries * (1 if anchored else length)


def explain_pattern(source: str) -> str:
    """Why it is refused."""
    return (
        f"the pattern {show(source)} has a quantifier within a quantifier, or many in a row, and may be tried on a "
        "text in more ways than anybody can wait for. Write it without them; or without look-ahead, look-behind and "
        "references to groups, and then it may have them"
    )


def _make_linear(source: str) -> Any:
    from pydantic_core import SchemaError, SchemaValidator, core_schema

    # The end of a text is written in another letter there.
    written = "".join(r"\z" if found[0] == r"\Z" else found[0] for found in _PIECES.finditer(source))
    try:
        return SchemaValidator(core_schema.str_schema(pattern=written, regex_engine="rust-regex"))
    except SchemaError:  # look-ahead and its like, or something that only Python writes so
        return None


def _reads_differently(source: str) -> bool:
    """Whether it has something that both engines read, each in its own way."""
    before = ""
    for found in _PIECES.finditer(source):
        piece = found[0]
        if piece in (r"\<", r"\>") or (piece == "{" and before == r"\b"):
            return True
        if piece.startswith("[") and _SETS.search(piece, 1):
            return True
        if piece == "+" and before in ("*", "+", "?", "}"):  # possessive in Python
            return True
        before = piece
    return re.search(r"\(\?[a-zA-Z]*x", source) is not None


#: What a part of a pattern costs: ways in which it can fit, and steps to try them all.
_Cost = tuple[float, float]


def _count(items: Any, length: float) -> _Cost:
    """Of pieces that follow each other: each is tried anew for every way in which those before it fit."""
    ways, tries = 1.0, 1.0
    for item in items:
        own, steps = _count_one(str(item[0]), item[1], length)
        tries += ways * steps
        ways *= own
        if tries > MOST_TRIES:  # enough is known, and floats have an end
            return float("inf"), float("inf")
    return ways, tries


def _count_one(kind: str, value: Any, length: float) -> _Cost:
    match kind:
        case "MAX_REPEAT" | "MIN_REPEAT" | "POSSESSIVE_REPEAT":
            least, most, inner = int(value[0]), min(float(value[1]), length), value[2]
            ways, tries = _count(inner, length)
            if _is_separated(inner):
                own, steps = length, 2 * length  # the text tells where each round begins
            elif ways <= 1:
                own, steps = max(1.0, most - least + 1), max(1.0, most) * tries
            else:
                own = steps = float("inf") if most * ways > 64 else (ways ** max(1.0, most)) * tries * most
            return (1.0 if kind == "POSSESSIVE_REPEAT" else own), steps
        case "SUBPATTERN":
            return _count(value[-1], length)
        case "ATOMIC_GROUP":
            return 1.0, _count(value, length)[1]
        case "ASSERT" | "ASSERT_NOT":
            return 1.0, _count(value[1], length)[1]
        case "BRANCH":
            costs = [_count(branch, length) for branch in value[1]]
            tries = sum(steps for _ways, steps in costs)
            return (max if _differ_at_once(value[1]) else sum)(ways for ways, _steps in costs), tries
        case "GROUPREF":
            return 1.0, length
        case "GROUPREF_EXISTS":
            costs = [_count(branch, length) for branch in value[1:] if branch is not None]
            return sum(ways for ways, _steps in costs), sum(steps for _ways, steps in costs)
    return 1.0, 1.0


def _is_separated(items: Any) -> bool:
    """Whether each round begins with a mark that stands nowhere else in it, and fits what is between two in one way."""
    while len(items) == 1 and str(items[0][0]) == "SUBPATTERN":
        items = items[0][1][-1]
    if len(items) < 2 or str(items[0][0]) != "LITERAL":
        return False
    mark = chr(items[0][1])
    if mark.isalnum() or not mark.isascii():
        return False
    varying = 0
    for item in items[1:]:
        kind, value = str(item[0]), item[1]
        if kind in ("MAX_REPEAT", "MIN_REPEAT"):
            if len(value[2]) != 1:
                return False
            varying += value[0] != value[1]
            kind, value = str(value[2][0][0]), value[2][0][1]
        if not (kind == "LITERAL" and chr(value) != mark) and not (kind == "IN" and _leaves_out(value, mark)):
            return False
    return varying <= 1


def _leaves_out(choices: Any, mark: str) -> bool:
    """Whether a class of characters has no place for this one, which is no letter and no digit."""
    negated = str(choices[0][0]) == "NEGATE"
    for kind, value in ((str(one[0]), one[1]) for one in choices):
        if kind == "LITERAL" and chr(value) == mark:
            return negated
        if kind == "RANGE" and value[0] <= ord(mark) <= value[1]:
            return negated
        if kind == "CATEGORY" and (negated or str(value) not in ("CATEGORY_DIGIT", "CATEGORY_WORD") or mark == "_"):
            return False
    return not negated


def _differ_at_once(branches: Any) -> bool:
    """Whether the first character tells which branch it is, also where capitals are the same."""
    first = [branch[0] if len(branch) else None for branch in branches]
    literal = [chr(one[1]).casefold() for one in first if one is not None and str(one[0]) == "LITERAL"]
    return len(literal) == len(first) == len(set(literal))


def _count_places(items: Any) -> float:
    """The places in a pattern once its repetitions are written out."""
    return sum((_count_places_of(str(item[0]), item[1]) for item in items), 1.0)


def _count_places_of(kind: str, value: Any) -> float:
    match kind:
        case "MAX_REPEAT" | "MIN_REPEAT" | "POSSESSIVE_REPEAT":
            most = value[0] + 1 if str(value[1]) == "MAXREPEAT" else value[1]
            return int(most) * _count_places(value[2])
        case "SUBPATTERN":
            return _count_places(value[-1])
        case "BRANCH":
            return sum(map(_count_places, value[1]))
    return 1.0
