"""What a review is about: an object by name, its state, and the digest of what was shown."""

from __future__ import annotations

import doctest
import json
import uuid
from datetime import UTC, date, datetime, time, timedelta, timezone
from decimal import Decimal
from importlib import import_module
from types import SimpleNamespace
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from django.contrib.auth.models import Group, User
from django.db import DatabaseError, connection, connections, models, transaction
from django.test.utils import override_settings
from django.utils import timezone as zones
from django.utils.safestring import mark_safe
from django.utils.translation import gettext_lazy
from hypothesis import given
from hypothesis import strategies as st

from approvals.subjects.field_values import REDACTED, from_plain, is_secret, is_secret_name, redact_json, to_plain
from approvals.subjects.reference import (
    MAX_LABEL,
    InvalidChange,
    Subject,
    digest,
    load_subject,
    read_subject,
    snapshot,
    snapshot_again,
)
from workflows.models import Workspace


@pytest.fixture(autouse=True)
def opened(shop: Any) -> None:
    """Every test here may use the shop."""


def test_the_examples_are_true(shop: Any, db: None) -> None:
    acme, globex = (
        shop.Customer.objects.create(pk=pk, name=name, code=name) for pk, name in ((2, "Acme"), (3, "Globex"))
    )
    values = {"number": "2026-07", "amount": "1240.00", "due": date(2026, 7, 17), "customer": globex}
    shop.Invoice.objects.create(pk=7, **values).watchers.set([acme, globex])
    invoice = shop.Invoice.objects.get()
    names = {
        "invoice": invoice,
        "Invoice": shop.Invoice,
        "acme": acme,
        "Decimal": Decimal,
        "load_subject": load_subject,
    }
    names |= {"shown": snapshot(invoice), "subject": read_subject(invoice)}
    shop.Invoice.objects.update(amount=1300)
    for module in (
        "subjects.field_values",
        "display.values",
        "display.money",
        "subjects.field_display",
        "subjects.diff_parts",
        "subjects.reference",
        "subjects.change",
        "subjects.diff",
    ):
        ran = doctest.testmod(import_module(f"approvals.{module}"), extraglobs=names)
        assert (ran.failed, ran.attempted > 0) == (0, True), module


# --- by name ----------------------------------------------------------------------------------------


def test_a_subject_is_found_again_by_its_name(order: Any) -> None:
    subject = read_subject(order)
    assert subject == Subject(model="shop.order", pk=str(order.pk), label="Order A-1")
    assert load_subject(subject) == order
    assert str(subject) == "Order A-1"


def test_a_subject_is_small_and_cannot_be_changed(order: Any) -> None:
    with pytest.raises(AttributeError):
        read_subject(order).pk = "2"


@pytest.mark.django_db
@pytest.mark.parametrize("make", [lambda: Group.objects.create(name="Finance"), lambda: Workspace.objects.first()])
def test_objects_of_any_app_can_be_subjects(make: Any) -> None:
    row = make()
    assert load_subject(read_subject(row)) == row


def test_keys_of_every_kind_are_kept_as_text(shop: Any, db: None) -> None:
    label = shop.Label.objects.create(name="new")
    line = shop.Line.objects.create(order_code='A"1', position=7)
    rush = shop.RushOrder.objects.create(code="R")
    subjects = [read_subject(row) for row in (label, line, rush)]
    assert [subject.pk for subject in subjects] == [str(label.pk), '["A\\"1", "7"]', str(rush.pk)]
    assert [load_subject(subject) for subject in subjects] == [label, line, rush]
    assert isinstance(load_subject(subjects[2]), shop.RushOrder)


def test_a_proxy_stays_the_proxy_it_was(order: Any, shop: Any) -> None:
    subject = read_subject(shop.OrderProxy.objects.get(pk=order.pk))
    assert (subject.model, subject.label) == ("shop.orderproxy", "Proxy A-1")
    assert type(load_subject(subject)) is shop.OrderProxy


def test_a_deleted_subject_is_none_and_still_has_its_name(order: Any) -> None:
    subject = read_subject(order)
    order.delete()
    assert load_subject(subject) is None
    assert subject.label == "Order A-1"


