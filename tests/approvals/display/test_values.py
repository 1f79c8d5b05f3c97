"""Values as a reviewer reads them: nothing hides, nothing is endless, and each in the reader's language."""

from __future__ import annotations

import unicodedata
from datetime import UTC, date, datetime, time, timedelta, timezone
from decimal import Decimal
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from django.utils import timezone as zones
from django.utils import translation
from django.utils.safestring import SafeString, mark_safe
from django.utils.translation import gettext_lazy
from hypothesis import example, given
from hypothesis import strategies as st

from approvals.display.money import _SYMBOLS, show_money
from approvals.display.values import (
    CONTEXT,
    MAX_SHOWN,
    count_shared,
    name_kind,
    show_duration,
    show_file,
    show_moment,
    show_number,
    show_text,
    show_texts,
    show_yes_no,
)

LANGUAGES = ["en", "es", "fr", "de", "ja", "zh-hans", "ko"]

# --- texts ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("invoice\u202egpj.exe", "invoice⟨U+202E⟩gpj.exe"),
        ("zero\u200bwidth\u200c\ufeff", "zero⟨U+200B⟩width⟨U+200C⟩⟨U+FEFF⟩"),
        ("a\0b\x1b[2Jc\x7f\x85", "a⟨U+0000⟩b⟨U+001B⟩[2Jc⟨U+007F⟩⟨U+0085⟩"),
        ("one\ntwo\tthree\r", "one⟨U+000A⟩two⟨U+0009⟩three⟨U+000D⟩"),
        ("lone \ud800", "lone ⟨U+D800⟩"),
        ("filler\u3164\u2800\u115f", "filler⟨U+3164⟩⟨U+2800⟩⟨U+115F⟩"),
        ("tag\U000e0041", "tag⟨U+E0041⟩"),
        ("private\ue000", "private⟨U+E000⟩"),
        ("a\u200db\ufe0f", "a⟨U+200D⟩b⟨U+FE0F⟩"),
        ("<b>&amp;</b>", "<b>&amp;</b>"),
    ],
)
def test_what_has_no_shape_gets_one(text: str, shown: str) -> None:
    assert show_text(text) == shown


@pytest.mark.parametrize(
    "text",
    [
        "👩\u200d🚀",
        "❤\ufe0f",
        "1\ufe0f\u20e3",
        "葛\U000e0100城市",
        "naïve e\u0301",
        "日本語 한국어",
        "שלום",
        "10\xa0€",
        "👍🏽",
        "",
    ],
)
def test_what_people_write_stays_as_it_is(text: str) -> None:
    assert show_text(text) == text


def test_every_character_without_a_shape_is_known() -> None:
    seen = "".join(
        map(chr, (0x600, 0x601, 0x602, 0x603, 0x604, 0x605, 0x6DD, 0x70F, 0x890, 0x891, 0x8E2, 0x110BD, 0x110CD))
    )
    for code in range(0x110000):
        char = chr(code)
        if unicodedata.category(char) in ("Cc", "Cf", "Cs", "Co", "Zl", "Zp") and char not in seen:
            assert show_text(char) == f"⟨U+{code:04X}⟩"


@given(st.text(st.characters()) | st.text("\u202e\u200dab⟨⟩\ud800", max_size=400), st.integers(10, 60))
def test_a_text_is_bounded_plain_and_visible(text: str, limit: int) -> None:
    shown = show_text(mark_safe(text), limit)
    assert type(shown) is str
    assert len(shown) <= limit
    assert not {unicodedata.category(char) for char in shown} & {"Cc", "Cs", "Co", "Zl", "Zp"}
    shown.encode()
    assert shown.endswith("…") or len(text) <= limit


def test_lines_stay_lines_where_they_may() -> None:
    assert show_text("a\n\tb\r\u202e", lines=True) == "a\n\tb⟨U+000D⟩⟨U+202E⟩"


def test_what_is_cut_off_leaves_a_mark_and_no_half_a_name() -> None:
    assert show_text("x" * 400) == "x" * 299 + "…"
    assert show_text("x" * 300) == "x" * 300
    assert show_text("x" * 295 + "\u202e" * 3) == "x" * 295 + "…"


def test_only_the_beginning_of_a_long_text_is_looked_at() -> None:
    assert show_text("\u202e" * 50_000_000, 20) == "⟨U+202E⟩⟨U+202E⟩…"


