"""/v1/approvals: what a caller is shown. What happens when they act: test_review_decisions and …_acting."""

from __future__ import annotations

import itertools
import uuid
from datetime import timedelta
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.utils import timezone

import workflows
from approvals import decide
from approvals.actions import actions
from approvals.models import Review
from tests.support.api_calls import Api, make_key, problem
from tests.support.rest_reviews import login
from tests.support.review_calls import ask, find_review, grant, make_person, start, truth  # noqa: F401 (a fixture)
from workflows.models import Workspace
from workflows.rest.base import lists
from workflows.testing import advance, drain

pytestmark = pytest.mark.django_db


def list_titles(api: Api, **query: Any) -> list[str]:
    return [row["title"] for row in api.get("/v1/approvals", **query).json()["results"]]


# --- in a window ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("status", ["open", "any", "decided", "closed"])
def test_what_is_looked_for_in_a_window_is_found_whole_page_by_page_and_back(
    monkeypatch: pytest.MonkeyPatch, status: str
) -> None:
    ann, ben = make_person("ann"), make_person("ben")
    for number in range(9):
        mine = number in (0, 3, 4, 8)
        due = {"due": f"{number + 1}h"} if number % 2 else {}
        review = ask(title=f"N{number}", assignees=["ann" if mine else "ben"], requester="ben", four_eyes=False, **due)
        if status == "decided":
            decide(review, "approve", actor=ann if mine else ben)
        elif status == "closed":
            actions.withdraw(review, actor=ben)
    api = login(ann)
    wanted = [row["id"] for row in api.get("/v1/approvals", status=status).json()["results"]]
    assert len(wanted) == 4
    for window, limit in itertools.product((1, 2, 3, 50), ("1", "3", "50")):
        if window < 3 and limit == "50":
            continue  # a look through so few rows fills no page of 3 either
        monkeypatch.setattr(lists, "WINDOW", window)
        pages = [api.get("/v1/approvals", status=status, limit=limit).json()]
        while pages[-1]["next"]:
            assert len(pages) < 30
            pages.append(api.get(pages[-1]["next"]).json())
        assert [row["id"] for page in pages for row in page["results"]] == wanted
        back = [pages[-1]]
        while back[-1]["previous"]:
            assert len(back) < 60
            back.append(api.get(back[-1]["previous"]).json())
        assert [row["id"] for page in reversed(back) for row in page["results"]] == wanted


# --- whose they are -------------------------------------------------------------------------------------------


def test_a_person_is_listed_what_they_may_decide_now() -> None:
    ann, ben = make_person("ann", "finance"), make_person("ben")
    ask(title="for ann", assignees=["ann"])
    ask(title="for the group", groups=["finance"])
    ask(title="for ben", assignees=["ben"])
    ask(title="her own", groups=["finance"], requester="ann")
    claimed = ask(title="claimed", assignees=["ann", "ben"])
    actions.claim(claimed, actor=ben)
    assert list_titles(login(ann)) == ["for ann", "for the group"]
    assert list_titles(login(ben)) == ["for ben", "claimed"]
    decide(Review.objects.get(title="for ann"), "approve", actor=ann)
    assert list_titles(login(ann)) == ["for the group"]
    assert list_titles(login(make_person("cid"))) == []


def test_the_list_is_that_of_the_inbox() -> None:
    ann = make_person("ann", "finance")
    for n in range(7):
        ask(groups=["finance"], requester="ann" if n % 3 == 0 else None, due="1h" if n % 2 else None)
    shown = [row["id"] for row in login(ann).get("/v1/approvals").json()["results"]]
    assert shown == [str(pk) for pk in Review.objects.for_user(ann).by_due().values_list("pk", flat=True)]
    assert len(shown) == 4


def test_what_was_put_aside_is_listed_where_it_is_asked_for() -> None:
    ann = make_person("ann")
    ask(title="now", assignees=["ann"])
    actions.snooze(ask(title="later", assignees=["ann"]), until=timezone.now() + timedelta(days=1), actor=ann)
    api = login(ann)
    assert list_titles(api) == list_titles(api, snoozed="false") == ["now"]
    assert list_titles(api, snoozed="true") == ["later"]
    assert list_titles(api, status="open") == ["now", "later"]