@pytest.mark.django_db
@pytest.mark.parametrize(
    ("model", "pk"),
    [
        ("gone.model", "1"),
        ("nonsense", "1"),
        ("", ""),
        ("auth.user", "no number"),
        ("auth.user", "9" * 40),
        ("shop.label", "no uuid"),
        ("shop.line", "no json"),
        ("shop.line", '["a"]'),
        ("shop.line", "7"),
    ],
)
def test_what_cannot_be_a_row_is_none(model: str, pk: str) -> None:
    assert load_subject(Subject(model, pk, "?")) is None


def test_a_row_that_its_manager_hides_is_found(shop: Any, db: None) -> None:
    row = shop.Handled.objects.create(hidden=True)
    assert load_subject(read_subject(row)) == row


@pytest.mark.django_db
def test_an_object_that_is_not_saved_is_refused() -> None:
    for obj in (Group(name="new"), Workspace(), Group(pk=7, name="guessed")):
        with pytest.raises(InvalidChange, match="save it before"):
            read_subject(obj)


def test_a_name_is_bounded_and_cannot_hide_anything(shop: Any, db: None) -> None:
    row = shop.Customer.objects.create(name="Acme\u202e\n" + "x" * 190, code="1")
    label = read_subject(row).label
    assert label.startswith("Acme⟨U+202E⟩⟨U+000A⟩x")
    assert len(label) == MAX_LABEL
    assert label.endswith("…")


def test_an_object_that_cannot_say_its_name_is_named_by_its_key(shop: Any, db: None) -> None:
    for name in ("broken", "", " \t"):
        row = shop.Customer.objects.create(name=name, code=name)
        assert read_subject(row).label == f"customer {row.pk}"


def test_a_name_that_breaks_the_transaction_is_not_covered_up(shop: Any, db: None) -> None:
    row = shop.Customer.objects.create(name="query", code="q")
    with pytest.raises(DatabaseError), transaction.atomic():
        read_subject(row)


def test_a_subject_of_another_database_is_found_there(order: Any, shop: Any, monkeypatch: Any) -> None:
    monkeypatch.setitem(connections.settings, "other", connections.settings["default"])
    connections["other"] = connections["default"]
    try:
        row = shop.Order.objects.using("other").get(pk=order.pk)
        subject = read_subject(row)
        assert subject.using == "other"
        found = load_subject(subject)
        assert found == order
        assert found._state.db == "other"
        assert snapshot(row, ["labels", "code"]) == {"labels": [], "code": "A-1"}
    finally:
        del connections["other"]


def test_a_row_read_from_a_replica_is_named_and_read_where_it_is_written(order: Any, settings: Any) -> None:
    order._state.db = "replica"
    settings.DATABASE_ROUTERS = [PrimaryRouter()]
    subject = read_subject(order)
    assert subject.using == ""
    assert load_subject(subject)._state.db == "default"


class PrimaryRouter:
    def db_for_read(self, model: Any, **hints: Any) -> str:
        return "replica"

    def db_for_write(self, model: Any, **hints: Any) -> str:
        return "default"


@pytest.mark.parametrize("kind", ["Order", "RushOrder", "Line", "Handled"])
def test_a_locked_subject_waits_for_the_decision_in_one_statement(
    shop: Any,
    db: None,
    kind: str,
    django_assert_num_queries: Any,
) -> None:
    given = {"Order": {"code": "1"}, "RushOrder": {"code": "2"}, "Line": {"order_code": "1", "position": 1}}
    subject = read_subject(getattr(shop, kind).objects.create(**given.get(kind, {})))
    with transaction.atomic(), django_assert_num_queries(1) as captured:
        assert load_subject(subject, lock=True)
    assert "FOR NO KEY UPDATE" in captured[0]["sql"]


# --- its state --------------------------------------------------------------------------------------


def test_a_snapshot_is_the_state_as_json_without_keys_bytes_and_secrets(order: Any) -> None:
    shown = snapshot(order)
    assert shown == {
        "code": "A-1",
        "amount": "1240.00",
        "amount_currency": "EUR",
        "total": None,
        "unit": "",
        "quantity": 1,
        "weight": None,
        "status": "draft",
        "level": None,
        "urgent": False,
        "checked": None,
        "due": None,
        "opens": None,
        "placed": None,
        "lead": None,
        "reference": None,
        "address": None,
        "options": {},
        "note": "",
        "nickname": None,
        "numbers": [],
        "span": None,
        "customer": None,
        "payer": None,
        "referrer": None,
        "contract": "",
        "api_token": REDACTED,
        "iban": REDACTED,
        "vault": REDACTED,
    }
    assert json.loads(json.dumps(shown)) == shown
    assert "canary" not in json.dumps(snapshot(order, [field.name for field in order._meta.concrete_fields]))


