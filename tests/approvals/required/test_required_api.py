"""`ApprovalRequiredMixin` for an API: a call waits, and is made again as the requester once somebody else approves."""

from __future__ import annotations

import base64
from collections.abc import Iterator
from decimal import Decimal
from typing import Any
from uuid import uuid4

import pytest
from django.contrib.auth.models import Group, User
from django.core.files.uploadedfile import SimpleUploadedFile
from django.test import Client
from django.urls import include, path
from rest_framework import exceptions, throttling
from rest_framework.response import Response
from rest_framework.routers import SimpleRouter
from rest_framework.test import APIClient
from rest_framework.views import APIView

import workflows
from approvals import NotAllowed, Stale, decide, withdraw
from approvals.models import Review
from approvals.required.api import ApprovalRequiredMixin
from tests.support.gated_viewset import MayTouch, make_viewset, trouble
from workflows.models import Instance
from workflows.testing import advance, assert_done, assert_failed, drain

pytestmark = pytest.mark.django_db

ORDERS = "/api/orders/"


@pytest.fixture(autouse=True)
def api(shop: Any, db: None) -> Iterator[None]:
    """Orders with an API that takes an approval, under /api/."""
    from tests.support.apps.shop.site import open_site

    trouble.__init__()  # type: ignore[misc]
    router = SimpleRouter()
    router.register("orders", make_viewset(shop), basename="order")
    routes = [path("api/", include(router.urls)), path("api/echo/<slug:word>", Echo.as_view())]
    with open_site(routes=routes):
        yield


class OneCall(throttling.BaseThrottle):
    """One call for each user."""

    seen: set[Any] = set()

    def allow_request(self, request: Any, view: Any) -> bool:
        known = request.user.pk in self.seen
        self.seen.add(request.user.pk)
        return not known


class Echo(ApprovalRequiredMixin, APIView):
    """A view without an object and a serializer."""

    permission_classes = (MayTouch,)
    throttle_classes = ()
    approval_assignees = ("ann",)
    approval_methods = ("post",)

    def get(self, request: Any, word: str) -> Response:
        return Response({"word": word})

    def put(self, request: Any, word: str) -> Response:
        return Response({"put": word})

    def post(self, request: Any, word: str) -> Response:
        trouble.calls.append((word, request.data))
        if trouble.error is not None:
            raise trouble.error
        return Response({"word": word, "data": request.data, "user": str(request.user)}, status=201)


@pytest.fixture
def ann(db: None) -> User:
    user = User.objects.create_user("ann", first_name="Ann", last_name="Archer")
    user.groups.add(Group.objects.get_or_create(name="finance")[0])
    return user


@pytest.fixture
def ben(ann: User) -> User:
    return User.objects.create_user("ben", first_name="Ben", is_superuser=True)


@pytest.fixture
def client(ben: User) -> APIClient:
    return login(ben)


def login(user: User) -> APIClient:
    client = APIClient()
    client.force_login(user)
    return client


def review_of(response: Any) -> Review:
    drain()
    return Review.objects.get(instance=response.json()["id"])


def status_of(client: APIClient, response: Any) -> dict[str, Any]:
    found: dict[str, Any] = client.get(response.json()["url"]).json()
    return found


def approve(response: Any, actor: User) -> None:
    """Approve, and let a worker carry it out."""
    decide(review_of(response), "approve", actor=actor)
    drain()


# --- a call waits --------------------------------------------------------------------------------------


def test_a_call_is_answered_202_with_a_task_and_does_nothing(client: APIClient, order: Any, ben: User) -> None:
    response = client.patch(f"{ORDERS}{order.pk}/", {"amount": "99.50"}, format="json")
    assert response.status_code == 202
    told = response.json()
    instance = Instance.objects.get()
    assert told == {
        "id": str(instance.pk),
        "status": "pending",
        "url": f"http://testserver/approvals/calls/{instance.pk}",
    }
    assert response["Location"] == told["url"]
    order.refresh_from_db()
    assert order.amount == Decimal("1240.00")
    assert status_of(client, response) == {**told, "decision": None, "response": None}
    review = review_of(response)
    assert (review.title, review.change, review.requester_id) == (
        "Change order “Order A-1”",
        {"amount": "99.50"},
        ben.pk,
    )
    assert status_of(client, response)["status"] == "pending"


