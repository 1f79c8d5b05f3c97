"""What changes, as a reviewer reads it: labels, names, links, money, lines, places of JSON."""

from __future__ import annotations

import json
import sys
import uuid
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from types import ModuleType
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from django.contrib import admin
from django.contrib.auth.models import AnonymousUser, Group, Permission, User
from django.contrib.contenttypes.models import ContentType
from django.core.files.base import ContentFile
from django.core.files.storage import FileSystemStorage
from django.template import Context, Template
from django.urls import path
from django.utils import timezone as zones
from django.utils import translation
from django.utils.safestring import mark_safe
from hypothesis import given, settings
from hypothesis import strategies as st

from approvals.display.values import HIDDEN, MAX_BLOCK, NOTHING, ShownValue
from approvals.subjects.change import apply_change, read_change
from approvals.subjects.diff import FieldDiff, compare, find_drift
from approvals.subjects.diff_parts import ABSENT, MAX_LINES, MAX_PLACES, diff_json, diff_lines, mark_change, same_json
from approvals.subjects.field_display import MAX_ITEMS
from approvals.subjects.field_values import REDACTED
from approvals.subjects.reference import load_subject, read_subject, snapshot


@pytest.fixture(autouse=True)
def opened(shop: Any) -> None:
    """Every test here may use the shop."""


@pytest.fixture
def registered(shop: Any, settings: Any) -> Any:
    """In the admin, and in routes made after that: those of the site were made when somebody first looked at them."""
    admin.site.register(shop.Customer)
    module = ModuleType("tests.shop_with_admin")
    module.urlpatterns = [path("admin/", admin.site.urls)]  # type: ignore[attr-defined]
    sys.modules[module.__name__] = module
    settings.ROOT_URLCONF = module.__name__
    yield
    admin.site.unregister(shop.Customer)
    del sys.modules[module.__name__]


def tell(diffs: tuple[FieldDiff, ...]) -> list[tuple[str, str, str, str]]:
    return [(diff.label, diff.before.text, diff.after.text, diff.kind) for diff in diffs]


def tell_one(obj: Any, change: dict[str, Any], **options: Any) -> tuple[str, str, str]:
    (diff,) = compare(obj, change, **options)
    return diff.before.text, diff.after.text, diff.kind


def tell_parts(diff: FieldDiff) -> list[tuple[str, str]]:
    return [(part.sign, part.shown.text) for part in diff.parts]


# --- each kind of value -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "before", "after", "told"),
    [
        ("quantity", 3, 12_000, ("3", "12,000", "number")),
        ("weight", None, 2.5, (NOTHING, "2.5", "number")),
        ("total", Decimal("1.5"), "2.25", ("1.500", "2.250", "number")),
        ("urgent", False, True, ("No", "Yes", "yes_no")),
        ("checked", None, False, ("Unknown", "No", "yes_no")),
        ("status", "draft", "paid", ("Enter a number.", "Yes", "choice")),
        ("status", "draft", "lost", ("Enter a number.", "lost", "choice")),
        ("level", None, 2, (NOTHING, "Two", "choice")),
        ("due", "2026-07-14", None, ("July 14, 2026", NOTHING, "date")),
        ("opens", "08:00", "08:30", ("8 a.m.", "8:30 a.m.", "time")),
        ("lead", timedelta(hours=1), "2 00:00:00", ("1 h", "2 d", "duration")),
        ("reference", None, uuid.UUID(int=1), (NOTHING, str(uuid.UUID(int=1)), "text")),
        ("address", "::1", "127.0.0.1", ("::1", "127.0.0.1", "text")),
        ("code", "A", "B\u202e", ("A", "B⟨U+202E⟩", "text")),
        ("code", "A", "A ", ("A", "A␣", "text")),
        ("nickname", None, "", ("null", '""', "text")),
        ("nickname", "—", None, ('"—"', "null", "text")),
        ("nickname", "", " ", (NOTHING, "␣", "text")),
        ("nickname", "x" * 350 + "a", "x" * 350 + "b", ("…" + "x" * 24 + "a", "…" + "x" * 24 + "b", "text")),
        ("numbers", [], [1, 20000], (NOTHING, "1, 20,000", "list")),
        ("numbers", [1], list(range(30)), ("1", ", ".join(map(str, range(20))) + ", and 10 more", "list")),
    ],
)
def test_values_are_told_as_people_read_them(
    order: Any,
    name: str,
    before: Any,
    after: Any,
    told: tuple[str, str, str],
) -> None:
    setattr(order, name, before)
    assert tell_one(order, {name: after}) == told
    assert tell_one(snapshot(order), {name: after}, model="shop.order") == told
    assert compare(order, {name: before}) == ()


