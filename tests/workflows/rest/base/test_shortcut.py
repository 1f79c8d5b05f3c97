"""The optional middleware changes how long a call takes, and nothing else."""

from __future__ import annotations

import pytest
from django.contrib.auth.models import User
from django.test import Client

from tests.support.api_calls import Api, make_key
from tests.support.rest_calls import CALLS, send

pytestmark = pytest.mark.django_db

SHORTCUT = "workflows.rest.shortcut.answer_calls_first"


@pytest.fixture
def both(settings):
    """Calls something with and without the middleware; the answers but for what names the moment."""
    with_it = list(settings.MIDDLEWARE)
    assert SHORTCUT in with_it

    def call(work):
        answers = []
        for middleware in (with_it, [one for one in with_it if one != SHORTCUT]):
            settings.MIDDLEWARE = middleware
            answers.append(work(Client()))
        return answers

    return call


@pytest.mark.parametrize(("method", "path", "body", "scope", "permission"), CALLS, ids=lambda one: str(one)[:40])
def test_every_call_is_answered_alike(both, method, path, body, scope, permission):
    weak = make_key("complete" if scope != "complete" else "read")
    for key in (weak, "hp_none", None):
        first, second = both(lambda client, key=key: send(Api(key, client), method, path, body))
        assert (first.status_code, first.content) == (second.status_code, second.content)
        assert first.headers["Content-Length"] == second.headers["Content-Length"]


def test_what_is_no_call_goes_its_usual_way(both):
    User.objects.create_superuser("ann", password="x")
    headers = {"Authorization": f"Bearer {make_key()}"}
    for path in ("/healthz", "/metrics", "/v1/schema", "/v1/nothing", "/admin/login/", "/nowhere"):
        first, second = both(lambda client, path=path: client.get(path, headers=headers))
        assert first.status_code == second.status_code, path
    first, second = both(lambda client: client.get("/v1/instances", headers={**headers, "Host": "evil.example"}))
    assert (first.status_code, second.status_code) == (400, 400)


def test_a_session_is_read_where_no_key_comes(both):
    user = User.objects.create_superuser("ann", password="x")

    def work(client):
        client.force_login(user)
        return client.get("/v1/instances")

    assert [answer.status_code for answer in both(work)] == [200, 200]


def test_a_call_speaks_no_language_that_another_request_left_behind(settings):
    from django.utils import timezone, translation

    key = make_key()
    translation.activate("de")
    timezone.activate("Asia/Tokyo")
    try:
        assert Api(key).get("/v1/instances").status_code == 200
        assert translation.get_language() == settings.LANGUAGE_CODE
        assert timezone.get_current_timezone_name() == settings.TIME_ZONE
    finally:
        translation.deactivate()
        timezone.deactivate()


def test_routes_that_somebody_chose_for_this_request_hold(settings):
    settings.MIDDLEWARE = ["tests.workflows.rest.base.test_shortcut.choose_other_routes", *settings.MIDDLEWARE]
    assert Api(make_key()).get("/v1/instances").status_code == 404


def choose_other_routes(get_response):
    def answer(request):
        request.urlconf = "workflows.urls_health"
        return get_response(request)

    return answer