def test_approved_it_is_made_as_the_requester_and_the_answer_kept(
    client: APIClient, order: Any, ann: User, ben: User
) -> None:
    response = client.patch(f"{ORDERS}{order.pk}/", {"amount": "99.50"}, format="json")
    decide(review_of(response), "approve", actor=ann)
    order.refresh_from_db()
    assert order.amount == Decimal("1240.00")  # not in the deciding request
    told = status_of(client, response)
    assert (told["status"], told["decision"]["outcome"], told["response"]) == ("approved", "approve", None)
    drain()
    order.refresh_from_db()
    assert order.amount == Decimal("99.50")
    told = status_of(client, response)
    assert (told["status"], told["response"]["status"]) == ("done", 200)
    assert (told["response"]["body"]["amount"], told["response"]["body"]["by"]) == ("99.50", "ben")
    assert_done(Instance.objects.get(), {**Instance.objects.get().result, "by": [f"user:{ann.pk}"]})
    assert trouble.calls == [("PATCH", {"amount": "99.50"})]


def test_rejected_it_is_never_made(client: APIClient, order: Any, ann: User) -> None:
    response = client.delete(f"{ORDERS}{order.pk}/")
    assert response.status_code == 202
    review = review_of(response)
    assert review.title == "Delete order “Order A-1”"
    decide(review, "reject", actor=ann, reason="still needed")
    drain()
    told = status_of(client, response)
    assert (told["status"], told["decision"]["outcome"], told["decision"]["reason"]) == (
        "rejected",
        "reject",
        "still needed",
    )
    order.refresh_from_db()


def test_deleting_and_adding_wait_as_well(client: APIClient, order: Any, ann: User, shop: Any) -> None:
    approve(client.delete(f"{ORDERS}{order.pk}/"), ann)
    assert not shop.Order.objects.exists()
    response = client.post(ORDERS, {"code": "N-1", "amount": "5"}, format="json")
    review = review_of(response)
    assert (review.title, review.subject_label, review.interaction.request) == (
        "Add order",
        "",
        {"code": "N-1", "amount": "5"},
    )
    approve(response, ann)
    made = shop.Order.objects.get()
    assert made.code == "N-1"
    assert status_of(client, response)["response"]["status"] == 201


def test_methods_that_are_not_named_are_answered_at_once(client: APIClient, order: Any) -> None:
    assert client.get(f"{ORDERS}{order.pk}/").status_code == 200
    assert client.get("/api/echo/hello").json() == {"word": "hello"}
    assert client.put("/api/echo/hello").json() == {"put": "hello"}
    assert client.options(ORDERS).status_code == 200
    assert not Instance.objects.exists()


def test_a_method_that_the_view_does_not_have_is_still_405(client: APIClient) -> None:
    assert client.patch("/api/echo/hello", {}, format="json").status_code == 405
    assert client.delete(ORDERS).status_code == 405


def test_a_view_without_an_object_is_made_again_with_its_path_query_and_data(client: APIClient, ann: User) -> None:
    response = client.post("/api/echo/hello?page=2&api_key=canary", {"a": [1, {"b": "ü"}]}, format="json")
    assert response.status_code == 202
    review = review_of(response)
    assert review.title == "Call POST /api/echo/hello"
    assert review.interaction.request == {"a": [1, {"b": "ü"}]}
    assert "canary" not in str(Instance.objects.get().input)
    approve(response, ann)
    assert status_of(client, response)["response"] == {
        "status": 201,
        "body": {"word": "hello", "data": {"a": [1, {"b": "ü"}]}, "user": "ben"},
        "location": None,
    }