def test_a_key_is_listed_what_is_open_in_its_workspace() -> None:
    make_person("ann")
    done = ask(title="done", assignees=["ann"])
    decide(done, "approve", actor=User.objects.get())
    ask(title="open", assignees=["ann"])
    workflows.workspace.create("acme")
    api, other = Api(make_key("read")), Api(make_key("read", workspace="acme"))
    assert list_titles(api) == ["open"]
    assert list_titles(api, status="decided") == ["done"]
    assert list_titles(api, status="any") == ["open", "done"]
    assert list_titles(other) == list_titles(other, status="any") == []


def test_a_key_for_some_workflows_sees_no_others() -> None:
    make_person("ann")
    review = ask(assignees=["ann"])
    for workflows_of_key, wanted in ((["approving.ask"], 1), (["another"], 0)):
        api = Api(make_key("read", workflows=workflows_of_key))
        assert len(api.get("/v1/approvals").json()["results"]) == wanted
        assert api.get(f"/v1/approvals/{review.pk}").status_code == (200 if wanted else 404)


def test_with_a_status_a_person_is_listed_all_that_they_may_see() -> None:
    ann, ben, cid = make_person("ann"), make_person("ben"), make_person("cid")
    ask(title="asked of ann", assignees=["ann"])
    ask(title="asked by ann", assignees=["ben"], requester="ann")
    decide(ask(title="decided by ann", assignees=["ann"]), "approve", actor=ann)
    ask(title="not hers", assignees=["ben"])
    assert list_titles(login(ann), status="any") == ["decided by ann", "asked by ann", "asked of ann"]
    assert list_titles(login(ann), status="open") == ["asked of ann", "asked by ann"]
    assert list_titles(login(ann), requester="me") == ["asked by ann"]
    assert list_titles(login(ben), requester="ann") == ["asked by ann"]
    assert list_titles(login(cid), status="any") == []
    assert list_titles(login(grant(cid, "view_review")), status="open") == [
        "asked of ann",
        "asked by ann",
        "not hers",
    ]


def test_each_status_lists_those_that_stand_so() -> None:
    ann, ben = make_person("ann"), make_person("ben")
    reviews = {
        name: ask(title=name, assignees=["ann"], requester="ben", timeout="1h" if name == "late" else "7d")
        for name in ("open", "grace", "approved", "withdrawn", "cancelled", "cancelled in its grace", "late")
    }
    decide(reviews["cancelled in its grace"], "approve", actor=ann, grace=True)
    workflows.cancel(reviews["cancelled in its grace"].instance_id)
    decide(reviews["grace"], "approve", actor=ann, grace=True)
    decide(reviews["approved"], "approve", actor=ann)
    actions.withdraw(reviews["withdrawn"], actor=ben)
    workflows.cancel(reviews["cancelled"].instance_id)
    api = Api(make_key("read"))
    with_late = {"open", "late"}
    assert set(list_titles(api, status="open")) == with_late
    assert list_titles(api, status="grace") == ["grace"]
    advance("2h")  # which also ends the grace
    assert list_titles(api, status="open") == ["open"]
    assert set(list_titles(api, status="decided")) == {"approved", "grace"}
    assert set(list_titles(api, status="closed")) == {
        "withdrawn",
        "cancelled",
        "cancelled in its grace",
        "late",
    }
    assert set(list_titles(api, status="any")) == set(reviews)
    for status in ("open", "decided", "closed"):
        rows = api.get("/v1/approvals", status=status).json()["results"]
        assert {row["status"] for row in rows} == {status}
    problem(api.get("/v1/approvals", status="pending"), 400, "invalid-request")


# --- narrowed down --------------------------------------------------------------------------------------------


