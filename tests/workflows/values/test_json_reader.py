"""Bodies of requests: what strict JSON refuses, and at which place it says so."""

import json
import re

import pytest
from django.test import RequestFactory
from hypothesis import given
from hypothesis import strategies as st

from workflows.rest.base.json_body import parse_body, parse_object, read_bytes
from workflows.rest.protocol.problems import RequestRefused, answer_error
from workflows.values.json_text import MAX_DEPTH, MAX_DIGITS

PLACE = re.compile(r"at (line \d+ column \d+|byte \d+|\$)")


def refusal(raw: bytes) -> str:
    """What is said about a body; it always has a place."""
    with pytest.raises(RequestRefused) as caught:
        parse_body(raw)
    response = answer_error(caught.value)
    assert response is not None
    assert response.status_code == 400
    detail = json.loads(response.content)["detail"]
    assert PLACE.search(detail), detail
    assert len(response.content) < 1500
    return str(detail)


# --- grammar ------------------------------------------------------------------------------------------

BAD_GRAMMAR = [
    # nothing, or too much
    b" ",
    b"\n\t ",
    b"{",
    b"}",
    b"[",
    b"]",
    b"[]]",
    b"{}}",
    b"[1]x",
    b'{"a":1} {"b":2}',
    b'{"a":1}#',
    b'{"a":1}/**/',
    b'{"a":1}//',
    b"[1],",
    b"1 2",
    b'"a" "b"',
    b"nullnull",
    # arrays
    b"[1,]",
    b"[,1]",
    b"[1,,2]",
    b"[,]",
    b"[1 2]",
    b"[1:2]",
    b"[1",
    b'["a"',
    b'["a",\n4\n,1,',
    b"[1}",
    b"[(1)]",
    b"[*]",
    b"[[[",
    # objects
    b'{"a":1,}',
    b"{,}",
    b'{"a"}',
    b'{"a",1}',
    b'{"a":}',
    b'{"a":1 "b":2}',
    b'{"a"::1}',
    b'{"a":1:2}',
    b"{a:1}",
    b"{'a':1}",
    b"{1:1}",
    b"{null:1}",
    b"{[]:1}",
    b'{"a":1,,"b":2}',
    b'{"a"',
    b'{"a":',
    b'{"a":"b"',
    b'{"a":1]',
    # literals
    b"True",
    b"FALSE",
    b"Null",
    b"nul",
    b"tru",
    b"undefined",
    b"[nan]",
    b"[inf]",
    b"None",
    # numbers
    b"01",
    b"-01",
    b"[012]",
    b"+1",
    b"[++1]",
    b"-",
    b"[-]",
    b"--1",
    b"1.",
    b"[2.e3]",
    b".5",
    b"-.5",
    b"1e",
    b"1e+",
    b"1E-",
    b"1ee2",
    b"0x1F",
    b"1_000",
    b"1,5",
    b"[1a]",
    b"[- 1]",
    b"0.3e+",
    b"[1.0.0]",
    "[\uff11]".encode(),
    "[\u0661]".encode(),
    "[\u22121]".encode(),
    # texts
    b'"',
    b'"abc',
    b'"\\"',
    b'["a\x00b"]',
    b'["a\nb"]',
    b'["a\tb"]',
    b'["a\x1fb"]',
    b'["\\x00"]',
    b'["\\\'"]',
    b'["\\a"]',
    b'["\\u12"]',
    b'["\\u00zz"]',
    b'["\\u 123"]',
    b'["\\u+123"]',
    b'["\\U0001F600"]',
    b'["\\',
    b"['a']",
    "[“a”]".encode(),
    b'[\\"a"]',
    # white space that JSON does not know
    b"[1]\x00",
    b"\x00[1]",
    b"[\x0c1]",
    b"[\x0b1]",
    "[\u00a01]".encode(),
    "\u2060[1]".encode(),
    "[1]\u2028".encode(),
]

