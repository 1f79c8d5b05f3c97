"""Strange paths, query parameters and headers at every address: a clear 4xx, never a failure of the site."""

from __future__ import annotations

from typing import Any
from urllib.parse import quote

import pytest
from django.test import Client

import workflows
from tests.support.api_calls import Api, make_anybody, make_key, problem
from tests.support.bad_input import (
    BAD_NUMBERS,
    CALLS,
    EVERY,
    GOOD,
    NOBODY,
    PARAMETERS,
    STRANGE_HEADERS,
    STRANGE_PARTS,
    STRANGE_TEXTS,
    UNKNOWN,
    call,
    calm,
    is_clean,
    list_cursors,
    make_cursor,
)
from tests.support.combinations import take_share
from tests.support.routes import Route
from workflows import durable
from workflows.models import Instance, StoredAnswer
from workflows.testing import drain

pytestmark = pytest.mark.django_db

LISTS = [route for route in EVERY if route.name in {"instances", "instance-events", "interactions", "approvals"}]
BY_ID = [(method, route) for method, route in CALLS if route.parameters == ["id"]]


@durable(name="input-asks")
def asks(ctx: Any) -> Any:
    return ctx.wait_for_signal("gate", signal="input-gate", timeout="1h")


@pytest.fixture
def api(settings: Any) -> Api:
    settings.WORKFLOWS = {**settings.WORKFLOWS, "API_RATE": None}
    return calm(make_anybody())


# --- paths ----------------------------------------------------------------------------------------------


#: Whose key it is, and what is sent beside the path: every path is tried with the first, and with one of the others.
BESIDE: list[tuple[bool, dict[str, str]]] = [
    (narrow, headers) for headers in ({}, {"Idempotency-Key": "k"}, {"Accept": "text/html"}) for narrow in (False, True)
]


@pytest.mark.parametrize("number", range(len(BESIDE)), ids=lambda n: " ".join(map(str, BESIDE[n])))
def test_no_path_is_a_failure(settings: Any, number: int) -> None:
    narrow, headers = BESIDE[number]
    settings.WORKFLOWS = {**settings.WORKFLOWS, "API_RATE": None}
    api = calm(Api(make_key(workflows=["input-takes"] if narrow else None)))
    failed = set()
    with_parts = [(method, route) for method, route in CALLS if route.parameters]
    for (method, route), part in take_share(with_parts, STRANGE_PARTS, number, len(BESIDE) - 1 if number else 1):
        try:
            response = call(api, method, route.fill_raw(part), route_body(route), headers)
        except AssertionError:
            failed.add((method, route.name, part))
        else:
            assert response.status_code >= 400 or route.name == "", (method, route.path, part)
    assert not failed


def route_body(route: Route) -> bytes:
    return GOOD.get(route.fill(**NOBODY), b"{}")


@pytest.mark.parametrize(
    "part", ["x", "%00", "%FF", "%7B" + UNKNOWN + "%7D", UNKNOWN.replace("-", ""), "1", "٣", "k" * 8_000]
)
def test_an_id_that_is_none_is_told_what_an_unknown_one_is(api: Api, part: str) -> None:
    for method, route in BY_ID:
        strange = call(api, method, route.fill_raw(part), route_body(route))
        unknown = call(api, method, route.fill(**NOBODY))
        assert strange.status_code == 404
        assert (strange.content, dict(strange.headers)) == (unknown.content, dict(unknown.headers))


def test_an_id_has_one_way_to_be_written(api: Api) -> None:
    row = workflows.start("input-takes")
    for text in (str(row.pk), str(row.pk).upper()):
        assert call(api, "GET", f"/v1/instances/{text}").status_code == 200
    for text in (
        row.pk.hex,
        f"{{{row.pk}}}",
        f"urn:uuid:{row.pk}",
        f" {row.pk}",
        f"{row.pk}\n",
        f"{row.pk}/",
        f"{row.pk}\0",
    ):
        problem(call(api, "GET", f"/v1/instances/{quote(text)}"), 404, "not-found")


# --- query parameters -----------------------------------------------------------------------------------


def prepare(route: Route) -> str:
    """Its address, with something to list."""
    row = workflows.start("input-asks")
    drain()
    return route.fill(id=str(row.pk))


