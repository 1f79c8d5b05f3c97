"""A change that was asked for: what may be asked, and that nothing else is done."""

from __future__ import annotations

import json
import uuid
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from typing import Any

import pytest
from django import forms
from django.contrib.auth.forms import UserChangeForm
from django.contrib.auth.models import Group, Permission, User
from django.core.files.base import ContentFile
from django.core.files.uploadedfile import SimpleUploadedFile
from django.db import connection, transaction
from django.test.utils import CaptureQueriesContext
from django.utils import timezone as zones
from django.utils.translation import gettext_lazy
from hypothesis import given, settings
from hypothesis import strategies as st

from approvals.subjects.change import MAX_RELATED, apply_change, read_change
from approvals.subjects.field_values import REDACTED
from approvals.subjects.reference import InvalidChange, snapshot
from workflows.values.json_text import MAX_DEPTH


@pytest.fixture(autouse=True)
def opened(shop: Any) -> None:
    """Every test here may use the shop."""


def refuse(obj: Any, change: Any) -> dict[str, list[str]]:
    """The reasons for which a change is refused."""
    with pytest.raises(InvalidChange) as caught:
        read_change(obj, change)
    for reasons in caught.value.errors.values():
        assert all(reason in str(caught.value) for reason in reasons)
    return caught.value.errors


# --- what is read -----------------------------------------------------------------------------------


def test_values_of_the_model_become_json(order: Any, shop: Any, acme: Any) -> None:
    label = shop.Label.objects.create(name="new")
    change = {
        "amount": Decimal("99.5"),
        "quantity": 3,
        "weight": 1.5,
        "urgent": True,
        "checked": False,
        "level": 3,
        "due": date(2026, 7, 17),
        "opens": time(8),
        "lead": timedelta(days=1),
        "status": shop.Status.PAID,
        "placed": datetime(2026, 7, 14, 8, tzinfo=UTC),
        "reference": uuid.UUID(int=5),
        "customer": acme,
        "options": {"when": date(2026, 1, 1), "list": (1, 2)},
        "numbers": [1, 2],
        "span": (1, 5),
        "labels": [label],
        "contacts": shop.Customer.objects.all(),
        "referrer": acme,
        "contract": "a/b.pdf",
        "note": gettext_lazy("Yes"),
        "nickname": "n",
        "address": "::1",
    }
    plain = read_change(order, change)
    assert plain == {
        "amount": "99.50",
        "quantity": 3,
        "weight": 1.5,
        "urgent": True,
        "checked": False,
        "level": 3,
        "due": "2026-07-17",
        "opens": "08:00:00",
        "lead": "1 00:00:00",
        "status": "paid",
        "placed": "2026-07-14T08:00:00+00:00",
        "reference": str(uuid.UUID(int=5)),
        "customer": acme.pk,
        "options": {"when": "2026-01-01", "list": [1, 2]},
        "numbers": [1, 2],
        "span": '{"bounds": "[)", "lower": "1", "upper": "5"}',
        "labels": [str(label.pk)],
        "contacts": [acme.pk],
        "referrer": "acme",
        "contract": "a/b.pdf",
        "note": "Yes",
        "nickname": "n",
        "address": "::1",
    }
    assert read_change(order, json.loads(json.dumps(plain))) == plain
    applied = apply_change(order, json.loads(json.dumps(plain)))
    assert (
        snapshot(shop.Order.objects.get(), change=plain)
        == {**snapshot(order), **plain}
        == snapshot(applied, change=plain)
    )


def test_what_is_so_already_is_no_change(order: Any, acme: Any) -> None:
    order.contacts.add(acme)
    same = {"amount": "1240", "options": {}, "labels": [], "contacts": [acme], "customer": None, "note": "", "due": ""}
    assert read_change(order, same) == {}
    assert read_change(order, {}) == {}


def test_a_form_may_have_changed_the_object_already(order: Any, shop: Any, acme: Any) -> None:
    class OrderForm(forms.ModelForm):
        class Meta:
            model = shop.Order
            fields = ("quantity", "customer", "note", "contacts", "due", "api_token")

    posted = {"quantity": "7", "customer": str(acme.pk), "note": "", "contacts": [acme.pk], "due": "2026-01-02"}
    form = OrderForm({**posted, "api_token": order.api_token}, instance=order)
    assert form.is_valid()
    assert order.quantity == 7
    change = read_change(order, form.cleaned_data)
    assert change == {"quantity": 7, "customer": acme.pk, "due": "2026-01-02", "contacts": [acme.pk]}