def test_filters_narrow_the_list_down(order: Any) -> None:
    ann = make_person("ann", "finance")
    make_person("ben")
    ask(title="group", groups=["finance"])
    ask(title="ann", assignees=["ann"], risk="high")
    ask(title="order", assignees=["ann", "ben"], subject=order, change={"note": "x"}, requester="ben")
    ask(title="late", assignees=["ann"], due="1h")
    advance("2h")
    key, api = Api(make_key("read")), login(ann)
    for query, wanted in [
        ({"workflow": "approving.ask"}, ["late", "group", "ann", "order"]),
        ({"workflow": "another"}, []),
        ({"step": "first"}, ["late", "group", "ann", "order"]),
        ({"step": "second"}, []),
        ({"risk": "high"}, ["ann"]),
        ({"group": "finance"}, ["group"]),
        ({"group": "nobody"}, []),
        ({"assignee": "ann"}, ["late", "ann", "order"]),
        ({"assignee": "ben"}, ["order"]),
        ({"assignee": "nobody"}, []),
        ({"overdue": "true"}, ["late"]),
        ({"overdue": "false"}, ["group", "ann", "order"]),
        ({"subject": "shop.order"}, ["order"]),
        ({"subject": f"shop.Order:{order.pk}"}, ["order"]),
        ({"subject": "shop.order:0"}, []),
        ({"subject": "", "risk": " ", "status": ""}, ["late", "group", "ann", "order"]),
    ]:
        assert list_titles(key, **query) == wanted, query
        assert list_titles(api, **query) == wanted, query
    assert list_titles(key, requester="ben") == ["order"]
    assert list_titles(key, requester="me") == []
    assert list_titles(api, assignee="me") == ["late", "ann", "order"]
    for name in ("risk", "overdue", "snoozed", "status"):
        for more in ({}, {"status": "open"}, {"requester": "me"}):
            problem(api.get("/v1/approvals", **{**more, name: "perhaps"}), 400, "invalid-request")


def test_what_is_due_first_comes_first_and_pages_meet_every_row_once() -> None:
    ann = make_person("ann")
    for title, due in (("e", None), ("c", "3h"), ("a", "1h"), ("f", None), ("b", "2h"), ("d", "4h")):
        ask(title=title, due=due, assignees=["ann"])
    for api in (login(ann), Api(make_key("read"))):
        for limit in (1, 2, 5):
            seen, back, url = [], [], f"/v1/approvals?limit={limit}"
            while url:
                page = api.get(url).json()
                seen += [row["title"] for row in page["results"]]
                before, url = page["previous"], page["next"]
            assert seen == ["a", "b", "c", "d", "e", "f"]
            while before:
                page = api.get(before).json()
                back = [row["title"] for row in page["results"]] + back
                before = page["previous"]
            assert seen[: len(back)] == back


def test_what_was_decided_comes_with_the_latest_decision_first() -> None:
    ann = make_person("ann")
    reviews = {title: ask(title=title, assignees=["ann"]) for title in "abc"}
    for title in "bca":
        decide(reviews[title], "reject", actor=ann)
    seen, url = [], "/v1/approvals?status=decided&limit=1"
    while url:
        page = login(ann).get(url).json()
        seen += [row["title"] for row in page["results"]]
        url = page["next"]
    assert seen == ["a", "c", "b"]


# --- a row ----------------------------------------------------------------------------------------------------