# --- two texts --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("before", "after", "shown"),
    [
        ("Acme", "Acme GmbH", ("Acme", "Acme GmbH")),
        ("Acme", "Acme ", ("Acme", "Acme␣")),
        ("a b", "a  b", ("a␣b", "a␣␣b")),
        ("a b", "a\xa0b", ("a␣b", "a⟨U+00A0⟩b")),
        ("é", "e\u0301", ("⟨U+00E9⟩", "e⟨U+0301⟩")),
        ("葛", "葛\U000e0100", ("⟨U+845B⟩", "⟨U+845B⟩⟨U+E0100⟩")),
        ("paypal", "p\u0430ypal", ("paypal", "p⟨U+0430⟩ypal")),
        ("⟨U+202E⟩", "\u202e", ("⟨U+27E8⟩U+202E⟨U+27E9⟩", "⟨U+202E⟩")),
        ("x" * 5000 + "1", "x" * 5000 + "2", ("…" + "x" * 24 + "1", "…" + "x" * 24 + "2")),
        ("same", "same", ("same", "same")),
    ],
)
def test_two_different_texts_look_different(before: str, after: str, shown: tuple[str, str]) -> None:
    assert show_texts(before, after) == shown


@given(st.text(), st.text(max_size=30), st.text(max_size=30), st.text())
@example("x" * 290, "", " ", "y" * 500)
@example("\u202e" * 299, "a", "b", "")
@example("x" * 999, "⟨", "\u202e", "\u200b" * 400)
def test_the_first_difference_is_always_on_the_page(head: str, old: str, new: str, tail: str) -> None:
    before, after = show_texts(head + old + tail, head + new + tail)
    assert max(len(before), len(after)) <= MAX_SHOWN
    assert type(before) is type(after) is str
    same = head + old + tail == head + new + tail
    assert (before == after) is same
    assert (" ".join(before.split()) == " ".join(after.split())) is same


@given(st.text("ab"), st.text("ab"))
def test_shared_beginnings_are_counted(before: str, after: str) -> None:
    count = count_shared(before, after)
    assert before[:count] == after[:count]
    assert before[count : count + 1] != after[count : count + 1] or count == min(len(before), len(after))


def test_the_difference_fits_beside_its_context() -> None:
    assert CONTEXT * len("⟨U+10FFFF⟩") + len("…⟨U+10FFFF⟩…") < MAX_SHOWN


# --- numbers and money ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (2026, "2026"),
        (10_000, "10,000"),
        (-1234567, "-1,234,567"),
        (Decimal("1240.00"), "1,240.00"),
        (Decimal("0.1234"), "0.1234"),
        (1234.5, "1,234.5"),
        (1e-7, "0.0000001"),
        (0, "0"),
        (Decimal("NaN"), "NaN"),
        (Decimal("sNaN"), "sNaN"),
        (float("inf"), "inf"),
    ],
)
def test_numbers_have_the_separators_of_the_language(value: Any, shown: str) -> None:
    assert show_number(value) == shown
    assert type(show_number(value)) is str


def test_huge_numbers_are_bounded() -> None:
    for value in (
        10**4000,
        Decimal(10) ** 5000,
        Decimal("1e999999"),
        Decimal("1e-999999"),
        1e308,
        Decimal("0." + "1" * 2000),
    ):
        assert len(show_number(value)) <= MAX_SHOWN
        assert len(show_money(value, "EUR")) <= MAX_SHOWN + 10


@pytest.mark.parametrize(
    ("language", "euros", "yen", "other"),
    [
        ("en", "€1,240.00", "¥1,240", "SEK\xa01,240.50"),
        ("es", "1\xa0240,00\xa0€", "1\xa0240\xa0¥", "1\xa0240,50\xa0SEK"),
        ("fr", "1\xa0240,00\xa0€", "1\xa0240\xa0¥", "1\xa0240,50\xa0SEK"),
        ("de", "1.240,00\xa0€", "1.240\xa0¥", "1.240,50\xa0SEK"),
        ("ja", "€1,240.00", "¥1,240", "SEK\xa01,240.50"),
        ("ko", "€1,240.00", "¥1,240", "SEK\xa01,240.50"),
    ],
)
def test_money_is_written_as_the_language_does(language: str, euros: str, yen: str, other: str) -> None:
    with translation.override(language):
        assert show_money(Decimal(1240), "EUR") == euros
        assert show_money(Decimal("1240.00"), "jpy") == yen
        assert show_money(Decimal("1240.5"), "SEK") == other


def test_no_two_currencies_look_the_same() -> None:
    known = [*_SYMBOLS, "SEK", "XYZ"]
    for language in LANGUAGES:
        with translation.override(language):
            assert len({show_money(Decimal("1.25"), code) for code in known}) == len(known)
    with translation.override("zh-hans"):
        assert show_money(5, "CNY") == "¥5.00"