def test_what_is_empty_is_marked_as_that(order: Any) -> None:
    (diff,) = compare(order, {"nickname": "—"})
    assert (diff.before, diff.after) == (ShownValue("null", empty=True), ShownValue('"—"'))
    (diff,) = compare(order, {"nickname": "x"})
    assert diff.before.empty
    assert not diff.after.empty


def test_moments_are_told_in_the_zone_of_the_viewer(order: Any) -> None:
    order.placed = datetime(2026, 7, 14, 22, 30, tzinfo=UTC)
    change = {"placed": "2026-07-14T23:30:00+00:00"}
    with zones.override(ZoneInfo("Asia/Tokyo")), translation.override("de"):
        assert tell_one(order, change) == ("15. Juli 2026 07:30", "15. Juli 2026 08:30", "moment")


def test_moments_a_second_apart_are_told_exactly(order: Any) -> None:
    order.placed = datetime(2026, 7, 14, 22, 30, tzinfo=UTC)
    before, after, _kind = tell_one(order, {"placed": "2026-07-14T22:30:01+00:00"})
    assert (before, after) == ('"2026-07-14T22:30:00+00:00"', '"2026-07-14T22:30:01+00:00"')


def test_labels_and_choices_are_in_the_language_of_the_viewer(order: Any) -> None:
    change = {"status": "paid", "checked": True, "code": "B"}
    assert tell(compare(order, change)) == [
        ("Order code", "A-1", "B", "text"),
        ("Time", "Enter a number.", "Yes", "choice"),
        ("Checked", "Unknown", "Yes", "yes_no"),
    ]
    with translation.override("de"):
        assert tell(compare(order, change)) == [
            ("Order code", "A-1", "B", "text"),
            ("Zeit", "Bitte eine Zahl eingeben.", "Ja", "choice"),
            ("Checked", "Unbekannt", "Ja", "yes_no"),
        ]
    with translation.override("fr"):
        assert tell(compare(order, change))[1] == ("Heure", "Saisissez un nombre.", "Oui", "choice")


@pytest.mark.django_db
def test_a_users_change_has_djangos_own_labels() -> None:
    user = User.objects.create_user("ana", first_name="Ana")
    with translation.override("es"):
        assert tell(compare(user, {"first_name": "Anna"})) == [("Nombre", "Ana", "Anna", "text")]


def test_rows_come_in_the_order_of_the_model(order: Any, acme: Any) -> None:
    change = {"unknown": 1, "contacts": [acme.pk], "note": "x", "customer_id": acme.pk, "code": "B", "another": 2}
    names = [diff.name for diff in compare(order, change)]
    assert names == ["code", "note", "customer", "contacts", "another", "unknown"]


def test_two_similar_lines_have_their_difference_marked() -> None:
    parts = mark_change("IE64 TEST 9905 8300 0032 61", "IE64 TEST 9905 8300 0032 67")
    assert [(part.sign, part.shown.text) for part in parts] == [
        (" ", "IE64 TEST 9905 8300 0032 6"),
        ("-", "1"),
        ("+", "7"),
    ]
    assert mark_change("Ana", "Benedikt") == ()


@given(st.text("abc "), st.text("abc "))
def test_the_marked_stretches_are_the_two_lines(before: str, after: str) -> None:
    parts = mark_change(before, after)
    if parts:
        assert "".join(part.shown.text for part in parts if part.sign != "+") == before
        assert "".join(part.shown.text for part in parts if part.sign != "-") == after


# --- money ------------------------------------------------------------------------------------------