def test_a_row_tells_who_asks_what_and_until_when() -> None:
    ann = make_person("ann")
    make_person("ben")
    review = ask(
        title="Pay\u202e the invoice",
        assignees=["ann"],
        requester="ben",
        risk="high",
        due="1h",
        schema={"amount": float},
        outcomes=("approve", "reject"),
    )
    actions.claim(review, actor=ann)
    [row] = login(ann).get("/v1/approvals").json()["results"]
    assert row["title"] == "Pay⟨U+202E⟩ the invoice"
    assert (row["id"], row["instance"]) == (str(review.pk), str(review.instance_id))
    assert (row["workflow"], row["step"], row["status"], row["risk"]) == ("approving.ask", "first", "open", "high")
    assert (row["requester"], row["requester_name"]) == ("ben", "Ben")
    assert (row["claimed_by"], row["claimed_by_name"]) == ("ann", "Ann")
    assert (row["decided_by"], row["outcome"], row["decided_at"], row["effective_at"]) == (None,) * 4
    assert row["created_at"] < row["due_at"] < row["deadline"]
    assert (row["version"], row["four_eyes"], row["subject"]) == (1, True, None)
    assert row["schema"]["required"] == ["amount"]
    assert row["outcomes"] == [
        {"name": "approve", "label": "Approve", "tone": "positive", "requires_reason": True, "presets": []},
        {"name": "reject", "label": "Reject", "tone": "negative", "requires_reason": True, "presets": []},
    ]


def test_who_is_gone_is_called_so() -> None:
    make_person("ann")
    ben = make_person("ben")
    ask(assignees=["ann"], requester="ben")
    ben.delete()
    [row] = Api(make_key("read")).get("/v1/approvals").json()["results"]
    assert (row["requester"], row["requester_name"]) == (None, "a former user")


# --- one of them ----------------------------------------------------------------------------------------------


def test_the_whole_card_is_there(order: Any) -> None:
    ann = make_person("ann", "finance")
    ben = make_person("ben")
    review = ask(
        groups=["finance"],
        requester="ben",
        subject=order,
        change={"amount": "99.00"},
        evidence=[("Invoice", "https://shop.example/7"), ("Orders", 12)],
        request={"net_total": "12.50"},
        quorum=2,
    )
    actions.comment(review, "Is this right?", actor=ben)
    told = login(ann).get(f"/v1/approvals/{review.pk}").json()
    [row] = login(ann).get("/v1/approvals").json()["results"]
    assert {name: told[name] for name in row if name != "outcomes"} == {
        name: value for name, value in row.items() if name != "outcomes"
    }
    assert told["workspace"] == "default"
    assert told["told"].startswith("Waiting for finance")
    assert told["who"] == "finance"
    assert told["subject"] == {"model": "shop.order", "id": str(order.pk), "label": "Order A-1"}
    assert told["diff"] == [
        {
            "name": "amount",
            "label": "Amount",
            "kind": "money",
            "before": "€1,240.00",
            "after": "€99.00",
            "url": None,
        }
    ]
    assert told["drift"] == []
    assert told["facts"] == [{"label": "Net total", "value": "12.50", "url": None}]
    assert told["request"] == {"net_total": "12.50"}
    assert told["evidence"] == [
        {"kind": "link", "label": "Invoice", "text": "shop.example", "url": "https://shop.example/7"},
        {"kind": "fact", "label": "Orders", "text": "12", "url": None},
    ]
    assert [one["needed"] for one in told["progress"]] == [2]
    assert [one["obstacle"] for one in told["outcomes"]] == [None, None]
    assert told["actions"]["claim"] is None
    assert told["actions"]["withdraw"] == "Only who asked for this can withdraw it."
    assert [(one["who"], one["kind"], one["text"]) for one in told["timeline"]] == [
        ("Ben", "comment", "Is this right?"),
        ("Ben", "asked", ""),
    ]
    assert told["answer"] is None
    assert "Four eyes" in told["four_eyes_told"]


def test_what_has_changed_since_it_was_asked_is_shown(order: Any) -> None:
    ann = make_person("ann")
    review = ask(assignees=["ann"], subject=order, change={"note": "x"})
    order.amount = 5
    order.save()
    told = login(ann).get(f"/v1/approvals/{review.pk}").json()
    assert [(one["label"], one["before"], one["after"]) for one in told["drift"]] == [("Amount", "€1,240.00", "€5.00")]


def test_a_secret_is_told_to_nobody(order: Any) -> None:
    ann = make_person("ann")
    review = ask(assignees=["ann"], subject=order, change={"note": "x"})
    type(order).objects.update(iban="canary-later")
    for api in (login(ann), Api(make_key())):
        assert b"canary" not in api.get(f"/v1/approvals/{review.pk}").content
        assert b"canary" not in api.get("/v1/approvals").content