@pytest.mark.parametrize("route", LISTS, ids=lambda route: route.name)
def test_a_limit_is_a_number_from_1_to_500(api: Api, route: Route) -> None:
    path = prepare(route)
    for text in [*BAD_NUMBERS, "0"]:
        told = problem(call(api, "GET", f"{path}?limit={text}"), 400, "invalid-request")
        assert list(told["errors"]) == ["limit"], text
    for text in ("1", "500", "", "005", "0&limit=7"):
        assert call(api, "GET", f"{path}?limit={text}").status_code == 200, text


def test_a_wait_is_a_whole_number_of_seconds_to_30(api: Api) -> None:
    path = f"/v1/instances/{workflows.start('input-takes').pk}"
    for text in [*BAD_NUMBERS, "31"]:
        told = problem(call(api, "GET", f"{path}?wait={text}"), 400, "invalid-request")
        assert list(told["errors"]) == ["wait"], text
    for text in ("0", "", "1&wait=0"):
        assert call(api, "GET", f"{path}?wait={text}").status_code in {200, 202}, text


@pytest.mark.parametrize("route", LISTS, ids=lambda route: route.name)
def test_a_cursor_is_a_place_in_its_list_or_refused(api: Api, route: Route) -> None:
    path = prepare(route)
    cursors, refused = list(list_cursors()), 0
    for cursor in cursors:
        response = is_clean(api.get(path, cursor=cursor), cursor[:100])
        if response.status_code == 400:
            assert list(problem(response, 400, "invalid-request")["errors"]) == ["cursor"]
            refused += 1
        else:
            assert response.status_code == 200, cursor[:100]
    assert refused > len(cursors) // 2


@pytest.mark.parametrize("moment", ["2026-01-01T00:00:00", "2026-01-01", "20260101"])
def test_a_cursor_with_a_moment_of_no_zone_is_none_of_ours(api: Api, moment: str) -> None:
    problem(api.get("/v1/interactions", cursor=make_cursor([False, 0, moment, UNKNOWN])), 400, "invalid-request")


def test_a_filter_that_no_row_can_match_names_itself(api: Api) -> None:
    filters = {
        "/v1/instances": ["status", "workflow", "key"],
        "/v1/interactions": ["status", "assignee", "group", "step"],
        "/v1/approvals": ["status", "workflow", "step", "risk", "requester", "assignee", "group", "subject", "overdue"],
    }
    for path, names in filters.items():
        for name in names:
            for text in ("%00", "a%00b", "x" * 1_001):
                told = problem(call(api, "GET", f"{path}?{name}={text}"), 400, "invalid-request")
                assert list(told.get("errors", {})) == [name], told


def test_no_query_is_a_failure(api: Api) -> None:
    for number, (method, route) in enumerate(CALLS):
        path = route.fill(**NOBODY)
        names = PARAMETERS if method == "GET" else ["workspace", "limit"]
        # A list reads them; elsewhere each is sent with one of the texts, and each text with some of them.
        for name, text in take_share(names, STRANGE_TEXTS, number, 1 if route in LISTS else len(STRANGE_TEXTS)):
            call(api, method, f"{path}?{name}&{name}[]=1&{name}={text}")  # the last one of a name is read


def test_more_parameters_than_a_site_reads_are_refused(api: Api) -> None:
    failed = set()
    for method, route in CALLS:
        response = api.call(
            method, f"{route.fill(**NOBODY)}?{'a=1&' * 1_001}", data=route_body(route), content_type="application/json"
        )
        if response.status_code >= 500:
            failed.add((method, route.path))
    assert not failed


def test_links_of_a_page_repeat_whatever_was_asked(api: Api) -> None:
    for _ in range(2):
        workflows.start("input-takes")
    for text in (*STRANGE_TEXTS, "a%26b=c%23"):
        told = call(api, "GET", f"/v1/instances?limit=1&x={text}&x=2&workflow=input-takes").json()
        assert call(api, "GET", told["next"].removeprefix("http://testserver")).json()["results"], text
    # Whatever alphabet the header speaks of.
    query = "/v1/instances?limit=1&x=\\ud800"
    is_clean(api.call("GET", query, content_type="application/json; charset=unicode_escape"), "lone surrogate")


# --- headers --------------------------------------------------------------------------------------------


HEADERS = (
    "Idempotency-Key",
    "X-Workspace",
    "Authorization",
    "Accept",
    "Accept-Language",
    "X-CSRFToken",
    "X-HTTP-Method-Override",
    "If-None-Match",
    "Range",
    "Forwarded",
)