def test_an_amount_and_its_currency_are_one_row(order: Any) -> None:
    assert tell(compare(order, {"amount": "99.5"})) == [("Amount", "€1,240.00", "€99.50", "money")]
    assert tell(compare(order, {"amount_currency": "USD"})) == [("Amount", "€1,240.00", "$1,240.00", "money")]
    both = {"amount_currency": "USD", "amount": Decimal(5)}
    assert tell(compare(order, both)) == [("Amount", "€1,240.00", "$5.00", "money")]
    assert tell(compare(snapshot(order), both, model=type(order))) == [("Amount", "€1,240.00", "$5.00", "money")]
    with translation.override("de"):
        assert tell_one(order, both) == ("1.240,00\xa0€", "5,00\xa0$", "money")


def test_other_fields_can_be_declared_to_be_an_amount(order: Any) -> None:
    order.unit, order.total = "GBP", Decimal(1)
    money = {"total": "unit"}
    assert tell(compare(order, {"total": "2"}, money=money)) == [("Total", "£1.00", "£2.00", "money")]
    assert tell(compare(order, {"total": None}, money=money)) == [("Total", "£1.00", NOTHING, "money")]
    assert tell(compare(order, {"total": "2"})) == [("Total", "1.000", "2.000", "number")]
    assert tell(compare(order, {"total": "2"}, money={"total": "nowhere"})) == [("Total", "1.000", "2.000", "number")]


def test_an_amount_without_a_known_currency_is_a_number(order: Any) -> None:
    assert tell(compare({"amount": "5.00"}, {"amount": "6"}, model=type(order))) == [
        ("Amount", "5.00", "6.00", "number")
    ]
    order.amount_currency = ""
    assert tell(compare(order, {"amount": "6"})) == [("Amount", "1,240.00", "6.00", "number")]
    assert tell(compare(order, {"amount": "6", "amount_currency": "EUR"})) == [
        ("Amount", "1,240.00", "6.00", "number"),
        ("Amount currency", NOTHING, "EUR", "text"),
    ]


def test_a_currency_that_only_changes_its_spelling_is_still_told(order: Any) -> None:
    assert tell(compare(order, {"amount_currency": "eur"})) == [("Amount currency", "EUR", "eur", "text")]


# --- relations --------------------------------------------------------------------------------------


def test_related_rows_have_names_and_those_that_are_gone_are_marked(order: Any, shop: Any, acme: Any) -> None:
    (diff,) = compare(order, {"customer": acme.pk})
    assert (diff.before.text, diff.after, diff.kind) == (NOTHING, ShownValue("Acme GmbH"), "relation")
    (diff,) = compare(order, {"referrer": "acme"})
    assert diff.after == ShownValue("Acme GmbH")
    (diff,) = compare(order, {"customer": 99, "referrer": None})
    assert diff.after == ShownValue("Customer 99 (no longer there)", missing=True)
    (diff,) = compare({"customer": "no key"}, {"customer": [1]}, model=type(order))
    assert diff.before.missing
    assert diff.after.missing


def test_rows_of_the_same_name_are_told_apart(order: Any, shop: Any, acme: Any) -> None:
    twin = shop.Customer.objects.create(name="Acme GmbH", code="twin")
    fake = shop.Customer.objects.create(name="\u0410cme GmbH", code="fake")
    order.customer = acme
    for other in (twin, fake):
        before, after, _kind = tell_one(order, {"customer": other.pk})
        assert (before, after) == (f"{acme} ({acme.pk})", f"{other} ({other.pk})")
    (diff,) = compare(order, {"contacts": [acme.pk, twin.pk]})
    assert diff.after.text == f"+ {acme} ({acme.pk}), + {twin} ({twin.pk})"