@pytest.mark.django_db
def test_a_users_form_with_its_password_can_be_asked_for() -> None:
    user = User.objects.create_user("ana", password="canary")
    group = Group.objects.create(name="Finance")
    form = UserChangeForm(
        {"username": "ana", "first_name": "Ana", "groups": [group.pk], "date_joined": user.date_joined}, instance=user
    )
    form.is_valid()
    assert read_change(user, {**form.cleaned_data, "groups": [group]}) == {
        "first_name": "Ana",
        "groups": [group.pk],
        "is_active": False,
    }


def test_a_field_may_be_named_by_its_column(order: Any, acme: Any) -> None:
    assert read_change(order, {"customer_id": acme.pk}) == {"customer": acme.pk}
    assert refuse(order, {"customer_id": acme.pk, "customer": acme}) == {"customer": ["it is named twice"]}


def test_what_the_model_makes_of_a_value_is_what_is_shown(order: Any) -> None:
    assert read_change(order, {"unit": "eur"}) == {"unit": "EUR"}
    assert apply_change(order, {"unit": "chf"}).unit == "CHF"


def test_moments_without_a_zone_are_meant_in_the_active_one(order: Any) -> None:
    with zones.override("Europe/Berlin"):
        for value in ("2026-07-14T10:00", datetime(2026, 7, 14, 10)):
            assert read_change(order, {"placed": value}) == {"placed": "2026-07-14T08:00:00+00:00"}
        assert read_change(order, {"placed": date(2026, 7, 14)}) == {"placed": "2026-07-13T22:00:00+00:00"}
        assert "placed" in refuse(order, {"placed": "2026-03-29T02:30"})  # the clocks skip it


def test_reading_saves_nothing_and_leaves_the_object_alone(order: Any) -> None:
    before = {**order.__dict__}
    with CaptureQueriesContext(connection) as captured:
        read_change(order, {"quantity": 9})
    assert order.__dict__ == before
    assert all(query["sql"].startswith(("SELECT", "SAVEPOINT", "RELEASE")) for query in captured)


# --- what is refused --------------------------------------------------------------------------------


def test_all_fields_are_told_with_their_reasons(order: Any) -> None:
    errors = refuse(order, {"amuont": 1, "quantity": 0, "status": "lost", "amount": "12.345", "due": "soon"})
    assert errors.keys() == {"amuont", "quantity", "status", "amount", "due"}
    assert errors["amuont"] == ["there is no such field; did you mean 'amount'?"]
    assert errors["quantity"] == ["Ensure this value is greater than or equal to 1."]


@pytest.mark.parametrize(
    ("name", "values"),
    [
        (
            "quantity",
            [True, 1.5, Decimal("1.5"), "1.5", "x", [], {}, 10**400, "9" * 5000, float("nan"), float("inf"), None],
        ),
        ("amount", [True, "x", [1], float("nan"), "1e400", "NaN", "sNaN", Decimal("sNaN"), 10**20, 0.123, object()]),
        ("weight", [True, "x", {}]),
        ("code", [5, ["a"], {"a": 1}, b"a", "", None, "x" * 41, "a\0b", "\ud800", object()]),
        ("note", [5, "\0", None]),
        ("urgent", [None, "perhaps", 2, []]),
        ("due", ["2026-02-30", 5, [], "x"]),
        ("opens", ["25:00", {}, 5]),
        ("placed", ["2026-02-30T00:00", "x", []]),
        ("lead", ["x", "P" * 500, []]),
        ("reference", ["x", [], "5" * 31]),
        ("address", ["999.1.1.1", {}]),
        (
            "options",
            [{"a": float("nan")}, {"a": "\0"}, {"a": object()}, {1: {2: object()}}, REDACTED, {"a": [REDACTED]}],
        ),
        ("numbers", ["x", ["x"], [[1]], [True], [1.5], {1}, {}, 5]),
        ("span", ["x", [5, 1], [5, 1, 2], [True, 2], {}, '{"lower": "5", "upper": "1"}', "[1]"]),
        ("customer", [True, "x", [], {}, 10**30, -1]),
        ("referrer", [[], "nobody"]),
        ("labels", ["x", 5, ["x"], [True], {}, [uuid.UUID(int=9)], b"x"]),
        ("contract", ["../../etc/passwd", "/etc/passwd", "..", 5, ["a"], "x" * 61, "a\0"]),
        ("created", [datetime(2026, 1, 1, tzinfo=UTC)]),
        ("updated", ["2026-01-01T00:00Z"]),
        ("doubled", [4]),
        ("scan", [b"x", "eA=="]),
        ("id", [5]),
        ("pk", [5]),
        ("rushorder", [None]),
    ],
)
def test_values_that_are_not_the_fields_are_refused_at_the_field(order: Any, name: str, values: list[Any]) -> None:
    for value in values:
        errors = refuse(order, {name: value})
        assert errors.keys() == {name}, value
        assert all(reason and len(reason) <= 300 and reason.isprintable() for reason in errors[name]), value


