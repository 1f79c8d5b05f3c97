"""A corpus of JSON texts, made here: what every reader takes, what none may, and what readers differ about.

Lives here: the making of the texts, and how one is put into a body. What must not: a request, an assertion, a random
number: two runs make the same bytes, so that a name in a failure names one text for good.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Literal

Kind = Literal["good", "bad", "open"]

WHERE = "@@"


@dataclass(frozen=True, slots=True)
class Case:
    """One text. A good one is accepted wherever it fits; a bad one nowhere; an open one either way, but cleanly."""

    name: str
    kind: Kind
    raw: bytes

    def wrap(self, template: str) -> bytes:
        """As a value within a body: in place of `@@`."""
        return template.encode().replace(WHERE.encode(), self.raw, 1)

    def read(self) -> Any:
        """What it says, of a text that somebody accepted."""
        return json.loads(self.raw)


def make_corpus() -> list[Case]:
    """All of it; no two texts are the same, nor two names."""
    found: dict[bytes, Case] = {}
    kinds: list[tuple[Kind, Iterator[tuple[str, bytes]]]] = [("good", _good()), ("bad", _bad()), ("open", _open())]
    for kind, made in kinds:
        for name, raw in made:
            found.setdefault(raw, Case(f"{kind}-{name}", kind, raw))
    return list(found.values())


def _named(prefix: str, *texts: str) -> Iterator[tuple[str, bytes]]:
    for n, text in enumerate(texts):
        yield f"{prefix}-{n}", text.encode()


def _bytes(prefix: str, *texts: bytes) -> Iterator[tuple[str, bytes]]:
    for n, raw in enumerate(texts):
        yield f"{prefix}-{n}", raw


def nest(opening: str, closing: str, times: int, inner: str = "") -> str:
    """`inner`, wrapped that often."""
    return opening * times + inner + closing * times


# --- good ---------------------------------------------------------------------------------------------


def _good() -> Iterator[tuple[str, bytes]]:
    yield from _named("word", "true", "false", "null", "[true,false,null]", '{"t":true,"f":false,"n":null}')
    yield from _named("integer", "0", "-1", "7", "10", "123456789", "9007199254740993", "-9223372036854775808", "[0,0]")
    yield from _named(
        "fraction", "0.0", "-0.5", "3.25", "0.1", "1234.5678", "10.010", "-2.000001", "0.3000000000000001"
    )
    yield from _named(
        "exponent", "1e0", "1E2", "2e+3", "2E-3", "-4e5", "1.5e10", "1.5E-10", "0e1", "0.0e-0", "6.02E+23"
    )
    yield from _named("text", '""', '"a"', '" "', '"a b"', '"0"', '"null"', '"a,b:c"', '"[{}]"', '"/"', '"#//"', '"@"')
    yield from _named("escape", r'"\""', r'"\\"', r'"\/"', r'"\b"', r'"\f"', r'"\n"', r'"\r"', r'"\t"', r'"\\n"')
    yield from _named(
        "point", r'"\u0061"', r'"\u00E9"', r'"\u00e9"', r'"\u20ac"', r'"\uD83D\uDE00"', r'"\ud834\udd1e"',
        r'"\u2028\u2029"', r'"\u007f"', r'"\u001f"', r'"\ufffd"', r'"\\u0000"', r'"\u0022"', r'"\u005C"', r'"\uFEFF"',
    )  # fmt: skip
    yield from _named(
        "unicode", '"é"', '"e\u0301"', '"漢字"', '"🧭"', '"\u2028"', '"\u2029"', '"\x7f"', '"\ufeff"', '"\ufdd0"',
        '"\U0010fffe"', '"שלום"', '"\u202egnp.exe"', '"\u200b\u200d"', '"👩\u200d🚀"', '"\u0085\u00a0"', '"\U00010000"',
        '{"ключ":"значение"}',
    )  # fmt: skip
    yield from _named("list", "[]", "[ ]", "[[]]", "[1]", "[1,2,3]", '[1,"a",null,{}]', "[[1],[2,[3]]]", "[[],[[]]]")
    yield from _named(
        "object", "{}", "{ }", '{"a":1}', '{"a":{"b":{"c":[]}}}', '{"a":1,"A":2}', '{"a b":1,"c\\td":2}', '{"1":1}',
        '{"é":1,"e\u0301":2}', r'{"\u0061":1,"b":2}', '{"a":[{"b":1},{"b":1}]}', '{"x":null,"y":[null]}',
    )  # fmt: skip
    yield from _named("space", " 1", "1 ", "\n[\n1\n,\n2\n]\n", "\t{\t}\t", "\r\n{\r\n}\r\n", '{ "a" : [ 1 , 2 ] }')
    for depth in (2, 8, 16, 29, 30):
        yield f"lists-{depth}", nest("[", "]", depth).encode()
        yield f"objects-{depth}", nest('{"a":', "}", depth, "1").encode()
    yield "wide-list", ("[" + ",".join(map(str, range(2_000))) + "]").encode()
    yield "wide-object", json.dumps({f"k{n}": n for n in range(1_000)}).encode()
    yield "long-text", json.dumps("long " * 20_000).encode()
    yield "brackets-in-text", json.dumps("[{" * 500).encode()
    yield "markup", json.dumps("<script>alert(1)</script>{{ x }}{% y %}&amp;'\"").encode()
    yield "formulas", json.dumps(["=1+1", "+1", "-1", "@a", "\t=1"]).encode()


# --- bad ----------------------------------------------------------------------------------------------

WHOLE = '{"a":[1,-2.5e1,true,null,"x\\u00e9\\n"],"b":{}}'


def _bad() -> Iterator[tuple[str, bytes]]:
    for end in range(1, len(WHOLE)):
        yield f"cut-{end}", WHOLE[:end].encode()
    for word in ("true", "false", "null"):
        yield f"cut-{word}", word[:-1].encode()
        yield f"case-{word}", word.title().encode()
        yield f"long-{word}", (word + word[-1]).encode()
    yield from _bytes("nothing", b"", b" ", b"\n", b"\t\r\n ")
    yield from _named(
        "bracket", "[", "]", "{", "}", "[[", "]]", "{{", "}}", "[}", "{]", "[[]", "[]]", "{}}", "][", "}{"
    )
    yield from _named("comma", "[1,]", "[,]", "[,1]", "[1,,2]", ",", '{"a":1,}', "{,}", '{,"a":1}', '{"a":1,,"b":2}')
    yield from _named(
        "colon", '{"a"}', '{"a":}', '{"a"::1}', '{"a":1:2}', '{"a",1}', "[1:2]", '{"a"=1}', "{:1}", '{"a"'
    )
    yield from _named(
        "name", "{a:1}", "{'a':1}", "{1:1}", "{null:1}", "{[]:1}", "{$:1}", "{a-b:1}", "{true:1}", "{``:1}"
    )
    yield from _named(
        "quote", "'a'", "`a`", "“a”", "«a»", "a", '"a', 'a"', '"a""b"', '"a"b', r"\"a\"", '"""a"""', "[a]"
    )
    yield from _named(
        "number", "+1", "[+0]", "++1", "--1", "- 1", "-", "[-]", "01", "-01", "00", "[012]", "1.", "-1.", ".5", "-.5",
        "1.e1", "1e", "1e+", "1E-", "1ee1", "1e1.5", "1.2.3", "0x1F", "0o17", "0b1", "1_000", "1,000", "1 000", "1a",
        "1f", "10n", "½", "\u0661", "\uff11", "\u2212 1", "1e\u0661", "²", "0.0.0", "e1", "#1", "$1", "1%",
    )  # fmt: skip
    yield from _named("not-a-number", "NaN", "-NaN", "nan", "Infinity", "-Infinity", "inf", "[NaN]", '{"a":Infinity}')
    yield from _named(
        "word", "undefined", "None", "nil", "TRUE", "yes", "on", "void 0", "new Date()", "a()", "/a/", "*"
    )
    yield from _named(
        "escape", r'"\x41"', r'"\a"', r'"\0"', r'"\'"', r'"\u"', r'"\u1"', r'"\u12"', r'"\u123"', r'"\u123g"',
        r'"\U0041"', r'"\u{41}"', r'"\u-041"', r'"\u+041"', r'"\u 041"', r'"\ "', r'"\é"', '"\\', '"\\"', '"\\\n"',
        r'\u0022a\u0022',
    )  # fmt: skip
    for code in (0x00, 0x01, 0x08, 0x09, 0x0A, 0x0B, 0x0C, 0x0D, 0x1B, 0x1F):
        yield f"control-{code:02x}", b'"a' + bytes([code]) + b'b"'
    yield from _bytes("nul", b"\x00", b"[1]\x00", b"\x00[1]", b"[\x001]", b'{"a\x00":1}', b"\x00\x00\x00\x00")
    yield from _named(
        "blank", "[\x0b1]", "[\x0c1]", "[\u00a01]", "[\u20281]", "\u200b[1]", "[1]\u3000", "[\x1b1]", "[1]\x85"
    )
    yield from _named(
        "comment", "/**/1", "1/**/", "//\n1", "1//", "#\n1", "[1/**/]", "1 --", "<!-- --> 1", '{"a":/**/1}'
    )
    yield from _named(
        "after", "1 2", "[1]x", "{}[]", '"a" "b"', "{}{}", "null,", "[1],", "nullnull", "1;", "{};", "[]#", "1 1"
    )
    yield from _named("other", "<a/>", "a: 1", "a=1", "- a", "(1)", "[(1)]", "data", "{{1}}", "[1 2]", '{"a":1 "b":2}')
    yield from _named("mark", "\ufeff{}", "\ufeff1", "\ufeff", "\ufeff\ufeff[]", " \ufeff[]", "[]\ufeff")
    for form in ("utf-16", "utf-16-le", "utf-16-be", "utf-32", "utf-32-le", "utf-32-be"):
        yield f"{form}-object", '{"é":1}'.encode(form)
    yield "latin-1", '"é"'.encode("latin-1")
    yield "ebcdic", '{"a":1}'.encode("cp037")
    for name, raw in {
        "continuation": b"\x80", "lead": b"\xe9", "lead-2": b"\xc3", "cut-3": b"\xe2\x82", "cut-4": b"\xf0\x9f\xa7",
        "long-nul": b"\xc0\x80", "long-slash": b"\xc0\xaf", "long-3": b"\xe0\x80\xaf", "long-4": b"\xf0\x80\x80\xaf",
        "surrogate": b"\xed\xa0\x80", "pair": b"\xed\xa0\xbd\xed\xb8\x80", "above": b"\xf4\x90\x80\x80",
        "five": b"\xf8\x88\x80\x80\x80", "six": b"\xfc\x84\x80\x80\x80\x80", "fe": b"\xfe", "ff": b"\xff\xff",
    }.items():  # fmt: skip
        yield f"utf-8-{name}", b'"' + raw + b'"'
    yield from _bytes("utf-8-outside", b"\xff", b"[\xff]", b"\xe9", b'{"\xff":1}', b"[1]\xc3\x28", b"\xc0\xdb\xc0\xdd")
    for name, part in (("lists", "["), ("objects", '{"a":'), ("both", '[{"a":'), ("empty-names", '{"":')):
        yield f"bomb-{name}", (part * 100_000).encode()
    yield "bomb-closed", nest("[", "]", 100_000).encode()
    yield "closers", b"]" * 100_000


# --- open: readers differ -------------------------------------------------------------------------------


def _open() -> Iterator[tuple[str, bytes]]:
    yield from _named(
        "huge-exponent", "1e400", "-1e400", "1E+9999", "[1e309]", "0.1e401", "1e99999999999999999999", "123e456"
    )
    yield from _named(
        "tiny-exponent", "1e-400", "-1e-400", "5e-324", "2.2250738585072011e-308", "1e-99999999999999999999"
    )
    yield from _named(
        "edge", "1.7976931348623157e308", "-1.7976931348623157e308", "1e308", "0e400", "1.7976931348623159e308"
    )
    yield from _named("zero", "-0", "-0.0", "[-0]", "-0e5", '{"a":-0.0}', "0.00")
    for digits in (20, 40, 309, 4_299, 4_300, 4_301, 10_000):
        yield f"digits-{digits}", b"9" * digits
        yield f"digits-minus-{digits}", b"-" + b"1" * digits
    yield "digits-fraction", b"0." + b"3" * 5_000
    yield "digits-before-fraction", b"3" * 5_000 + b".5"
    yield from _named(
        "surrogate", r'"\ud800"', r'"\udc00"', r'"a\udfffb"', r'"\udc00\ud800"', r'"\ud800\ud800"', r'"\ud83d\u0041"',
        r'["\ud83dx"]', r'{"\ud800":1}', r'{"a":{"\udfff":1}}', r'"\ud800\\udc00"',
    )  # fmt: skip
    yield from _named(
        "nul", r'"\u0000"', r'"a\u0000b"', r'{"\u0000":1}', r'{"a":{"b\u0000":1}}', r'["\\\u0000"]', r'"\u0000\u0000"'
    )
    yield from _named(
        "twice", '{"a":1,"a":2}', '{"a":1,"a":1}', r'{"a":1,"\u0061":2}', '{"b":{"a":1,"a":2}}', '[{"":1,"":1}]',
        r'{"é":1,"\u00e9":2}', r'{"\/":1,"/":2}',
    )  # fmt: skip
    yield from _named(
        "strange-name", '{"":1}', '{" ":1}', '{"__proto__":{"polluted":1}}', '{"constructor":{"prototype":1}}',
        '{"__class__":"x"}', '{"$ref":"#/"}', '{"$":1}', '{"a.b":1,"a[0]":2}', '{"toString":1}',
        '{"status":200,"id":"x"}',
    )  # fmt: skip
    for depth in (31, 32, 33, 34):
        yield f"deep-lists-{depth}", nest("[", "]", depth).encode()
        yield f"deep-objects-{depth}", nest('{"a":', "}", depth, "0").encode()
    yield "long-name", json.dumps({"n" * 5_000: 1}).encode()
    yield "many-empty", b"[" + b",".join([b"{}"] * 5_000) + b"]"
    yield "written-out", b"[" + b",".join([b"1e300"] * 3_000) + b"]"
    yield "half-a-mebibyte", json.dumps("x" * 512 * 1024).encode()
