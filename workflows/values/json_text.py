"""Values on their way into jsonb: the one gate through which author's and caller's data passes.

Lives here: turning a value into JSON text that PostgreSQL will take and that reads back as it was
written, or saying where it cannot; and reading such a text as PostgreSQL will hand it back. Invariants owned:

* No NUL, no lone surrogate, no NaN or infinity, no nesting deeper than 32 and nothing above its size limit
  ever reaches a statement, because one bad value there would fail a whole batch.
* A value that was just stored and one that was read from its row are the same, the order of keys included.
"""

import json
import math
import re
from collections.abc import Callable
from decimal import Decimal
from typing import Any, Final

from django.core.serializers.json import DjangoJSONEncoder

from workflows.exceptions import InvalidCall, NotSerializable, TooLarge, show
from workflows.wording.messages import Reason, ngettext_lazy
from workflows.wording.messages import gettext_noop as _


class _Missing:
    def __repr__(self) -> str:
        return "MISSING"


#: For doors where the data may have been left out: `None` is data.
MISSING: Final = _Missing()

MAX_DEPTH = 32
#: Python refuses to read longer integers back from text.
MAX_DIGITS = 4300
_TOO_LONG = 10**MAX_DIGITS
LIMIT_PAYLOAD = 512 * 1024
LIMIT_VALUE = 1024 * 1024

#: As short as JSON can be written, so that what was within its limit when it was sent still is.
_encoder = DjangoJSONEncoder(ensure_ascii=False, allow_nan=False, separators=(",", ":"))


def _make_writer(encoder: json.JSONEncoder) -> Callable[[Any], str]:
    """`encoder.encode` without its Python half, which takes longer than a small text does."""
    make: Any = getattr(json.encoder, "c_make_encoder", None)
    if make is None:
        return encoder.encode
    default, quote = encoder.default, json.encoder.encode_basestring

    def write(value: Any) -> str:
        # The first argument is what it remembers of where it is, so that no value contains itself.
        return "".join(make({}, default, quote, None, ":", ",", False, False, False)(value, 0))

    return write


_write = _make_writer(_encoder)
_EXPONENT = re.compile(r"\de[+-](\d{1,3})")
#: What people are told of a character that they did not see themselves type.
UNKEEPABLE = Reason(_("This has a character that cannot be kept. Delete it, or type the text anew."))
_NUL = re.compile(r"(?<!\\)(?:\\\\)*\\u0000")


def dump_value(value: Any, what: str, limit: int = LIMIT_VALUE, *, measured: bool = False) -> str:
    """The JSON text of `value`; `what` names it in the error ("payload of signal 'paid'").

    Of a value whose depth has been `measured` already, only one with a NUL in sight is walked.

    >>> dump_value({"a": [1, None]}, "payload")
    '{"a":[1,null]}'
    """
    try:
        text = _write(value)
        size = len(text) if text.isascii() else len(text.encode())
        if "e+" in text or "e-" in text:
            # jsonb keeps numbers written out: 1e300 is six characters here and 301 there.
            size += sum(int(exponent) for exponent in _EXPONENT.findall(text))
    except (TypeError, ValueError, RecursionError, UnicodeEncodeError) as error:
        raise _located(value, what, str(error)) from error
    if size > limit:
        raise TooLarge(what, size, limit)
    # Counting brackets in the text is a cheap upper bound; only a suspicious value is walked.
    deep = not measured and text.count("{") + text.count("[") > MAX_DEPTH
    if deep or ("\\u0000" in text and _NUL.search(text)):
        _check(value, what)
    return text


def read_back(text: str) -> Any:
    """The value of a text of `dump_value`, as its row will have it: jsonb has an order of its own for keys.

    It writes numbers out, so that 1e16 is an integer, and knows no negative zero.

    >>> read_back('{"banana":1e+16,"fig":-0.0}')
    {'fig': 0.0, 'banana': 10000000000000000}
    """
    if "{" in text or "e+" in text or "-0.0" in text:
        return _decoder.decode(text)
    return json.loads(text)