def test_a_snapshot_costs_no_statement(order: Any, django_assert_num_queries: Any) -> None:
    with django_assert_num_queries(0):
        snapshot(order)


def test_named_fields_may_be_relations_to_many_which_cost_one_statement_each(
    order: Any,
    shop: Any,
    django_assert_num_queries: Any,
) -> None:
    labels = [shop.Label.objects.create(name=str(number)) for number in range(5)]
    order.labels.set(labels)
    with django_assert_num_queries(1):
        shown = snapshot(order, ["quantity", "labels"])
    assert shown == {"quantity": 1, "labels": sorted(str(label.pk) for label in labels)}


def test_a_snapshot_for_a_change_holds_what_the_change_is_about(order: Any) -> None:
    assert snapshot(order, change={"labels": [], "quantity": 2}) == {**snapshot(order), "labels": []}
    assert snapshot(order, ["code"], change={"labels": [], "code": "B"}) == {"code": "A-1", "labels": []}


@pytest.mark.parametrize("name", ["nothing", "order_ptr", "rushorder", "pk", "a\u202eb"])
def test_a_snapshot_of_what_is_not_a_field_is_refused(order: Any, name: str) -> None:
    with pytest.raises(InvalidChange) as caught:
        snapshot(order, [name])
    assert "\u202e" not in str(caught.value)


def test_fields_that_were_left_out_of_a_query_are_read_together(
    order: Any,
    shop: Any,
    django_assert_num_queries: Any,
) -> None:
    row = shop.Order.objects.only("code").get(pk=order.pk)
    with django_assert_num_queries(1):
        assert snapshot(row) == snapshot(order)


def test_a_child_has_the_fields_of_its_parents(shop: Any, db: None) -> None:
    rush = shop.RushOrder.objects.create(code="R", hours=3)
    shown = snapshot(rush)
    assert (shown["code"], shown["hours"]) == ("R", 3)
    assert not {"order_ptr", "id"} & shown.keys()


def test_the_parts_of_a_composite_key_are_no_state(shop: Any, db: None) -> None:
    assert snapshot(shop.Line(order_code="1", position=1, text="x")) == {
        "text": "x",
        "stamp": None,
        "picture": "",
    }


def test_a_snapshot_taken_again_leaves_out_what_the_model_no_longer_has(order: Any) -> None:
    assert snapshot_again(order, {"code": "old", "removed": 1, "labels": []}) == {"code": "A-1", "labels": []}


def test_what_is_in_memory_reads_as_it_would_from_the_database(shop: Any, db: None) -> None:
    given = {
        "code": "B",
        "amount": 1.5,
        "quantity": "3",
        "weight": 2,
        "urgent": 1,
        "due": "2026-07-14",
        "opens": "08:00",
        "lead": "1 02:00:00",
        "level": 2,
        "status": shop.Status.PAID,
        "placed": datetime(2026, 7, 14, 10, tzinfo=timezone(timedelta(hours=2))),
        "numbers": (1, 2),
        "reference": "5cf7d0ec6f5e4a3c8f3d1c0d2b7a9e10",
        "options": {"when": date(2026, 1, 1)},
        "span": [1, 5],
        "address": "0:0::1",
        "contract": "a.pdf",
    }
    row = shop.Order(**given)
    before = snapshot(row)
    row.save()
    assert snapshot(shop.Order.objects.get(pk=row.pk)) == before
    assert (before["amount"], before["placed"]) == ("1.50", "2026-07-14T08:00:00+00:00")


# --- secrets ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "name",
    ["password", "api_token", "apiKey", "access-token", "client_secret", "Private Key", "pin", "password_hash", "pwd2"],
)
def test_names_of_secrets_are_known(name: str) -> None:
    assert is_secret_name(name)


@pytest.mark.parametrize("name", ["secretary", "max_tokens", "passport", "pinned", "key", "keyboard", "tokenizer", ""])
def test_other_names_are_not_taken_for_secrets(name: str) -> None:
    assert not is_secret_name(name)


@pytest.mark.django_db
def test_a_password_never_enters_a_snapshot() -> None:
    user = User.objects.create_user("ana", password="canary")
    assert snapshot(user)["password"] == REDACTED