def test_relations_to_many_are_told_by_what_goes_and_what_comes(order: Any, shop: Any) -> None:
    first, second, third = (shop.Label.objects.create(id=uuid.UUID(int=n), name=f"L{n}") for n in range(3))
    order.labels.set([first, second])
    (diff,) = compare(order, {"labels": [second, third.pk]})
    assert (diff.before.text, diff.after.text, diff.kind) == ("\u2212 L0", "+ L2", "relations")
    assert tell_parts(diff) == [("-", "L0"), ("+", "L2")]
    (diff,) = compare(snapshot(order, ["labels"]), {"labels": []}, model=shop.Order)
    assert (diff.before.text, diff.after) == ("\u2212 L0, \u2212 L1", ShownValue(NOTHING, empty=True))
    assert compare(order, {"labels": [second, first]}) == ()


def test_many_related_rows_are_counted_and_not_all_read(
    order: Any,
    shop: Any,
    django_assert_num_queries: Any,
) -> None:
    labels = shop.Label.objects.bulk_create(shop.Label(name="x" * 40) for _ in range(MAX_ITEMS + 30))
    keys = [str(label.pk) for label in labels]
    with django_assert_num_queries(1) as captured:
        (diff,) = compare({"labels": []}, {"labels": keys}, model=shop.Order)
    assert captured[0]["sql"].count("::uuid") == MAX_ITEMS
    assert diff.after.text.endswith(", and 30 more")
    assert len(diff.after.text) <= MAX_BLOCK
    assert diff.parts[-1].shown.text == "and 30 more"


def test_rows_of_a_child_or_proxy_are_found_by_their_own_kind(shop: Any, db: None) -> None:
    rush = shop.RushOrder.objects.create(code="R")
    handled = shop.Handled.objects.create()
    assert tell(compare(handled, {"rush": rush.pk, "proxy": rush.pk})) == [
        ("Rush", NOTHING, "Order R", "relation"),
        ("Proxy", NOTHING, "Proxy R", "relation"),
    ]
    assert tell(compare(rush, {"hours": 9, "note": "x"})) == [
        ("Note", NOTHING, "x", "text"),
        ("Hours left", "4", "9", "number"),
    ]


def test_one_statement_for_each_related_model(
    order: Any,
    shop: Any,
    acme: Any,
    django_assert_num_queries: Any,
) -> None:
    others = [shop.Customer.objects.create(name=f"C{n}", code=f"c{n}") for n in range(4)]
    label = shop.Label.objects.create(name="L")
    apply_change(order, {"customer": others[0].pk, "payer": others[1].pk, "labels": [label.pk]})
    before = snapshot(order, change={"contacts": [], "labels": []})
    change = {
        "customer": acme.pk,
        "payer": others[2].pk,
        "contacts": [one.pk for one in others],
        "labels": [],
        "note": "x",
    }
    with django_assert_num_queries(2):  # customers, labels
        compare(before, change, model=shop.Order)
    with django_assert_num_queries(4):  # and what the two relations to many have
        compare(order, change)
    with django_assert_num_queries(3):  # customers by another key
        compare(before, {**change, "referrer": "acme"}, model=shop.Order)
    with django_assert_num_queries(0):
        compare(before, {"note": "x", "options": {"a": 1}, "amount": 4, "customer": others[0].pk}, model=shop.Order)


def test_links_are_those_that_the_viewer_may_follow(order: Any, acme: Any, registered: Any) -> None:
    boss = User(username="boss", is_staff=True, is_superuser=True)
    link = f"/admin/shop/customer/{acme.pk}/change/"
    change = {"customer": acme.pk, "contacts": [acme.pk]}
    for user, url in [
        (boss, link),
        (None, None),
        (AnonymousUser(), None),
        (User(username="x", is_superuser=True), None),
        (User(username="x", is_staff=True, is_superuser=True, is_active=False), None),
    ]:
        customer, contacts = compare(order, change, user=user)
        assert (customer.after.url, contacts.parts[0].shown.url) == (url, url)


def test_a_permission_to_view_is_enough_for_a_link(
    order: Any, acme: Any, registered: Any, django_assert_num_queries: Any
) -> None:
    user = User.objects.create_user("ana", is_staff=True)
    assert compare(order, {"customer": acme.pk}, user=user)[0].after.url is None
    kind = ContentType.objects.create(app_label="shop", model="customer")
    user.user_permissions.add(Permission.objects.create(codename="view_customer", name="x", content_type=kind))
    user = User.objects.get()
    with django_assert_num_queries(3):  # customers; what the user may, by Django's own two statements
        assert compare(order, {"customer": acme.pk, "payer": acme.pk}, user=user)[0].after.url