@pytest.mark.parametrize(
    ("amount", "currency", "shown"),
    [
        (Decimal("-9.5"), "USD", "-$9.50"),
        (Decimal(0), "EUR", "€0.00"),
        (Decimal("1.2345"), "EUR", "€1.2345"),
        (Decimal("1240.50"), "JPY", "¥1,240.5"),
        (Decimal("1.5"), "KWD", "KWD\xa01.500"),
        (1240, "EUR", "€1,240.00"),
        (0.1, "EUR", "€0.10"),
        (Decimal("NaN"), "EUR", "NaN EUR"),
        (Decimal(5), "", "5"),
        (Decimal(5), "points", "5 points"),
        (Decimal(5), "\u202e$", "5 ⟨U+202E⟩$"),
        (Decimal(5), "ЕUR", "5 ЕUR"),  # noqa: RUF001 - a Cyrillic letter is no euro
    ],
)
def test_money_is_never_made_to_look_like_another_amount(amount: Any, currency: str, shown: str) -> None:
    assert show_money(amount, currency) == shown


@given(st.decimals(allow_nan=False, allow_infinity=False, min_value=-(10**12), max_value=10**12, places=4))
def test_no_place_of_an_amount_is_lost(amount: Decimal) -> None:
    shown = show_money(amount, "EUR")
    assert Decimal(shown.replace("€", "").replace(",", "")) == amount


# --- times and the rest -----------------------------------------------------------------------------


def test_moments_are_told_in_the_zone_and_language_of_the_reader() -> None:
    at = datetime(2026, 7, 14, 22, 30, tzinfo=UTC)
    with zones.override(ZoneInfo("Europe/Berlin")):
        assert show_moment(at) == "July 15, 2026, 12:30 a.m."
        with translation.override("de"):
            assert show_moment(at) == "15. Juli 2026 00:30"
    assert show_moment(date(2026, 7, 14)) == "July 14, 2026"
    assert show_moment(time(8, 5)) == "8:05 a.m."
    assert show_moment(datetime(2026, 7, 14, 8)) == "July 14, 2026, 8 a.m."


def test_moments_at_the_ends_of_time_can_be_shown() -> None:
    with zones.override(ZoneInfo("Asia/Tokyo")):
        assert show_moment(datetime.max.replace(tzinfo=UTC)).startswith("9999-12-31")
    assert show_moment(datetime.min.replace(tzinfo=timezone(timedelta(hours=5)))).startswith("0001-01-01")


@pytest.mark.parametrize(
    ("length", "shown"),
    [
        (timedelta(hours=50, seconds=1.5), "2 d 2 h 1.5 s"),
        (timedelta(minutes=-90), "-1 h 30 min"),
        (timedelta(), "0 s"),
        (timedelta(microseconds=1), "0.000001 s"),
        (timedelta.max, "999,999,999 d 23 h 59 min 59.999999 s"),
    ],
)
def test_lengths_of_time_are_told_in_full(length: timedelta, shown: str) -> None:
    assert show_duration(length) == shown


def test_yes_and_no_are_in_the_language_of_the_reader() -> None:
    assert [show_yes_no(value) for value in (True, False, None)] == ["Yes", "No", "Unknown"]
    with translation.override("fr"):
        assert [show_yes_no(value) for value in (True, False, None)] == ["Oui", "Non", "Inconnu"]


def test_a_file_is_told_by_the_end_of_its_name() -> None:
    assert show_file("contracts/2026/letter.pdf", 94208) == "letter.pdf (92.0\xa0KB)"
    assert show_file("a/\u202egpj.exe", None) == "⟨U+202E⟩gpj.exe"
    assert show_file("a/", None) == "a/"


def test_lazy_texts_are_read_when_they_are_shown() -> None:
    with translation.override("de"):
        assert show_text(gettext_lazy("Yes")) == "Ja"


def test_a_text_cannot_keep_claims_of_its_own() -> None:
    class Sly(SafeString):
        def __getitem__(self, index: Any) -> Any:
            return self

    assert type(show_text(Sly("<b>"))) is str


@pytest.mark.parametrize(
    ("name", "told"),
    [
        ("shop.late_refund", "Late refund"),
        ("RefundInvoice", "Refund invoice"),
        ("CIBuild", "CI build"),
        ("refund_in_EUR", "Refund in EUR"),
        ("Office Berlin", "Office Berlin"),
    ],
)
def test_a_workflow_is_called_by_its_name_in_words(name: str, told: str) -> None:
    assert name_kind(name) == told