@pytest.mark.parametrize("change", [None, [], "amount", 5, [("amount", 1)]])
def test_only_a_mapping_is_a_change(order: Any, change: Any) -> None:
    assert refuse(order, change).keys() == {""}


def test_json_that_a_row_cannot_keep_is_refused(order: Any) -> None:
    deep: Any = 1
    for _ in range(MAX_DEPTH + 1):
        deep = [deep]
    assert str(MAX_DEPTH) in refuse(order, {"options": deep})["options"][0]
    assert "limit" in refuse(order, {"note": "x" * 2_000_000})["note"][0]
    assert refuse(order, {"options": json.loads("[" * 500 + "]" * 500)})


def test_rules_over_several_fields_hold_whichever_of_them_changes(order: Any, shop: Any, acme: Any) -> None:
    assert refuse(order, {"urgent": True}) == {"": ["an urgent order needs a date"]}
    assert read_change(order, {"urgent": True, "due": "2026-01-02"})
    shop.Order.objects.create(code="B", customer=acme, reference=uuid.UUID(int=1))
    apply_change(order, {"customer": acme.pk})
    assert refuse(order, {"reference": uuid.UUID(int=1)}).keys() == {""}
    assert refuse(order, {"code": "B"}) == {"code": ["Order with this Order code already exists."]}


def test_the_models_own_judgement_counts(order: Any) -> None:
    assert refuse(order, {"nickname": "nobody"}) == {"": ["nobody may be called so"]}
    assert refuse(order, {"nickname": "note"}) == {"note": ["a note is missing"]}


def test_what_was_wrong_before_does_not_stop_a_change_elsewhere(order: Any, shop: Any) -> None:
    shop.Order.objects.update(quantity=-5, status="ancient")
    assert read_change(order, {"note": "x"}) == {"note": "x"}
    assert apply_change(order, {"note": "x"}).quantity == -5


def test_relations_point_to_rows_that_may_be_chosen(order: Any, shop: Any, acme: Any) -> None:
    blocked = shop.Customer.objects.create(name="Blocked", code="b", blocked=True)
    assert "referrer" in refuse(order, {"referrer": blocked})
    assert str(blocked.pk) in refuse(order, {"contacts": [acme, blocked]})["contacts"][0]
    assert refuse(order, {"customer": order})["customer"] == ["it points to shop.Customer, not to shop.Order"]
    assert refuse(order, {"contacts": [order]})["contacts"] == ["it points to shop.Customer, not to shop.Order"]
    assert refuse(order, {"customer": shop.Customer(name="new")})["customer"] == ["save what it points to first"]
    limit = refuse(order, {"labels": [uuid.uuid4() for _ in range(MAX_RELATED + 1)]})["labels"][0]
    assert str(MAX_RELATED) in limit


def test_files_are_stored_before_they_are_asked_for(order: Any) -> None:
    for given_file in (SimpleUploadedFile("a.pdf", b"x"), ContentFile(b"x", name="a.pdf")):
        assert refuse(order, {"contract": given_file})["contract"] == ["store the file first, then name it here"]
    order.contract = SimpleUploadedFile("a.pdf", b"x")
    assert refuse(order, {"contract": order.contract})["contract"] == ["store the file first, then name it here"]
    apply_change(order, {"contract": "a.pdf"})
    assert read_change(order, {"contract": order.contract}) == {}
    assert read_change(order, {"contract": False}) == read_change(order, {"contract": None}) == {"contract": ""}


