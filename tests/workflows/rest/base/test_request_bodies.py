"""Bodies that are too large, of another kind, packed, empty, or not as long as they say: at every address, alike."""

from __future__ import annotations

import io
import json
import re
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.middleware.csrf import _get_new_csrf_string
from django.test import Client

import workflows
from tests.support.api_calls import Api, make_anybody, make_key, problem
from tests.support.bad_input import (
    EVERY,
    GOOD,
    JSON,
    MAY_BE_EMPTY,
    NOBODY,
    PATCHED,
    TAKEN,
    UNKNOWN,
    calm,
    is_clean,
)
from tests.support.rest_calls import ROUTES as CORPUS_ROUTES
from workflows.models import Instance, StoredAnswer
from workflows.rest.base.json_body import FORM_TYPES
from workflows.testing import assert_done, drain

pytestmark = pytest.mark.django_db


@pytest.fixture
def api(settings: Any) -> Api:
    settings.WORKFLOWS = {**settings.WORKFLOWS, "API_RATE": None}
    return calm(make_anybody())


POSTS = pytest.mark.parametrize("path", GOOD)


def test_every_address_that_takes_a_body_is_attacked_here() -> None:
    """A new one has to be put into `GOOD`, and into the corpus."""
    taking = [route for route in EVERY if "POST" in route.methods or route.name == "resume"]
    assert {route.fill(**NOBODY) for route in taking} == set(GOOD) == set(CORPUS_ROUTES)
    assert {route.fill(**NOBODY) for route in EVERY if "PATCH" in route.methods} == set(PATCHED)


@pytest.mark.parametrize("path", PATCHED)
def test_a_body_that_is_patched_in_is_read_as_one_that_is_posted(api: Api, settings: Any, path: str) -> None:
    settings.WORKFLOWS = {**settings.WORKFLOWS, "MAX_BODY": 2_000}
    assert api.patch(path, raw=PATCHED[path].ljust(2_000)).status_code in TAKEN
    problem(api.patch(path, raw=PATCHED[path].ljust(2_001)), 413, "too-large")
    problem(api.patch(path, raw=PATCHED[path], headers={"Content-Encoding": "gzip"}), 415, "unsupported-media-type")
    problem(api.call("PATCH", path, data=b"{}", content_type="text/plain"), 415, "unsupported-media-type")
    for broken in (b" ", b"{", b"[" * 40, b'{"limit":1,"limit":1}', b'{"limit":NaN}', b'{"limit":"\\u0000"}'):
        problem(api.patch(path, raw=broken), 400, "invalid-body")
    for wrong in ([], "x", {"other": 1}, {"limit": True}, {"limit": 0}, {"rate": 5}, {"rate": "100/fortnight"}):
        problem(api.patch(path, wrong), 400, "invalid-request")


# --- size -----------------------------------------------------------------------------------------------


@POSTS
def test_a_body_may_be_as_large_as_the_limit_and_not_a_byte_larger(api: Api, settings: Any, path: str) -> None:
    settings.WORKFLOWS = {**settings.WORKFLOWS, "MAX_BODY": 2_000, "MAX_BULK_BODY": 3_000}
    limit = 3_000 if GOOD[path].startswith(b"[") else 2_000
    for size in (limit - 1, limit):
        response = api.post(path, raw=GOOD[path].ljust(size))
        assert response.status_code in TAKEN, (size, response.content)
    assert str(limit) in problem(api.post(path, raw=GOOD[path].ljust(limit + 1)), 413, "too-large")["detail"]
    problem(api.post(path, raw=GOOD[path].ljust(limit * 3)), 413, "too-large")


@pytest.mark.parametrize(("path", "limit"), [("/v1/signals", 512 * 1024), ("/v1/signals/bulk", 16 * 1024 * 1024)])
def test_the_limits_are_what_is_promised(api: Api, path: str, limit: int) -> None:
    assert api.post(path, raw=GOOD[path].ljust(limit)).status_code in TAKEN
    assert str(limit) in problem(api.post(path, raw=GOOD[path].ljust(limit + 1)), 413, "too-large")["detail"]


def test_what_is_within_the_limit_as_it_was_sent_is_not_too_large_as_we_write_it(api: Api) -> None:
    """One answer or signal: at most 512 KiB of raw body."""
    row = workflows.start("input-takes", key="k")
    numbers = b"[" + b",".join([b"1"] * 250_000) + b"]"
    response = api.post("/v1/signals", raw=b'{"key":"k","name":"v","payload":%s}' % numbers)
    assert response.status_code == 202, response.content
    drain()
    assert_done(row, [1] * 250_000)


def test_there_is_a_limit_to_how_many_are_answered_at_once(api: Api) -> None:
    """An answer per line: 16 MiB of `0,0,0…` would be told in gigabytes, all of them in memory and then in a row."""
    for sent in (b"[" + b",".join([b"0"] * 300_000) + b"]", b"[" + b",".join([b"{}"] * 300_000) + b"]"):
        told = problem(api.post("/v1/signals/bulk", raw=sent, headers={"Idempotency-Key": "k"}), 413, "too-large")
        assert re.search(r"\d{4,}", told["detail"])
    assert not StoredAnswer.objects.exists()