def test_an_action_of_a_viewset_waits_with_its_own_rules(client: APIClient, order: Any, ann: User) -> None:
    response = client.post(f"{ORDERS}{order.pk}/archive/?how=quietly")
    assert review_of(response).title == "Archive: order “Order A-1”"
    approve(response, ann)
    order.refresh_from_db()
    assert order.note == "archived quietly by ben"
    assert client.post(f"{ORDERS}{order.pk}/close/", {"why": "x" * 30}, format="json").status_code == 400
    response = client.post(f"{ORDERS}{order.pk}/close/", {"why": "late"}, format="json")
    approve(response, ann)
    assert status_of(client, response)["response"]["body"] == {"closed": "late"}


# --- what is refused at once ---------------------------------------------------------------------------


def test_bad_data_is_400_at_once_as_the_view_says_it(client: APIClient, order: Any) -> None:
    response = client.patch(f"{ORDERS}{order.pk}/", {"amount": "much"}, format="json")
    assert (response.status_code, list(response.json())) == (400, ["amount"])
    assert client.put(f"{ORDERS}{order.pk}/", {"amount": "1"}, format="json").json() == {
        "code": ["This field is required."]
    }
    assert client.post(ORDERS, {}, format="json").status_code == 400
    assert client.post(ORDERS, "{", content_type="application/json").status_code == 400
    assert not Instance.objects.exists()


def test_what_is_not_there_or_not_allowed_is_said_at_once(client: APIClient, order: Any, shop: Any) -> None:
    assert client.delete(f"{ORDERS}0/").status_code == 404
    shop.Order.objects.filter(pk=order.pk).update(note="frozen")
    assert client.patch(f"{ORDERS}{order.pk}/", {"amount": "1"}, format="json").status_code == 403
    assert APIClient().patch(f"{ORDERS}{order.pk}/", {"amount": "1"}, format="json").status_code == 403
    assert not Instance.objects.exists()


@pytest.mark.parametrize("kind", ["multipart", "application/x-www-form-urlencoded"])
def test_forms_and_files_are_refused_with_415(client: APIClient, order: Any, kind: str) -> None:
    if kind == "multipart":
        given: Any = {"note": "x", "contract": SimpleUploadedFile("a.txt", b"a")}
        response = client.patch(f"{ORDERS}{order.pk}/", given, format="multipart")
    else:
        response = client.patch(f"{ORDERS}{order.pk}/", "note=x", content_type=kind)
    assert response.status_code == 415
    assert "send it as application/json" in response.json()["detail"]
    assert not Instance.objects.exists()


@pytest.mark.parametrize(
    ("data", "name"),
    [
        ({"api_token": "canary"}, "api_token"),
        ({"note": "x", "password": "canary"}, "password"),
        ({"note": "x", "deep": {"access_key": "canary"}}, "deep"),
    ],
)
def test_a_secret_is_refused_because_it_would_be_kept(
    client: APIClient, order: Any, data: dict[str, Any], name: str
) -> None:
    response = client.patch(f"{ORDERS}{order.pk}/", data, format="json")
    assert response.status_code == 400
    assert "secret" in response.json()[name][0]
    assert not Instance.objects.exists()


def test_what_the_database_cannot_keep_is_400(client: APIClient) -> None:
    for data in ({"a": "nul \0"}, {"a": "x" * 2_000_000}):
        response = client.post("/api/echo/hello", data, format="json")
        assert response.status_code == 400
        assert "detail" in response.json()
    assert not Instance.objects.exists()


def test_a_client_cannot_claim_that_its_call_was_approved(client: APIClient, order: Any) -> None:
    headers = {"HTTP_HOLDPOINT_REPLAY": "true", "HTTP_X_HOLDPOINT_REPLAY": "1"}
    response = client.patch(f"{ORDERS}{order.pk}/?holdpoint_replay=1", {"amount": "1"}, format="json", **headers)
    assert response.status_code == 202
    order.refresh_from_db()
    assert order.amount == Decimal("1240.00")


# --- who decides, and when -----------------------------------------------------------------------------