@pytest.mark.parametrize("name", ["api_token", "iban", "vault"])
def test_a_secret_cannot_be_part_of_a_change(order: Any, name: str) -> None:
    with pytest.raises(InvalidChange, match="on_decision") as caught:
        read_change(order, {name: "fresh-canary"})
    assert "canary" not in f"{caught.value} {caught.value.errors} {caught.value!r}"
    assert read_change(order, {name: getattr(order, name), "quantity": 2}) == {"quantity": 2}
    with pytest.raises(InvalidChange):
        apply_change(order, {name: "fresh-canary"})
    with pytest.raises(InvalidChange):
        read_change(order, {name: REDACTED})


def test_json_with_a_secret_that_stays_is_no_change(order: Any, shop: Any) -> None:
    shop.Order.objects.update(options={"api_key": "canary", "n": 1})
    assert read_change(order, {"options": {"api_key": "canary", "n": 1}}) == {}
    assert refuse(order, {"options": snapshot(shop.Order.objects.get())["options"]})


def test_an_object_that_is_gone_or_not_saved_is_refused(order: Any, shop: Any) -> None:
    other = shop.Order.objects.get()
    order.delete()
    for call in (read_change, apply_change):
        with pytest.raises(InvalidChange, match="no longer there"):
            call(other, {"note": "x"})
        with pytest.raises(InvalidChange, match="not saved"):
            call(shop.Order(), {"note": "x"})
    assert not shop.Order.objects.exists()


hostile = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text() | st.binary() | st.dates() | st.decimals(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=5,
)
#: Without the range: PostgreSQL gives back another spelling of the same.
NAMES = [
    *(
        "code",
        "amount",
        "quantity",
        "weight",
        "level",
        "urgent",
        "due",
        "opens",
        "placed",
        "lead",
        "reference",
        "address",
    ),
    *("options", "note", "numbers", "customer", "referrer", "labels", "contract"),
]


def test_whatever_is_asked_is_either_refused_or_can_be_done(order: Any) -> None:
    @given(st.dictionaries(st.sampled_from(NAMES), hostile, min_size=1, max_size=3))
    def ask(change: dict[str, Any]) -> None:
        try:
            plain = read_change(order, change)
        except InvalidChange:
            return
        kept = json.loads(json.dumps(plain, allow_nan=False))
        with connection.cursor() as cursor:
            cursor.execute("SELECT %s::jsonb", [json.dumps(kept)])
        with transaction.atomic():
            apply_change(order, kept)
            assert read_change(order, kept) == {}
            transaction.set_rollback(True)

    settings(max_examples=150)(ask)()


# --- what is done -----------------------------------------------------------------------------------


def test_a_change_is_saved_and_validated_in_few_statements(order: Any, acme: Any) -> None:
    with CaptureQueriesContext(connection) as captured:
        assert apply_change(order, {"quantity": 4, "customer": acme.pk, "contacts": [acme.pk]}) is order
    order.refresh_from_db()
    assert (order.quantity, order.customer, list(order.contacts.all())) == (4, acme, [acme])
    told = [query["sql"].split()[0] for query in captured if "SAVEPOINT" not in query["sql"]]
    # Locked and read; three looks at what it points to; one at what must be unique, one at the constraint; saved;
    # what the relation to many has and gets.
    assert told == ["SELECT"] * 6 + ["UPDATE", "SELECT", "INSERT"]
    assert "FOR NO KEY UPDATE" in captured[1]["sql"]


def test_nothing_but_the_change_is_saved(order: Any, shop: Any) -> None:
    shop.Order.objects.update(note="of somebody else", options={"n": 1})
    order.nickname = "never asked for"
    apply_change(order, {"quantity": 4})
    now = shop.Order.objects.get()
    assert (now.quantity, now.note, now.options, now.nickname) == (4, "of somebody else", {"n": 1}, None)
    assert order.note == "of somebody else"


def test_what_the_model_keeps_itself_is_kept(order: Any) -> None:
    before = order.updated
    apply_change(order, {"quantity": 4})
    order.refresh_from_db()
    assert order.updated > before
    assert order.doubled == 8


def test_an_empty_change_saves_nothing(order: Any) -> None:
    before = order.updated
    assert apply_change(order, {}) is order
    order.refresh_from_db()
    assert order.updated == before