def test_a_proxy_or_child_may_have_more_secrets_and_keeps_those_of_its_parents(order: Any, shop: Any) -> None:
    shown = snapshot(shop.OrderProxy.objects.get(pk=order.pk))
    assert (shown["note"], shown["iban"]) == (REDACTED, REDACTED)
    assert snapshot(order)["note"] == ""


def test_what_only_speaks_of_a_secret_is_none() -> None:
    class Open(models.CharField):
        secret = False

    class EncryptedTextField(models.TextField):
        pass

    def judge(field: models.Field, called: str) -> bool:
        field.set_attributes_from_name(called)
        return is_secret(field, models.Model)

    assert judge(models.CharField(), "token")
    assert judge(EncryptedTextField(), "diagnosis")
    assert not judge(Open(), "token")
    assert not judge(models.BooleanField(), "token")
    assert not judge(models.DateTimeField(), "password")


def test_secrets_within_json_are_hidden_wherever_they_stand(order: Any) -> None:
    order.options = {"smtp": [{"password": "canary", "host": "h"}], "api_key": "canary", "token": "", "pin": None}
    assert snapshot(order)["options"] == {
        "smtp": [{"password": REDACTED, "host": "h"}],
        "api_key": REDACTED,
        "token": "",
        "pin": None,
    }
    deep: Any = "canary"
    for _ in range(300):
        deep = {"a": deep}
    assert "canary" not in json.dumps(redact_json({"password": deep, "b": deep}))


# --- what a decision is bound to --------------------------------------------------------------------

json_values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0")),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0")), inner, max_size=4)
    ),
    max_leaves=12,
)


@given(st.dictionaries(st.sampled_from("abc"), json_values), json_values)
def test_a_digest_is_a_sha256_that_json_does_not_change(shown: dict[str, Any], value: Any) -> None:
    seal = digest(shown, {"x": value})
    assert len(seal) == 64
    again = json.loads(json.dumps({"x": value}, sort_keys=True))
    assert digest(dict(reversed(shown.items())), again) == seal


@given(json_values, json_values)
def test_different_json_has_different_digests(one: Any, other: Any) -> None:
    def is_same(left: Any, right: Any) -> bool:
        if isinstance(left, bool) or isinstance(right, bool):
            return left is right
        if isinstance(left, dict) and isinstance(right, dict):
            return left.keys() == right.keys() and all(is_same(left[key], right[key]) for key in left)
        if isinstance(left, list) and isinstance(right, list):
            return len(left) == len(right) and all(map(is_same, left, right))
        if isinstance(left, int | float) and isinstance(right, int | float):
            return Decimal(repr(left)) == Decimal(repr(right))
        return type(left) is type(right) and left == right

    assert (digest({}, {"x": one}) == digest({}, {"x": other})) == is_same(one, other)


def test_a_digest_tells_the_change_from_what_was_shown() -> None:
    assert len({digest({"a": 1}, {}), digest({}, {"a": 1}), digest({}, {}), digest({"a": "1"}, {})}) == 4
    assert digest({"a": float("inf")}, {}) != digest({"a": float("nan")}, {})


@pytest.mark.django_db
@pytest.mark.parametrize(
    "value", [1e300, 1e16, -0.0, 0.1, 1.0, 123456789.123456789, 10**30, 1e-7, 2.5e-320, [True, 1], {"b": 1, "aa": {}}]
)
def test_a_digest_outlives_jsonb(value: Any) -> None:
    shown = {"x": value}
    with connection.cursor() as cursor:
        cursor.execute("SELECT %s::jsonb::text", [json.dumps(shown)])
        assert digest(json.loads(cursor.fetchone()[0]), {}) == digest(shown, {})


def test_the_digest_of_an_order_changes_with_it_and_only_with_it(order: Any) -> None:
    change = {"quantity": 5}
    shown = snapshot(order, change=change)
    seal = digest(shown, change)
    subject = read_subject(order)
    assert digest(snapshot_again(load_subject(subject), shown), change) == seal
    order.save()  # `updated` moves, and is no state that anybody edits
    assert digest(snapshot_again(load_subject(subject), shown), change) == seal
    order.note = "urgent!"
    order.save()
    assert digest(snapshot_again(load_subject(subject), shown), change) != seal


# --- values as JSON ---------------------------------------------------------------------------------