def test_the_requester_cannot_approve_a_superuser_neither(client: APIClient, order: Any, ben: User) -> None:
    ben.groups.add(Group.objects.get(name="finance"))
    review = review_of(client.patch(f"{ORDERS}{order.pk}/", {"amount": "1"}, format="json"))
    with pytest.raises(NotAllowed, match="four eyes"):
        decide(review, "approve", actor=ben)


def test_an_object_that_changed_meanwhile_makes_it_stale(client: APIClient, order: Any, ann: User, shop: Any) -> None:
    review = review_of(client.patch(f"{ORDERS}{order.pk}/", {"amount": "1"}, format="json"))
    shop.Order.objects.filter(pk=order.pk).update(note="changed")
    with pytest.raises(Stale):
        decide(review, "approve", actor=ann)


def test_what_nobody_decides_in_time_is_never_made(order: Any, ben: User, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Echo, "approval_timeout", "1d")
    client = login(ben)
    response = client.post("/api/echo/hello", {}, format="json")
    drain()
    advance("2d")
    assert status_of(client, response)["status"] == "expired"
    assert trouble.calls == []


def test_a_call_that_is_withdrawn_is_never_made(client: APIClient, ben: User) -> None:
    response = client.post("/api/echo/hello", {}, format="json")
    withdraw(review_of(response), actor=ben)
    drain()
    assert status_of(client, response)["status"] == "cancelled"
    assert trouble.calls == []


# --- made again ----------------------------------------------------------------------------------------


def test_permissions_are_asked_again_and_a_refusal_is_kept(client: APIClient, order: Any, ann: User, shop: Any) -> None:
    response = client.patch(f"{ORDERS}{order.pk}/", {"amount": "1"}, format="json")
    decide(review_of(response), "approve", actor=ann)
    shop.Order.objects.filter(pk=order.pk).update(note="frozen")
    drain()
    told = status_of(client, response)
    assert (told["status"], told["response"]["status"]) == ("refused", 403)
    assert "permission" in told["response"]["body"]["detail"]
    order.refresh_from_db()
    assert order.amount == Decimal("1240.00")


def test_a_requester_who_may_not_log_in_any_more_gets_nothing_done(order: Any, ann: User, ben: User) -> None:
    response = login(ben).patch(f"{ORDERS}{order.pk}/", {"amount": "1"}, format="json")
    decide(review_of(response), "approve", actor=ann)
    User.objects.filter(pk=ben.pk).update(is_active=False)
    drain()
    told = Instance.objects.get().result["response"]
    assert (told["status"], told["body"]) == (403, {"detail": "Whoever asked for this can’t log in any more."})
    order.refresh_from_db()
    assert order.amount == Decimal("1240.00")


def test_an_object_that_is_gone_by_then_is_404(client: APIClient, order: Any, ann: User) -> None:
    response = client.patch(f"{ORDERS}{order.pk}/", {"amount": "1"}, format="json")
    decide(review_of(response), "approve", actor=ann)
    order.delete()
    drain()
    assert status_of(client, response)["response"]["status"] == 404


def test_a_refused_call_leaves_nothing_of_what_it_had_written(client: APIClient, order: Any, ann: User) -> None:
    trouble.error = exceptions.ValidationError({"amount": ["not today"]})
    response = client.patch(f"{ORDERS}{order.pk}/", {"amount": "1"}, format="json")
    approve(response, ann)
    told = status_of(client, response)
    assert (told["status"], told["response"]) == (
        "refused",
        {"status": 400, "body": {"amount": ["not today"]}, "location": None},
    )
    order.refresh_from_db()
    assert order.amount == Decimal("1240.00")


def test_an_error_of_the_view_fails_the_instance_which_can_be_retried(client: APIClient, order: Any, ann: User) -> None:
    trouble.error = RuntimeError("the bank is closed")
    response = client.patch(f"{ORDERS}{order.pk}/", {"amount": "1"}, format="json")
    approve(response, ann)
    instance = assert_failed(Instance.objects.get(), "RuntimeError: the bank is closed")
    assert status_of(client, response)["status"] == "failed"
    order.refresh_from_db()
    assert order.amount == Decimal("1240.00")
    trouble.error = None
    workflows.retry(instance)
    drain()
    assert status_of(client, response)["status"] == "done"
    order.refresh_from_db()
    assert order.amount == Decimal("1.00")