def test_a_refused_change_leaves_the_object_as_its_row(order: Any, shop: Any) -> None:
    before = snapshot(order)
    for change in ({"urgent": True}, {"unit": "eur", "nickname": "nobody"}, {"nothing": 1}, {"quantity": "x"}):
        with pytest.raises(InvalidChange):
            apply_change(order, change)
        assert snapshot(order) == before == snapshot(shop.Order.objects.get())


def test_what_only_the_database_refuses_is_refused_without_its_words(order: Any, shop: Any) -> None:
    with connection.cursor() as cursor:
        cursor.execute("SET CONSTRAINTS ALL IMMEDIATE")
        cursor.execute("ALTER TABLE shop_order ADD CONSTRAINT secret_rule CHECK (note <> 'canary')")
    with pytest.raises(InvalidChange) as caught:
        apply_change(order, {"note": "canary"})
    assert caught.value.errors == {"": ["the database refuses it"]}
    assert order.note == shop.Order.objects.get().note == ""


def test_what_the_model_refuses_when_it_is_saved_is_refused(shop: Any, db: None) -> None:
    line = shop.Line.objects.create(order_code="1", position=1)
    with pytest.raises(InvalidChange, match="text: refused when it is saved"):
        apply_change(line, {"text": "refuse"})
    assert line.text == ""
    assert refuse(line, {"picture": "missing.png"}).keys() == {"picture"}


def test_a_row_that_was_chosen_and_is_gone_is_refused(order: Any, acme: Any) -> None:
    change = read_change(order, {"customer": acme, "contacts": [acme]})
    acme.delete()
    with pytest.raises(InvalidChange) as caught:
        apply_change(order, change)
    assert caught.value.errors.keys() == {"customer", "contacts"}


def test_children_proxies_and_objects_read_in_part_can_be_changed(shop: Any, order: Any) -> None:
    rush = shop.RushOrder.objects.create(code="R")
    apply_change(rush, {"note": "parent", "hours": 1})
    proxy = shop.OrderProxy.objects.only("code").get(pk=order.pk)
    apply_change(proxy, read_change(proxy, {"quantity": 3}))
    line = shop.Line.objects.create(order_code="1", position=1)
    apply_change(line, {"text": "x"})
    assert (shop.RushOrder.objects.get().note, shop.RushOrder.objects.get().hours) == ("parent", 1)
    assert shop.Order.objects.get(pk=order.pk).quantity == 3
    assert shop.Line.objects.get().text == "x"
    assert refuse(line, {"order_code": "2", "position": 2}).keys() == {"order_code", "position"}


@pytest.mark.django_db
def test_relations_to_many_are_set_as_they_were_asked() -> None:
    group = Group.objects.create(name="Finance")
    first, second, third = Permission.objects.order_by("pk")[:3]
    group.permissions.set([first, second])
    change = read_change(group, {"permissions": [second.pk, third, str(second.pk)]})
    assert change == {"permissions": [second.pk, third.pk]}
    apply_change(group, change)
    assert set(group.permissions.all()) == {second, third}
    assert apply_change(group, {"permissions": []}).permissions.count() == 0


def test_what_forms_leave_out_can_be_asked_for_and_is_judged_like_the_rest(order: Any) -> None:
    """`editable=False` is the usual mark of what a workflow manages, such as a status."""
    assert read_change(order, {"inner": "y"}) == {"inner": "y"}
    assert apply_change(order, {"inner": "y"}).inner == "y"
    order.refresh_from_db()
    assert order.inner == "y"
    assert "at most 10 characters" in refuse(order, {"inner": "y" * 11})["inner"][0]
    assert snapshot(order, change={"inner": "z"})["inner"] == "y"  # and so a decision about it can be stale


@pytest.mark.parametrize(
    ("name", "given", "told"),
    [
        ("id", 7, "part of the key"),
        ("scan", b"x", "binary"),
        ("updated", "2026-01-01T00:00Z", "set by itself"),
        ("created", "2026-01-01T00:00Z", "set by itself"),
        ("doubled", 4, "set by itself"),
    ],
)
def test_why_a_field_cannot_be_changed_is_said_of_each(order: Any, name: str, given: Any, told: str) -> None:
    (reason,) = refuse(order, {name: given})[name]
    assert told in reason