BAD_BYTES = [
    b"",
    b"\xef\xbb\xbf{}",
    b"\xef\xbb\xbf",
    b"\xff\xfe{\x00}\x00",
    b"\xfe\xff\x00{\x00}",
    '{"a":1}'.encode("utf-16"),
    '{"a":1}'.encode("utf-32"),
    b'["\xff"]',
    b'["\xe9"]',
    b'["\xc0\x80"]',
    b'["\xc0\xaf"]',
    b'["\xed\xa0\x80"]',
    b'["\xed\xa0\xbd\xed\xb8\x80"]',
    b'["\xf4\x90\x80\x80"]',
    b'["\xf8\x88\x80\x80\x80"]',
    b'["\xe2\x82"]',
    b'["\x80"]',
    b'{"a":1}\x80',
]

BAD_VALUES = [
    (b'{"data":NaN}', "$.data"),
    (b'{"data":[1,Infinity]}', "$.data[1]"),
    (b'{"data":-Infinity}', "$.data"),
    (b"NaN", "$"),
    (b'{"a":{"b":[0,1e400]}}', "$.a.b[1]"),
    (b'{"a":-1e400}', "$.a"),
    (b'{"a":1E+9999}', "$.a"),
    (b'{"a":"\\u0000"}', "$.a"),
    (b'{"a":"x\\u0000y"}', "$.a"),
    (b'{"a":"\\\\\\u0000"}', "$.a"),
    (b'{"\\u0000":1}', "$"),
    (b'{"a":"\\ud800"}', "$.a"),
    (b'{"a":"\\udc00x"}', "$.a"),
    (b'{"a":"\\udc00\\ud800"}', "$.a"),
    (b'{"a":["\\ud83d\\u0041"]}', "$.a[0]"),
    (b'{"\\udfff":1}', "$"),
    (b'{"a":1,"a":2}', "$.a"),
    (b'{"a":1,"a":1}', "$.a"),
    (b'{"a":1,"\\u0061":2}', "$.a"),
    (b'{"b":[0,{"c":1,"d":2,"c":3}]}', "$.b[1].c"),
    (b'{"":0,"":0}', "$."),
    (b'[{"x":{"y":1,"y":{"y":1}}}]', "$[0].x.y"),
]


@pytest.mark.parametrize("raw", BAD_GRAMMAR + BAD_BYTES)
def test_what_is_no_json_is_refused_at_its_place(raw):
    refusal(raw)


@pytest.mark.parametrize(("raw", "place"), BAD_VALUES)
def test_a_value_that_cannot_be_kept_is_refused_at_its_path(raw, place):
    assert f"at {place}" in refusal(raw)


def test_there_are_enough_of_them():
    assert len(BAD_GRAMMAR + BAD_BYTES + BAD_VALUES) >= 80


@pytest.mark.parametrize("end", [b"", b"x", b",", b"]"])
def test_a_fault_after_a_name_that_stands_twice_is_a_fault_all_the_same(end):
    refusal(b'{"a":1,"a":2' + end)
    refusal(b'[{"a":1,"a":2},' + b"9" * (MAX_DIGITS + 1) + b"]")


def test_the_place_is_where_one_would_look():
    assert "line 3 column 3" in refusal(b'{\n "a": 1,\n  b: 2}')
    assert "byte 9" in refusal(b'{"data":"\xff"}')
    assert "not UTF-8" in refusal(b'{"data":"\xff"}')
    assert "byte order mark" in refusal(b"\xef\xbb\xbf{}")
    assert "empty" in refusal(b"")


# --- depth and size -----------------------------------------------------------------------------------


@pytest.mark.parametrize(("opening", "inner", "closing"), [("[", "", "]"), ('{"a":', "1", "}"), ('[{"a":', "[]", "}]")])
def test_depth_is_limited_to_what_can_be_kept(opening, inner, closing):
    per = opening.count("[") + opening.count("{")
    most = (MAX_DEPTH - inner.count("[")) // per
    parse_body(f"{opening * most}{inner}{closing * most}".encode())
    told = refusal(f"{opening * (most + 1)}{inner}{closing * (most + 1)}".encode())
    assert f"{MAX_DEPTH} levels" in told