def _read_object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Shorter keys first, equally long ones by their bytes; of a key that comes twice the last value."""
    value = dict(pairs)
    return value if len(value) < 2 else dict(sorted(value.items(), key=_place_of_key))


def _place_of_key(item: tuple[str, Any]) -> tuple[int, bytes]:
    key = item[0].encode()
    return len(key), key


def _read_float(text: str) -> float | int:
    # From 1e16 on a float is a whole number, and is written with an exponent.
    return int(Decimal(text)) if "e+" in text else float(text) + 0.0


#: Made once: `json.loads` would make one for each text, which takes longer than reading a small one.
_decoder = json.JSONDecoder(object_pairs_hook=_read_object, parse_float=_read_float)


def check_text(value: object, what: str, *, limit: int = 200, blank: bool = False) -> str:
    """`value` as usable text for a name or a key: not empty, no NUL, no lone surrogate, bounded.

    >>> check_text("paid", "a signal's name")
    'paid'
    """
    if not isinstance(value, str):
        raise InvalidCall(f"{what} must be text, not {type(value).__name__} ({show(value)})")
    if not value.strip() and not (blank and value == ""):
        raise InvalidCall(f"{what} must not be empty", reason=Reason(_("must not be empty")))
    if len(value) > limit:
        told = ngettext_lazy("must have at most %(limit)s character", "must have at most %(limit)s characters")
        reason = Reason(told, {"limit": str(limit)}, limit)
        raise InvalidCall(f"{what} has {len(value)} characters, the limit is {limit}", reason=reason)
    if not value.isascii() or "\0" in value:
        problem = _text_problem(value)
        if problem:
            raise InvalidCall(f"{what} cannot be stored: {problem}", reason=UNKEEPABLE)
    return value


#: Names and dedup keys of the signals that the engine makes itself begin with this.
RESERVED = "holdpoint:"


def check_signal_name(value: object, what: str) -> str:
    """Text for a signal's name or dedup key that cannot be mistaken for one of the engine's own."""
    text = check_text(value, what)
    if text.startswith(RESERVED):
        raise InvalidCall(f"{what} must not begin with {RESERVED!r}: such names belong to the engine")
    return text


def _text_problem(text: str) -> Reason | None:
    if "\0" in text:
        return Reason(_("it contains a NUL character, which PostgreSQL cannot store"))
    try:
        text.encode()
    except UnicodeEncodeError:
        return Reason(_("it contains a lone surrogate, which is not valid Unicode"))
    return None


def _located(value: Any, what: str, problem: str) -> NotSerializable:
    """The error with the path of the first offending place; falls back to the encoder's own words."""
    try:
        _check(value, what)
    except NotSerializable as found:
        return found
    return NotSerializable(what, "$", problem)


#: Where a value stands: its parent's place and one step. Text only when it is told: a path for each value would
#: repeat a long key as often as there are values below it.
_Place = tuple[Any, Any]


def _check(root: Any, what: str) -> None:
    """Walk without recursion: the value may be deeper than Python's stack, or contain itself."""
    waiting: list[tuple[Any, _Place, int]] = [(root, (None, "$"), 0)]
    while waiting:
        value, place, depth = waiting.pop()
        if isinstance(value, dict | list | tuple):
            if depth >= MAX_DEPTH:
                told = Reason(_("it is nested deeper than %(n)s levels"), {"n": str(MAX_DEPTH)})
                raise NotSerializable(what, _tell_place(place), told)
            waiting.extend(_children(value, what, place, depth + 1))
        elif problem := _find_problem(value):
            raise NotSerializable(what, _tell_place(place), problem)


def _children(
    value: dict[Any, Any] | list[Any] | tuple[Any, ...], what: str, place: _Place, depth: int
) -> list[tuple[Any, _Place, int]]:
    if not isinstance(value, dict):
        return [(item, (place, index), depth) for index, item in enumerate(value)]
    found = []
    for key, item in value.items():
        if not isinstance(key, str | int | float | bool | None):
            raise NotSerializable(what, _tell_place(place), f"the key {show(key)} is not text")
        if isinstance(key, str | int) and (problem := _find_problem(key)):
            named = Reason(_("the key %(key)s: %(problem)s"), {"key": show(key), "problem": problem})
            raise NotSerializable(what, _tell_place(place), named if isinstance(key, str) else problem)
        found.append((item, (place, f".{key}" if isinstance(key, str) else f".{show(key)}"), depth))
    return found


def _find_problem(value: Any) -> str | None:
    """What keeps a value that holds no others from being stored."""
    if isinstance(value, str):
        return _text_problem(value)
    if isinstance(value, bool) or value is None:
        return None
    if isinstance(value, int):
        if abs(value) < _TOO_LONG:
            return None
        return Reason(_("the number has more than %(n)s digits"), {"n": str(MAX_DIGITS)})
    if isinstance(value, float):
        return None if math.isfinite(value) else f"{value!r} is not a JSON number"
    try:
        plain = _encoder.default(value)
    except (TypeError, ValueError) as error:
        return f"{type(value).__name__} is not JSON; convert it first ({error})"
    return _text_problem(plain) if isinstance(plain, str) else None


def _tell_place(place: _Place | None) -> str:
    steps: list[str] = []
    while place is not None:
        place, step = place
        steps.append(f"[{step}]" if isinstance(step, int) else f"{step:.80}")
    return "".join(reversed(steps))