def test_a_view_that_answers_500_fails_the_instance(client: APIClient, ann: User) -> None:
    trouble.error = exceptions.APIException("out of order")
    response = client.post("/api/echo/hello", {}, format="json")
    approve(response, ann)
    assert_failed(Instance.objects.get(), "the view answered 500")


def test_made_again_it_does_not_count_as_another_call(
    order: Any, ann: User, ben: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Echo, "throttle_classes", (OneCall,))
    OneCall.seen.clear()
    client = login(ben)
    response = client.post("/api/echo/hello", {}, format="json")
    assert client.post("/api/echo/hello", {}, format="json").status_code == 429
    approve(response, ann)
    assert status_of(client, response)["response"]["status"] == 201


def test_a_long_answer_is_kept_to_its_beginning(client: APIClient, ann: User) -> None:
    response = client.post("/api/echo/hello", {"a": "x" * 200_000}, format="json")
    approve(response, ann)
    body = status_of(client, response)["response"]["body"]
    assert isinstance(body, str)
    assert len(body) == 100_000


def test_with_atomic_requests_a_refusal_still_leaves_the_step_whole(
    client: APIClient, order: Any, ann: User, settings: Any
) -> None:
    from django.db import connection

    trouble.error = exceptions.ValidationError("no")
    connection.settings_dict["ATOMIC_REQUESTS"] = True
    try:
        response = client.patch(f"{ORDERS}{order.pk}/", {"amount": "1"}, format="json")
        approve(response, ann)
    finally:
        connection.settings_dict["ATOMIC_REQUESTS"] = False
    assert Instance.objects.get().result["response"]["status"] == 400


# --- the task ------------------------------------------------------------------------------------------


def test_the_task_is_shown_to_its_requester_and_to_who_may_see_the_review(
    client: APIClient, order: Any, ann: User
) -> None:
    response = client.patch(f"{ORDERS}{order.pk}/", {"amount": "1"}, format="json")
    review_of(response)
    url = response.json()["url"]
    assert client.get(url).status_code == 200
    assert login(ann).get(url).status_code == 200
    assert login(User.objects.create_user("cid")).get(url).status_code == 404
    assert APIClient().get(url).status_code in (401, 403)
    assert client.get(url.replace(response.json()["id"], str(uuid4()))).status_code == 404
    assert client.post(url).status_code == 405


def test_another_instance_is_no_task(client: APIClient, ben: User) -> None:
    forged = workflows.start("holdpoint-call", {"asked": {"requester": str(ben.pk)}, "seal": "x"}, actor=ben)
    assert client.get(f"/approvals/calls/{forged.pk}").status_code == 404


def test_the_address_of_a_call_takes_no_password_and_no_setting_of_the_project(settings: Any, shop: Any) -> None:
    """A door with HTTP Basic would say, without end, which password is the right one."""
    cid = User.objects.create_user("cid", password="cid's own")
    settings.REST_FRAMEWORK = {"DEFAULT_RENDERER_CLASSES": ["rest_framework.renderers.BrowsableAPIRenderer"]}
    where = f"/approvals/calls/{uuid4()}"
    for password in ("cid's own", "guess"):
        basic = "Basic " + base64.b64encode(f"cid:{password}".encode()).decode()
        assert Client(headers={"Authorization": basic, "Accept": "text/html"}).get(where).status_code == 403
    client = Client(headers={"Accept": "text/html"})
    client.force_login(cid)
    answer = client.get(where)
    assert (answer.status_code, answer["Content-Type"]) == (404, "application/json")
    assert answer["Cache-Control"] == "no-store"
    assert answer["Content-Security-Policy"] == "default-src 'none'; frame-ancestors 'none'"