# --- what kind ------------------------------------------------------------------------------------------


@POSTS
def test_a_body_is_json_in_utf_8_and_nothing_else(api: Api, path: str) -> None:
    for good in (
        JSON,
        "Application/JSON",
        f"{JSON};charset=utf-8",
        f'{JSON}; charset="UTF-8"',
        f"{JSON}; q=1",
        f"{JSON} ",
    ):
        assert send(api, path, content_type=good).status_code in TAKEN, good
    for bad in (
        "", "text/json", "text/plain", "application/x-www-form-urlencoded", "multipart/form-data; boundary=x", "*/*",
        "json", "application/*", "application/jsonx", "application/json-seq", "application/problem+json", "é", ";",
        f"{JSON}, {JSON}", f"{JSON}; charset=latin-1", f"{JSON}; charset=utf-16", f"{JSON}; charset=none", "\x00",
        "x" * 5_000,
    ):  # fmt: skip
        if path.startswith("/resume/") and bad.startswith(FORM_TYPES):
            continue  # partners send forms too
        response = send(api, path, content_type=bad)
        assert response.status_code == 415, (bad, response.content)
        assert response.headers["Accept"].split(", ")[0] == JSON


@POSTS
def test_no_body_is_unpacked(api: Api, path: str) -> None:
    for encoding in ("gzip", "GZIP", "br", "deflate", "zstd", "gzip, identity", "identity, gzip", "x"):
        response = api.post(path, raw=GOOD[path], headers={"Content-Encoding": encoding})
        problem(response, 415, "unsupported-media-type")
    assert api.post(path, raw=GOOD[path], headers={"Content-Encoding": "Identity"}).status_code in TAKEN


@POSTS
def test_a_body_may_be_nested_32_deep_and_no_deeper(api: Api, path: str) -> None:
    for opening, closing in (("[", "]"), ('{"a":', "}")):
        told = problem(api.post(path, raw=(opening * 33 + "1" + closing * 33).encode()), 400, "invalid-body")
        assert "deeper than 32 levels" in told["detail"]
        assert "line 1 column" in told["detail"]
        fits = api.post(path, raw=(opening * 32 + "1" + closing * 32).encode())
        assert b"deeper" not in is_clean(fits, path).content


# --- how long -------------------------------------------------------------------------------------------


@POSTS
def test_a_length_that_lies_is_no_failure(api: Api, path: str) -> None:
    size = len(GOOD[path])
    for length in ("abc", "1e3", "0x10", "9" * 5_000, "-", "1 2", "é", "\x00", "inf", "1,2"):
        assert send(api, path, length=length).status_code in {400, 413}, length
    for length in (str(size - 1), "1"):
        problem(send(api, path, length=length), 400, "invalid-body")
    for length in ("0", "00", "", "+0", "-1", "-5"):
        assert send(api, path, length=length).status_code in ({400, 404} if may_be_empty(path) else {400}), length
    # More was told than came, which may be half of what was meant.
    problem(send(api, path, length=str(size + 100)), 400, "invalid-body")
    assert send(api, path, length=str(size + 10**9)).status_code == 413


@POSTS
def test_a_body_may_be_empty_only_where_nothing_has_to_be_said(api: Api, path: str) -> None:
    response = api.post(path, raw=b"", headers={"Content-Type": JSON})
    if may_be_empty(path):
        problem(response, 404, "not-found")
    else:
        assert "empty" in problem(response, 400, "invalid-body")["detail"]


@pytest.mark.parametrize("what", ["cancel", "retry"])
def test_a_body_whose_length_is_not_told_is_not_taken_for_an_empty_one(api: Api, what: str) -> None:
    """Sent in chunks it has no Content-Length, and a server may hand it over or not: it is refused, not passed over."""
    row = workflows.start("input-takes")
    environ = make_environ(api, f"/v1/instances/{row.pk}/{what}", b'{"reason":"because"}')
    del environ["CONTENT_LENGTH"]
    response = api.client.request(**environ, HTTP_TRANSFER_ENCODING="chunked")
    problem(is_clean(response, what), 400, "invalid-body")
    assert Instance.objects.get().status == "runnable"


def may_be_empty(path: str) -> bool:
    return path.endswith(MAY_BE_EMPTY)


def send(api: Api, path: str, *, content_type: str = JSON, length: str | None = None) -> Any:
    """A request as a server hands it over, whatever its headers say."""
    environ = make_environ(api, path, GOOD[path]) | {"CONTENT_TYPE": content_type}
    if length is not None:
        environ["CONTENT_LENGTH"] = length
    return is_clean(api.client.request(**environ), (content_type, length))


def make_environ(api: Api, path: str, body: bytes) -> dict[str, Any]:
    return {
        "REQUEST_METHOD": "POST",
        "PATH_INFO": path,
        "CONTENT_TYPE": JSON,
        "CONTENT_LENGTH": str(len(body)),
        "wsgi.input": io.BytesIO(body),
        **{f"HTTP_{name.upper()}": text for name, text in api.headers({}, path).items()},
    }