def test_a_model_without_a_page_has_no_link(order: Any, acme: Any, settings: Any, registered: Any) -> None:
    boss = User(username="boss", is_staff=True, is_superuser=True)
    settings.ROOT_URLCONF = "workflows.urls_health"
    assert compare(order, {"customer": acme.pk}, user=boss)[0].after.url is None
    admin.site.unregister(type(acme))
    try:
        assert compare(order, {"customer": acme.pk}, user=boss)[0].after.url is None
    finally:
        admin.site.register(type(acme))


# --- long texts -------------------------------------------------------------------------------------


def test_texts_are_told_line_by_line(order: Any) -> None:
    order.note = "\n".join(f"line {number}" for number in range(20))
    (diff,) = compare(order, {"note": order.note.replace("line 10\n", "line ten\nand a half\n")})
    assert diff.kind == "lines"
    assert tell_parts(diff) == [
        ("…", "8 lines are the same"),
        (" ", "line 8"),
        (" ", "line 9"),
        ("-", "line 10"),
        ("+", "line ten"),
        ("+", "and a half"),
        (" ", "line 11"),
        (" ", "line 12"),
        ("…", "7 lines are the same"),
    ]
    assert diff.before.text == order.note


@pytest.mark.parametrize(
    ("before", "after", "signs"),
    [
        ("a\nb", "a\nb ", [(" ", "a"), ("-", "b"), ("+", "b␣")]),
        ("a\r\nb", "a\nb", [("-", "a⟨U+000D⟩"), ("+", "a"), (" ", "b")]),
        ("a\r\nb", "a\nc", [(" ", "a"), ("-", "b"), ("+", "c")]),
        ("a\nb", "a\n\u202eb", [(" ", "a"), ("-", "b"), ("+", "⟨U+202E⟩b")]),
        ("a\n", "a", [(" ", "a"), ("-", "")]),
        ("", "a\nb", [("-", ""), ("+", "a"), ("+", "b")]),
    ],
)
def test_what_differs_in_a_line_can_be_seen(order: Any, before: str, after: str, signs: list[tuple[str, str]]) -> None:
    order.note = before
    (diff,) = compare(order, {"note": after})
    assert tell_parts(diff) == signs


@given(st.lists(st.sampled_from("abcd")), st.lists(st.sampled_from("abcd")))
def test_the_parts_of_a_text_are_its_lines(before: list[str], after: list[str]) -> None:
    parts = diff_lines("\n".join(before), "\n".join(after))
    signs = [part.sign for part in parts]
    if ["".join(before)] != ["".join(after)]:
        assert {"-", "+"} & set(signs)
    if "…" not in signs:
        assert [part.shown.text for part in parts if part.sign in " -"] == (before or [""])
        assert [part.shown.text for part in parts if part.sign in " +"] == (after or [""])


def test_no_text_is_too_long_to_compare() -> None:
    huge = "\n".join("ab"[number % 2] for number in range(200_000))
    parts = diff_lines(huge, huge[:100_000] + "x" + huge[100_000:] + "\ny")
    assert len(parts) <= MAX_LINES + 1
    same = "\n" * 2_000
    for parts in (diff_lines(same, "x" + same), diff_lines("a" * 1_000_000, "b" * 1_000_000), diff_lines("", huge)):
        assert len(parts) <= MAX_LINES + 1
    assert parts[-1].shown.text == "199,921 more lines".replace(",", "")


# --- json -------------------------------------------------------------------------------------------


