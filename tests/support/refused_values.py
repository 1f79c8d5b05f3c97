"""Values that no column takes, with the place and the words of the refusal; the same at every door."""

import datetime as dt
import math
import uuid
from dataclasses import dataclass
from typing import Any

import pytest
from django.utils.functional import lazystr

from workflows import NotSerializable


def nested(depth: int) -> Any:
    value: Any = "core"
    for n in range(depth):
        value = [value] if n % 2 else {"k": value}
    return value


@dataclass
class Money:
    amount: int = 1


class Opaque:
    def __repr__(self) -> str:
        raise RuntimeError("no repr")


def circle() -> list[Any]:
    value: list[Any] = [1]
    value.append({"again": value})
    return value


def deep() -> Any:
    value: Any = []
    for _ in range(100_000):
        value = [value]
    return value


#: value, where the error says it is, what it says
REFUSED = [
    pytest.param("a\0b", "$", "NUL", id="NUL"),
    pytest.param({"k": ["x", "a\0b"]}, "$.k[1]", "NUL", id="NUL inside"),
    pytest.param({"a\0b": 1}, "$", "NUL", id="NUL in a key"),
    pytest.param({"k": "\\\0"}, "$.k", "NUL", id="NUL after a backslash"),
    pytest.param(lazystr("a\0b"), "$", "NUL", id="NUL in lazy text"),
    pytest.param("\ud800", "$", "surrogate", id="lone surrogate"),
    pytest.param(["\udfff"], "$[0]", "surrogate", id="lone surrogate inside"),
    pytest.param("\ud83d\ude00", "$", "surrogate", id="two surrogates that Python did not join"),
    pytest.param({"k": {"\udc80": 1}}, "$.k", "surrogate", id="surrogate in a key"),
    pytest.param(lazystr("\ud800"), "$", "surrogate", id="surrogate in lazy text"),
    pytest.param(math.nan, "$", "nan", id="NaN"),
    pytest.param({"k": [1.5, math.inf]}, "$.k[1]", "inf", id="infinity inside"),
    pytest.param(-math.inf, "$", "inf", id="minus infinity"),
    pytest.param(float("1e400"), "$", "inf", id="1e400"),
    pytest.param(nested(33), None, "deeper than 32", id="33 levels"),
    pytest.param(deep(), None, "deeper than 32", id="100,000 levels"),
    pytest.param(circle(), None, "deeper than 32", id="a list that contains itself"),
    pytest.param({"n": 10**4300}, "$.n", "4300 digits", id="a number of 4301 digits"),
    pytest.param(-(10**4300), "$", "4300 digits", id="a negative number of 4301 digits"),
    pytest.param({10**4300: 1}, "$", "4300 digits", id="a key of 4301 digits"),
    pytest.param({"k": {1, 2}}, "$.k", "set", id="set"),
    pytest.param([frozenset()], "$[0]", "frozenset", id="frozenset"),
    pytest.param(b"bytes", "$", "bytes", id="bytes"),
    pytest.param({"k": object()}, "$.k", "object", id="object"),
    pytest.param(Money(), "$", "Money", id="dataclass"),
    pytest.param([Opaque()], "$[0]", "Opaque", id="object without a repr"),
    pytest.param(int, "$", "type", id="class"),
    pytest.param(len, "$", "builtin", id="function"),
    pytest.param((n for n in "ab"), "$", "generator", id="generator"),
    pytest.param({}.keys(), "$", "dict_keys", id="keys view"),
    pytest.param(1j, "$", "complex", id="complex"),
    pytest.param({(1, 2): 3}, "$", "key", id="tuple as key"),
    pytest.param({"k": [{b"k": 1}]}, "$.k[0]", "key", id="bytes as key"),
    pytest.param({uuid.UUID(int=1): 3}, "$", "key", id="uuid as key"),
    pytest.param(dt.time(1, 2, tzinfo=dt.UTC), "$", "time", id="aware time"),
]


def check(caught: pytest.ExceptionInfo[Exception], path: str | None, told: str) -> None:
    error = caught.value
    assert isinstance(error, NotSerializable)
    assert path is None or error.path == path
    assert told in str(error)
    assert len(str(error)) < 2_000
    str(error).encode()