def test_brackets_in_texts_are_no_depth():
    text = "[{" * 100 + '\\"' + "]"
    assert parse_body(json.dumps([text, "\\", text]).encode()) == [text, "\\", text]


@pytest.mark.parametrize("bomb", [b"[", b'{"a":', b'[{"":', b'{"a":[{"b":'])
def test_a_depth_bomb_is_refused_before_anything_recursive(bomb):
    assert "levels" in refusal(bomb * 100_000)


def test_many_side_by_side_are_not_deep():
    assert len(parse_body(b"[" + b",".join([b"[{}]"] * 10_000) + b"]")) == 10_000


@pytest.mark.parametrize(
    "hostile",
    [
        b'"' + b'\\"' * 250_000,
        b'["' + b"\\\\" * 250_000,
        b"[" * 33 + b'"' + b'\\"' * 200_000,
        b"[" + b"9" * 500_000 + b"]",
        b"[" + (b"9" * 4300 + b",") * 110 + b"9" * 4301 + b"]",
        b'{"' + b"k" * 250_000 + b'":[' + b"[]," * 60_000 + b"NaN]}",
        b'{"' + b"k" * 250_000 + b'":[' + b"[]," * 60_000 + b'{"a":1,"a":2}]}',
        b"[" + b'{"a":1},' * 50_000 + b'{"a":1,"a":2}]',
        b"-" * 500_000,
        b"[1e" + b"9" * 400_000 + b"]",
        b"{" + b",".join(b'"%d":0' % n for n in range(40_000)) + b',"1":0}',
    ],
)
def test_no_body_within_the_limit_keeps_a_worker_busy(hostile):
    """Read in more than linear time or memory, these would take minutes, or all of the machine."""
    refusal(hostile)


@pytest.mark.parametrize("digits", [MAX_DIGITS + 1, 10_000])
def test_a_number_of_too_many_digits_is_named_with_the_limit(digits):
    for sign in ("", "-"):
        told = refusal(f'{{"a": "{"1" * 9000}",\n"b": {sign}{"1" * digits}}}'.encode())
        assert str(MAX_DIGITS) in told
        assert f"line 2 column {6 + len(sign)}" in told


def test_the_longest_number_is_read():
    assert parse_body(b"9" * MAX_DIGITS) == 10**MAX_DIGITS - 1


# --- what is good stays good --------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("raw", "value"),
    [
        (b"{}", {}),
        (b' \r\n\t{"data" : null}\n', {"data": None}),
        (b'{"data":1,"Data":2}', {"data": 1, "Data": 2}),
        (b"[0,-0,1e5,1E-2,-1.5e+3]", [0, 0, 1e5, 0.01, -1500.0]),
        (b'"\\ud83d\\ude00"', "😀"),
        ('"😀‮é"'.encode(), "😀\u202eé"),
        (b'"\\\\u0000"', "\\u0000"),
        (b'"\\/\\b\\f\\n\\r\\t"', "/\b\f\n\r\t"),
        ('"\x7f\u2028"'.encode(), "\x7f\u2028"),
        (b"null", None),
        (b"1e-400", 0.0),
    ],
)
def test_good_json_is_read(raw, value):
    assert parse_body(raw) == value


json_values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(10**30), 10**30)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"])),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text("abé", max_size=3), inner, max_size=4),
    max_leaves=20,
)


@given(json_values, st.booleans())
def test_whatever_json_writes_is_read_back(value, ascii_only):
    assert parse_body(json.dumps(value, ensure_ascii=ascii_only).encode()) == value


@given(st.binary(max_size=60))
def test_what_others_cannot_read_is_refused_with_a_place(raw):
    try:
        json.loads(raw)
    except (ValueError, RecursionError):
        refusal(raw)


# --- around the body ----------------------------------------------------------------------------------

requests = RequestFactory()