def test_who_cannot_decide_is_told_why_at_each_outcome() -> None:
    ben = make_person("ben")
    make_person("ann")
    review = ask(assignees=["ann", "ben"], requester="ben")
    told = login(ben).get(f"/v1/approvals/{review.pk}").json()
    assert {one["obstacle"] for one in told["outcomes"]} == {
        "You can’t decide because you asked for this (four eyes). Ann or Ben can."
    }


def test_a_key_is_told_that_a_person_decides() -> None:
    make_person("ann")
    review = ask(assignees=["ann"])
    told = Api(make_key("read")).get(f"/v1/approvals/{review.pk}").json()
    assert {one["obstacle"].partition(":")[0] for one in told["outcomes"]} == {"A person decides, and not a key"}
    assert told["actions"] == {}


def test_what_was_decided_is_told_with_its_reason() -> None:
    ann = make_person("ann")
    review = ask(assignees=["ann"])
    decide(review, "reject", actor=ann, reason="Not within budget")
    told = login(ann).get(f"/v1/approvals/{review.pk}").json()
    assert (told["status"], told["outcome"], told["decided_by"]) == ("decided", "reject", "ann")
    assert told["answer"] == {
        "outcome": "reject",
        "label": "Reject",
        "tone": "negative",
        "reason": "Not within budget",
        "by": "Ann",
        "data": None,
        "decisions": [
            {
                "at": told["decided_at"],
                "by": "Ann",
                "outcome": "reject",
                "reason": "Not within budget",
                "door": "python",
                "data": None,
            }
        ],
    }
    assert told["outcomes"][0]["obstacle"]


def test_people_read_it_in_their_language() -> None:
    ann = make_person("ann")
    review = ask(assignees=["ann"])
    told = login(ann).get(f"/v1/approvals/{review.pk}", headers={"Accept-Language": "de"})
    assert told.status_code == 200


# --- what is not there ----------------------------------------------------------------------------------------


def test_unknown_foreign_and_not_to_be_seen_are_one_404() -> None:
    zoe = make_person("zoe", "board")
    ann = make_person("ann")
    Workspace.objects.get().members.add(zoe, ann)
    workflows.workspace.create("acme")
    hidden = ask(assignees=["ann"])
    foreign = find_review(start({"groups": ["board"]}, workspace="acme"))
    places = (hidden.pk, foreign.pk, uuid.uuid4(), "x", f"{{{hidden.pk}}}", str(hidden.pk).replace("-", ""))
    answers = [login(zoe).get(f"/v1/approvals/{one}") for one in places]
    problem(answers[0], 404, "not-found")
    assert len({(one.content, tuple(one.headers.items())) for one in answers}) == 1


def test_a_review_of_another_workspace_is_not_there() -> None:
    ann = make_person("ann")
    acme = workflows.workspace.create("acme")
    for one in Workspace.objects.all():
        one.members.add(ann)
    review = ask(assignees=["ann"])
    api = login(ann)
    assert api.get(f"/v1/approvals/{review.pk}", workspace="default").status_code == 200
    problem(api.get(f"/v1/approvals/{review.pk}", workspace="acme"), 404, "not-found")
    assert list_titles(api, workspace="acme", status="any") == []
    problem(api.get("/v1/approvals"), 400, "choose-workspace")
    acme.members.remove(ann)
    problem(api.get(f"/v1/approvals/{review.pk}", workspace="acme"), 403, "forbidden")


def test_an_answer_over_the_engines_own_address_names_this_one() -> None:
    make_person("ann")
    review = ask(assignees=["ann"])
    told = problem(
        Api(make_key()).post(f"/v1/interactions/{review.pk}/complete", {"data": 1}), 409, "answered-elsewhere"
    )
    assert "/v1/approvals/{id}/decide" in told["detail"]
    drain()