def test_json_is_told_by_its_places(order: Any) -> None:
    order.options = {"limits": {"daily": 5, "rate": 1.5}, "to": ["ana", "ben"], "on": True, "old": None}
    change = {
        "options": {"limits": {"daily": 70000, "rate": 1.5}, "to": ["zoe", "ana", "ben"], "on": 1, "new": {"a": [1]}}
    }
    diffs = compare(order, change)
    assert tell(diffs) == [
        ("Options › limits › daily", "5", "70,000", "json"),  # noqa: RUF001
        ("Options › to › 1", NOTHING, "zoe", "text"),  # noqa: RUF001
        ("Options › on", "Yes", "1", "json"),  # noqa: RUF001
        ("Options › old", "null", "not there", "text"),  # noqa: RUF001
        ("Options › new › a › 1", NOTHING, "1", "json"),  # noqa: RUF001
    ]
    assert [diff.name for diff in diffs] == [
        "options.limits.daily",
        "options.to.0",
        "options.on",
        "options.old",
        "options.new.a.0",
    ]


def test_secrets_within_json_are_told_as_changed_and_not_shown(order: Any) -> None:
    order.options = {"smtp": {"password": "old-canary", "host": "h"}, "n": 1}
    change = {"options": {"smtp": {"password": "new-canary", "host": "i"}, "n": {"api_key": "canary"}}}
    diffs = compare(order, change)
    assert tell(diffs) == [
        ("Options › smtp › password", HIDDEN, HIDDEN, "secret"),  # noqa: RUF001
        ("Options › smtp › host", "h", "i", "text"),  # noqa: RUF001
        ("Options › n", "1", '{"api_key": "⟨redacted⟩"}', "json"),  # noqa: RUF001
    ]
    deep: Any = {"password": "canary"}
    other: Any = {"password": "other-canary"}
    for _ in range(40):
        deep, other = {"a": deep}, {"a": other}
    (diff,) = compare({"options": deep}, {"options": other}, model=type(order))
    assert diff.kind == "secret"
    assert "canary" not in repr((diffs, diff))


def test_a_key_cannot_pass_for_a_place(order: Any) -> None:
    (diff,) = compare(order, {"options": {"a": {"b \u203a c": {"1": {"": {"d.e": [1]}}}}}})
    assert diff.label == "Options › a › “b › c” › “1” › “” › “d.e” › 1"  # noqa: RUF001


def test_many_places_are_counted(order: Any) -> None:
    diffs = compare(order, {"options": {f"k{number}": number for number in range(MAX_PLACES + 5)}})
    assert len(diffs) == MAX_PLACES + 1
    assert (diffs[-1].kind, diffs[-1].after.text) == ("more", "and 5 more")


def test_keys_of_json_are_as_untrusted_as_values(order: Any) -> None:
    (diff,) = compare(order, {"options": {"<b>\u202e" + "k" * 5000: "x" * 5000}})
    assert diff.label.startswith("Options › “<b>⟨U+202E⟩kkk")  # noqa: RUF001
    assert len(diff.label) < 100
    assert len(diff.after.text) <= 300
    assert len(diff.name) <= MAX_BLOCK