# --- members --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("path", "member"),
    [
        ("/v1/instances", "key"),
        ("/v1/signals", "key"),
        ("/v1/signals", "name"),
        ("/v1/signals", "dedup_key"),
        ("/v1/keys/nobody/signals", "name"),
        (f"/v1/instances/{UNKNOWN}/signals", "dedup_key"),
        ("/v1/events", "event"),
        ("/v1/events", "dedup_key"),
    ],
)
def test_a_text_that_cannot_be_used_is_named_by_its_member(api: Api, path: str, member: str) -> None:
    #: Keys are nobody's but the caller's, and so may be anything.
    reserved = ["holdpoint:x"] if member in {"name", "event"} else []
    for text in ("", " ", "\t", "\u2003", "x" * 201, *reserved):
        response = is_clean(api.post(path, json.loads(GOOD[path]) | {member: text}), member)
        told = problem(response, 400, "invalid-request")
        assert list(told.get("errors", {})) == [member], (text, told)


# --- many lines -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("narrow", [False, True], ids=["key for all", "key for some workflows"])
@pytest.mark.parametrize(
    "line",
    [
        {"key": " ", "name": "v"},
        {"key": "\u2003", "name": "v"},
        {"key": "a", "name": " "},
        {"key": "a", "name": "v", "dedup_key": " "},
        {"key": "a", "name": "holdpoint:v"},
        {"instance": "", "name": "v"},
        {"instance": " ", "name": "v"},
        {"instance": UNKNOWN + "\n", "name": "v"},
        {"key": "a", "instance": None, "name": None},
    ],
    ids=repr,
)
def test_a_bad_line_of_many_keeps_no_other_from_being_sent(settings: Any, line: dict[str, Any], narrow: bool) -> None:
    api = calm(Api(make_key(workflows=["input-takes"] if narrow else None)))
    row = workflows.start("input-takes", key="a")
    response = api.post("/v1/signals/bulk", [line, {"key": "a", "name": "v", "payload": 1}, line])
    assert response.status_code == 207, response.content
    results = [one["status"] for one in response.json()["results"]]
    assert results[1] == 202
    assert {results[0], results[2]} <= {400, 404}
    drain()
    assert_done(row, 1)


# --- browsers -------------------------------------------------------------------------------------------


@pytest.fixture
def browser(settings: Any) -> tuple[Client, dict[str, str]]:
    """A logged in user, and the header that goes with what is posted."""
    settings.WORKFLOWS = {**settings.WORKFLOWS, "API_RATE": None}
    client = Client(enforce_csrf_checks=True, raise_request_exception=False)
    client.force_login(User.objects.create_superuser("ann", password="x"))
    client.cookies["csrftoken"] = token = _get_new_csrf_string()
    return client, {"X-CSRFToken": token}


#: Bodies that are looked at by nobody before their size and depth are known, whoever sends them.
HOSTILE = {
    "a bomb of objects": b'{"a":' * 50_000,
    "a bomb of lists": b"[" * 50_000,
    "more than Django reads": b'{"key":"' + b"x" * 2_700_000 + b'"}',
    "cut": b'{"key":',
    "not a number": b'{"key":NaN}',
    "no UTF-8": b'{"key":"\xff"}',
    "a mark": b"\xef\xbb\xbf{}",
    "twice": b'{"key":1,"key":2}',
    "digits": b'{"key":' + b"9" * 5_000 + b"}",
}


@pytest.mark.parametrize("what", HOSTILE)
def test_a_session_is_told_about_its_body_what_a_key_is(
    api: Api, browser: tuple[Client, dict[str, str]], what: str
) -> None:
    client, headers = browser
    for path in ("/v1/signals", f"/v1/instances/{UNKNOWN}/cancel"):
        told = is_clean(client.post(path, HOSTILE[what], content_type=JSON, headers=headers), what)
        wanted = api.post(path, raw=HOSTILE[what])
        assert (told.status_code, told.content) == (wanted.status_code, wanted.content)


def test_a_session_may_send_as_many_as_a_key(browser: tuple[Client, dict[str, str]]) -> None:
    client, headers = browser
    path = "/v1/signals/bulk"
    response = client.post(path, GOOD[path].ljust(4 * 1024 * 1024), content_type=JSON, headers=headers)
    assert response.status_code == 207, response.content


@pytest.mark.parametrize("kind", ["application/x-www-form-urlencoded", "multipart/form-data; boundary=x", "text/plain"])
def test_a_form_is_no_body_and_its_token_none(browser: tuple[Client, dict[str, str]], kind: str) -> None:
    client, headers = browser
    form = f"csrfmiddlewaretoken={headers['X-CSRFToken']}&x={'y' * 2_700_000}"
    problem(
        is_clean(client.post("/v1/signals", form, content_type=kind, headers=headers), kind),
        415,
        "unsupported-media-type",
    )
    problem(is_clean(client.post("/v1/signals", form, content_type=kind), kind), 403, "forbidden")