moments = st.datetimes(
    datetime(1900, 1, 1), datetime(2200, 1, 1), timezones=st.sampled_from([UTC, ZoneInfo("Asia/Tokyo")])
)
FIELDS: dict[str, tuple[models.Field, st.SearchStrategy[Any]]] = {
    "text": (models.TextField(), st.text()),
    "integer": (models.BigIntegerField(), st.integers()),
    "float": (models.FloatField(), st.floats(allow_nan=False)),
    "decimal": (
        models.DecimalField(max_digits=40, decimal_places=4),
        st.decimals(allow_nan=False, allow_infinity=False, places=4, min_value=-(10**20), max_value=10**20),
    ),
    "boolean": (models.BooleanField(null=True), st.none() | st.booleans()),
    "date": (models.DateField(), st.dates()),
    "time": (models.TimeField(), st.times()),
    "moment": (models.DateTimeField(), moments),
    "duration": (models.DurationField(), st.timedeltas()),
    "uuid": (models.UUIDField(), st.uuids()),
    "json": (models.JSONField(), json_values),
}


@given(st.data(), st.sampled_from(sorted(FIELDS)))
def test_values_survive_json(data: st.DataObject, kind: str) -> None:
    field, strategy = FIELDS[kind]
    field.set_attributes_from_name("x")
    value = data.draw(strategy)
    plain = to_plain(field, value)
    # Python calls a time that a zone has twice unequal to itself in another zone.
    meant = value.astimezone(UTC) if isinstance(value, datetime) else value
    assert from_plain(field, json.loads(json.dumps(plain))) == meant
    assert to_plain(field, from_plain(field, plain)) == plain


@pytest.mark.parametrize(
    ("field", "values", "plain"),
    [
        (models.DecimalField(decimal_places=2), [5, 5.0, "5", "5.00", "5.000", Decimal("5E0")], "5.00"),
        (models.DecimalField(decimal_places=2), ["-0", Decimal("-0.000"), 0], "0.00"),
        (models.DecimalField(decimal_places=2), ["0.1234", Decimal("0.12340")], "0.1234"),
        (models.DecimalField(decimal_places=2), ["NaN"], "NaN"),
        (models.DecimalField(decimal_places=2), ["1e999999"], "1E+999999"),
        (models.FloatField(), [float("inf"), "inf"], "inf"),
        (models.DateField(), [date(2026, 1, 2), "2026-01-02", datetime(2026, 1, 2, 5)], "2026-01-02"),
        (
            models.DateTimeField(),
            [date(2026, 1, 2), "2026-01-02T00:00", datetime(2026, 1, 2)],
            "2026-01-02T00:00:00+00:00",
        ),
        (models.TimeField(), [time(8), "08:00"], "08:00:00"),
        (models.UUIDField(), [uuid.UUID(int=1), str(uuid.UUID(int=1)), uuid.UUID(int=1).hex], str(uuid.UUID(int=1))),
        (models.IntegerField(), ["nonsense"], "nonsense"),
        (models.BooleanField(), [1, True, "t"], True),
    ],
)
def test_what_means_the_same_is_the_same_json(field: models.Field, values: list[Any], plain: Any) -> None:
    field.set_attributes_from_name("x")
    assert [to_plain(field, value) for value in values] == [plain] * len(values)


def test_a_text_is_never_more_than_text() -> None:
    field = models.TextField()
    assert type(to_plain(field, mark_safe("<b>"))) is str
    assert type(to_plain(field, gettext_lazy("Yes"))) is str


def test_moments_without_a_zone_are_meant_in_the_active_one() -> None:
    field = models.DateTimeField()
    with zones.override("Europe/Berlin"):
        assert to_plain(field, datetime(2026, 7, 14, 10)) == "2026-07-14T08:00:00+00:00"
    assert to_plain(field, datetime.max.replace(tzinfo=timezone(timedelta(hours=-5)))).startswith("9999-12-31T23:59")
    with override_settings(USE_TZ=False):
        assert to_plain(field, datetime(2026, 7, 14, 10)) == "2026-07-14T10:00:00"
        assert from_plain(field, "2026-07-14T10:00:00") == datetime(2026, 7, 14, 10)


def test_a_field_of_another_maker_writes_its_own_text() -> None:
    class Point(SimpleNamespace):
        pass

    class PointField(models.Field):
        def to_python(self, value: Any) -> Any:
            return value if isinstance(value, Point) else Point(x=int(value))

        def value_to_string(self, obj: Any) -> str:
            return str(self.value_from_object(obj).x)

    field = PointField()
    field.set_attributes_from_name("point")
    assert to_plain(field, Point(x=4)) == "4"
    assert from_plain(field, "4").x == 4