@pytest.mark.parametrize("name", HEADERS)
def test_no_header_is_a_failure(api: Api, name: str) -> None:
    # Each address that changes something looks at this key itself. The others are read before it, by what is the same
    # for all.
    for changes in (False, True):
        calls = [one for one in CALLS if (one[0] not in {"GET", "HEAD"}) == changes]
        shares = 1 if changes and name == "Idempotency-Key" else len(HEADERS)
        for (method, route), text in take_share(calls, STRANGE_HEADERS, HEADERS.index(name), shares):
            call(api, method, route.fill(**NOBODY), headers={name: text})
    if name not in {"Authorization", "X-Workspace"}:
        assert Instance.objects.exists()


def test_an_idempotency_key_that_is_none_is_named_by_its_header(api: Api) -> None:
    for path, body in GOOD.items():
        told = problem(call(api, "POST", path, body, {"Idempotency-Key": "x" * 256}), 400, "invalid-request")
        assert list(told.get("errors", {})) == ["Idempotency-Key"], path


def test_an_idempotency_key_that_is_none_is_told_before_what_is_not_there(api: Api) -> None:
    """400 comes before 404, also where an id is none at all."""
    for path, body in GOOD.items():
        odd = path.replace(NOBODY["id"], "nonsense").replace("nobody", "no body")
        problem(call(api, "POST", odd, body, {"Idempotency-Key": "x" * 256}), 400, "invalid-request")


def test_an_idempotency_key_has_1_to_255_characters_that_can_be_seen(api: Api) -> None:
    path, body = "/v1/instances", b'{"workflow":"input-takes"}'
    for text in ("", " ", "\t", "x" * 256, "\x00", "a\x00b", "\xa0"):
        told = problem(call(api, "POST", path, body, {"Idempotency-Key": text}), 400, "invalid-request")
        assert "idempotency key" in told["detail"], text
    assert not Instance.objects.exists()
    for text in ("x", "x" * 255, "é" * 255, "a b", "a,b", '"a"', "a\x1fb", "\x7f", "%00", "'", "\\"):
        first, again = (call(api, "POST", path, body, {"Idempotency-Key": text}) for _ in range(2))
        assert first.status_code == 201, text
        assert first.content == again.content
    assert StoredAnswer.objects.count() == Instance.objects.count() == 11


def test_a_workspace_that_a_key_is_not_of_is_refused_however_it_is_written(api: Api) -> None:
    for text in STRANGE_HEADERS:
        if text not in {"", "default"}:
            problem(api.get("/v1/instances", headers={"X-Workspace": text}), 403, "forbidden")
    problem(api.get("/v1/instances?workspace=a&workspace=b"), 403, "forbidden")
    assert api.get("/v1/instances?workspace=b&workspace=default").status_code == 200


@pytest.mark.parametrize("host", ["bad host", "[::", "evil.example", "x" * 300, "a@b", "é", ""])
def test_no_host_is_a_failure(settings: Any, api: Api, host: str) -> None:
    for _ in range(2):
        workflows.start("input-takes")
    is_clean(api.get("/v1/instances?limit=1", headers={"Host": host}), host)
    # Nor where nothing of the project's looks at it first.
    settings.MIDDLEWARE = []
    bare = calm(Api(api.key, Client()))
    is_clean(bare.get("/v1/instances?limit=1", headers={"Host": host}), host)


@pytest.mark.parametrize("host", ["bad host", "evil.example", "a@b"])
def test_a_host_that_is_none_of_the_sites_is_a_problem_like_any_other(settings: Any, api: Api, host: str) -> None:
    for debug in (False, True):
        settings.DEBUG = debug
        for caller in (api, calm(Api())):
            for path in ("/v1/instances", "/v1/nothing"):
                told = problem(caller.get(path, headers={"Host": host}), 400, "invalid-request")
                assert "Host" in told["detail"]


COOKIES = (
    "sessionid=" + "x" * 5_000,
    "sessionid=é",
    "sessionid=\x00",
    ";;=;",
    "csrftoken=" + "x" * 32,
    'sessionid="aaaaaaaaaaaa\\000"',
)


@pytest.mark.parametrize("cookie", COOKIES)
def test_no_cookie_is_a_failure(cookie: str) -> None:
    client = Client(raise_request_exception=False)
    problem(is_clean(client.get("/v1/instances", headers={"Cookie": cookie}), cookie), 401, "unauthorized")