json_values = st.recursive(
    st.none() | st.booleans() | st.integers(-3, 3) | st.sampled_from(["", "a", " ", "null"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from("abc"), inner, max_size=3),
    max_leaves=12,
)


@given(json_values, json_values)
def test_every_difference_of_json_has_a_place_and_no_place_is_without_one(before: Any, after: Any) -> None:
    places = diff_json(before, after)
    assert bool(places) is not same_json(before, after)
    assert len({place for place, *_ in places}) == len(places)
    for _place, old, new in places:
        assert old is ABSENT or new is ABSENT or not same_json(old, new)


# --- files ------------------------------------------------------------------------------------------


def test_files_are_told_by_name_and_size(order: Any, shop: Any, tmp_path: Path, monkeypatch: Any) -> None:
    storage = FileSystemStorage(tmp_path)
    monkeypatch.setattr(shop.Order._meta.get_field("contract"), "storage", storage)
    storage.save("2026/letter.pdf", ContentFile(b"x" * 2048))
    (diff,) = compare(order, {"contract": "2026/letter.pdf"})
    assert (diff.before.text, diff.after, diff.kind) == (NOTHING, ShownValue("letter.pdf (2.0\xa0KB)"), "file")
    order.contract = "2026/letter.pdf"
    (diff,) = compare(order, {"contract": "2027/letter.pdf"})
    assert diff.after == ShownValue("letter.pdf (no longer there)", missing=True)
    storage.save("2027/letter.pdf", ContentFile(b"y" * 2048))
    assert tell_one(order, {"contract": "2027/letter.pdf"})[:2] == ('"2026/letter.pdf"', '"2027/letter.pdf"')
    (diff,) = compare(order, {"contract": "../../etc/passwd"})
    assert diff.after == ShownValue("passwd")


# --- secrets ----------------------------------------------------------------------------------------


def test_secrets_are_told_as_changed_and_not_shown(order: Any) -> None:
    change = {
        "api_token": "canary",
        "iban": "canary",
        "vault": "canary",
        "password": "canary",
        "auth": {"pin": "canary"},
    }
    diffs = compare(order, change)
    assert [(diff.name, diff.kind) for diff in diffs] == [
        ("api_token", "secret"),
        ("iban", "secret"),
        ("vault", "secret"),
        ("auth.pin", "secret"),
        ("password", "secret"),
    ]
    assert "canary" not in repr(diffs)
    assert compare(order, {"iban": REDACTED}) == ()
    assert [diff.kind for diff in compare({"iban": "a"}, {"iban": "b"}, model="shop.order")] == ["secret"]
    assert compare({"iban": "a", "pin": 1}, {"iban": "a", "pin": 1}, model="shop.order") == ()


# --- what is not known any more ---------------------------------------------------------------------


def test_a_snapshot_of_a_model_that_is_gone_is_still_told() -> None:
    before = {"net_total": 5, "note": "a\nb", "to": ["x"], "on": True, "api_key": "canary", "same": None}
    after = {"net_total": 70000, "note": "a\nc", "to": ["x", "y"], "on": None, "api_key": "other", "same": None}
    for model in (None, "gone.model", "nonsense"):
        assert tell(compare(before, after, model=model)) == [
            ("Api key", HIDDEN, HIDDEN, "secret"),
            ("Net total", "5", "70,000", "json"),
            ("Note", "a\nb", "a\nc", "lines"),
            ("On", "Yes", NOTHING, "json"),
            ("To › 2", NOTHING, "y", "text"),  # noqa: RUF001
        ]


# --- drift ------------------------------------------------------------------------------------------


def test_nothing_has_drifted_while_nothing_changed(order: Any) -> None:
    shown = json.loads(json.dumps(snapshot(order, change={"labels": []})))
    assert find_drift(shown, load_subject(read_subject(order))) == ()
    order.save()
    assert find_drift(shown, load_subject(read_subject(order))) == ()


def test_drift_is_what_was_shown_against_what_is_now(order: Any, shop: Any, acme: Any) -> None:
    label = shop.Label.objects.create(name="L")
    shown = snapshot(order, change={"labels": []})
    apply_change(order, {"amount": "1300", "customer": acme.pk, "labels": [label.pk]})
    shop.Order.objects.update(iban="other")
    assert tell(find_drift(shown, load_subject(read_subject(order)))) == [
        ("Amount", "€1,240.00", "€1,300.00", "money"),
        ("Customer", NOTHING, "Acme GmbH", "relation"),
        ("Labels", NOTHING, "+ L", "relations"),
    ]


def test_a_subject_that_is_gone_has_drifted(order: Any) -> None:
    shown, subject = snapshot(order), read_subject(order)
    order.delete()
    (diff,) = find_drift(shown, load_subject(subject))
    assert (diff.kind, diff.after) == ("gone", ShownValue("no longer there", missing=True))


def test_a_field_that_the_model_no_longer_has_has_drifted(order: Any) -> None:
    assert tell(find_drift({"code": "A-1", "old_field": 5}, order)) == [("Old field", "5", "no longer there", "gone")]


# --- everything together ----------------------------------------------------------------------------

HOSTILE = '"><script>alert(1)</script>\u202e\u200b\ud800\0{{ 7|add:1 }}'


def test_whatever_is_in_a_change_is_shown_as_plain_bounded_text(order: Any, shop: Any) -> None:
    evil = shop.Customer.objects.create(name=mark_safe("<b>evil</b>\u202e"), code="evil")
    change = {field.name: HOSTILE * 500 for field in order._meta.get_fields() if field.name != "labels"}
    change |= {"customer": evil.pk, "contacts": [evil.pk, HOSTILE], "options": {HOSTILE: [HOSTILE, {HOSTILE: HOSTILE}]}}
    diffs = compare(order, {**change, HOSTILE: HOSTILE, mark_safe("<i>"): mark_safe("<i>")})
    assert len(diffs) > 25
    for diff in diffs:
        texts = [diff.name, diff.label, diff.before.text, diff.after.text, *(part.shown.text for part in diff.parts)]
        for text in texts:
            assert type(text) is str
            assert len(text) <= MAX_BLOCK
            assert not set(text) & set("\u202e\u200b\ud800\0")
        page = Template("{{ diff.label }} {{ diff.before.text }} {{ diff.after.text }}").render(Context({"diff": diff}))
        assert "<script" not in page
        assert "<b>" not in page
        page.encode()


values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text() | st.sampled_from(["draft", "2026-01-01", "5"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=6,
)
SCALARS = [
    *(
        "code",
        "amount",
        "amount_currency",
        "total",
        "quantity",
        "weight",
        "status",
        "level",
        "urgent",
        "checked",
        "due",
    ),
    *(
        "opens",
        "placed",
        "lead",
        "reference",
        "address",
        "options",
        "note",
        "nickname",
        "numbers",
        "span",
        "contract",
        "lost",
    ),
]


@given(
    st.dictionaries(st.sampled_from(SCALARS), values, max_size=4),
    st.dictionaries(st.sampled_from(SCALARS), values, max_size=4),
    st.sampled_from(["shop.order", None]),
)
def test_any_snapshot_can_be_compared_with_any_change(before: Any, after: Any, model: str | None) -> None:
    diffs = compare(before, after, model=model, money={"total": "code"})
    for diff in diffs:
        assert diff.label
        if diff.kind not in ("secret", "more"):
            assert diff.before.text != diff.after.text or diff.parts
    assert compare(after, after, model=model) == ()


def test_relations_to_anything_can_be_compared(order: Any, shop: Any, acme: Any) -> None:
    names = ("customer", "referrer", "labels", "contacts")
    states = st.dictionaries(st.sampled_from(names), values | st.sampled_from([acme.pk, [acme.pk], "acme"]), max_size=4)

    @settings(max_examples=50)
    @given(states, states)
    def check(before: Any, after: Any) -> None:
        for diff in compare(before, after, model=shop.Order):
            assert diff.before.text != diff.after.text
        compare(order, after)

    check()


def test_a_site_without_zones_is_told_its_own_times(order: Any, settings: Any) -> None:
    settings.USE_TZ = False
    order.placed = datetime(2026, 7, 14, 8)
    told = tell_one(order, {"placed": "2026-07-14T09:30"})
    assert told == (
        "July 14, 2026, 8 a.m.",
        "July 14, 2026, 9:30 a.m.",
        "moment",
    )


def test_a_large_change_is_told_in_few_words(order: Any) -> None:
    change = {"note": "x\n" * 400_000, "options": {f"k{n}": [n] * 9 for n in range(20_000)}, "nickname": "y" * 900_000}
    diffs = compare(order, change)
    assert sum(len(diff.before.text) + len(diff.after.text) for diff in diffs) < 30_000


@pytest.mark.django_db
def test_the_story_of_one_change() -> None:
    group = Group.objects.create(name="Finance")
    user = User.objects.create_user("maya", "maya@example.com", "canary")
    change = read_change(user, {"email": "maya@example.org", "groups": [group], "is_staff": True})
    shown = snapshot(user, change=change)
    assert tell(compare(shown, change, model=User)) == [
        ("Email address", "maya@example.com", "maya@example.org", "text"),
        ("Staff status", "No", "Yes", "yes_no"),
        ("Groups", NOTHING, "+ Finance", "relations"),
    ]
    apply_change(user, change)
    assert compare(User.objects.get(), change) == ()
    assert [diff.name for diff in find_drift(shown, User.objects.get())] == ["email", "is_staff", "groups"]