def send(raw: bytes | str, content_type: str = "application/json", **headers):
    return requests.post("/", raw, content_type=content_type, headers=headers)


def read_object(request):
    return parse_object(read_bytes(request))


def status(request, read=read_object) -> tuple[int, str]:
    with pytest.raises(RequestRefused) as caught:
        read(request)
    return caught.value.kind.status, caught.value.detail


@pytest.mark.parametrize(
    "kind", ["application/json", "application/json; charset=utf-8", "APPLICATION/JSON;charset=UTF8"]
)
def test_json_is_taken(kind):
    assert read_object(send(b'{"data":1}', kind)) == {"data": 1}


@pytest.mark.parametrize(
    "kind",
    [
        "",
        "text/plain",
        "text/json",
        "application/jsonp",
        "application/json; charset=latin-1",
        "application/json; charset=utf-16",
        "application/x-www-form-urlencoded",
        "multipart/form-data; boundary=x",
        "*/*",
        "application/json, text/plain",
    ],
)
def test_another_media_type_is_415_whatever_the_body(kind):
    for raw in (b'{"data":1}', b"x" * 2000, b""):
        code, detail = status(send(raw, kind))
        assert code == 415
        assert "Content-Type: application/json" in detail


def test_a_packed_body_is_415():
    assert status(send(b"{}", **{"Content-Encoding": "gzip"}))[0] == 415
    assert read_object(send(b"{}", **{"Content-Encoding": "identity"})) == {}


@pytest.mark.parametrize("raw", [b"[]", b'"data"', b"1", b"null", b"true"])
def test_a_body_that_is_no_object_is_refused(raw):
    assert status(send(raw)) == (
        400,
        'The body cannot be read: at $: the body must be a JSON object, such as {"data": …}.',
    )
    assert parse_body(read_bytes(send(raw))) == json.loads(raw)


def test_the_limit_is_named_in_digits_and_exact(settings):
    settings.WORKFLOWS = {**settings.WORKFLOWS, "MAX_BODY": 100}
    raw = b'{"data":"%s"}' % (b"x" * 90)
    assert len(raw) == 101
    assert status(send(raw)) == (413, "The body is larger than 100 bytes, the limit. Send a reference instead.")
    assert read_object(send(raw.replace(b"xx", b"x", 1)))
    assert parse_object(read_bytes(send(raw), limit=101))


def test_the_announced_size_is_enough_to_refuse():
    request = send(b"{}")
    request.META["CONTENT_LENGTH"] = str(10**12)
    assert status(request)[0] == 413


def test_a_size_that_was_announced_too_small_changes_nothing(settings):
    settings.WORKFLOWS = {**settings.WORKFLOWS, "MAX_BODY": 100}
    request = send(b'{"data":"' + b"x" * 200 + b'"}')
    request.META["CONTENT_LENGTH"] = "10"
    assert status(request)[0] == 413


@pytest.mark.parametrize("told", ["", "x", "-5", "1e3"])
def test_a_size_that_is_no_number_is_refused_or_not_needed(told):
    request = send(b'{"data":1}')
    request.META["CONTENT_LENGTH"] = told
    if told in {"x", "1e3"}:
        assert status(request)[0] == 400
    else:
        assert read_object(request) == {"data": 1}


def test_a_limit_for_forms_is_not_one_for_answers(settings):
    settings.DATA_UPLOAD_MAX_MEMORY_SIZE = 10
    assert read_object(send(b'{"data":"more than ten bytes"}'))


def test_a_connection_that_breaks_is_told(monkeypatch):
    request = send(b'{"data":1}')

    class Broken:
        def read(self, *args):
            raise OSError("gone")

    request._stream = Broken()
    code, detail = status(request)
    assert (code, "broke" in detail) == (400, True)


def test_a_long_name_is_not_repeated_in_full():
    assert len(refusal(b'{"' + b"k" * 100_000 + b'":NaN}')) <= 500
    assert len(refusal(b'{"%s":1,"%s":2}' % (b"k" * 100_000, b"k" * 100_000))) <= 500
