"""What a workflow sent along, as rows; and which addresses are links."""

from __future__ import annotations

from typing import Any
from zoneinfo import ZoneInfo

import pytest
from django.utils import timezone

from approvals.forms.request_facts import MAX_FACTS, list_facts, read_link


@pytest.fixture(autouse=True)
def berlin(own_language: None) -> None:
    """The viewer is in Berlin, also where the process is not."""
    timezone.activate(ZoneInfo("Europe/Berlin"))


@pytest.mark.parametrize(
    ("given", "told"),
    [
        (None, []),
        ({}, []),
        ("Pay this", [("", "Pay this")]),
        (["a", 2, True], [("", "a, 2, Yes")]),
        ({"net_total": 12.5}, [("Net total", "12.5")]),
        ({"a": None, "b": ""}, [("A", "—"), ("B", "—")]),
        ({"when": "2026-07-14T08:43:00Z"}, [("When", "July 14, 2026, 10:43 a.m.")]),
        ({"when": "2026-07-14"}, [("When", "July 14, 2026")]),
        ({"when": "2026-99-99"}, [("When", "2026-99-99")]),
        ({"price": "9.5", "price_currency": "USD"}, [("Price", "$9.50")]),
        ({"amount": "x", "currency": "EUR"}, [("Amount", "x"), ("Currency", "EUR")]),
        ({"amount": "9", "currency": "euro"}, [("Amount", "9"), ("Currency", "euro")]),
        ({"lines": [{"sku": "X"}, {"sku": "Y"}]}, [("Lines › 1 › Sku", "X"), ("Lines › 2 › Sku", "Y")]),  # noqa: RUF001
        ({"password": "x", "inner": {"apiKey": "y"}}, [("Password", "••••••"), ("Inner › ApiKey", "••••••")]),  # noqa: RUF001
    ],
)
def test_what_was_sent_along_reads_as_rows(given: Any, told: list[tuple[str, str]]) -> None:
    assert [(fact.label, fact.value.text) for fact in list_facts(given)] == told


def test_what_was_sent_along_is_bounded_in_every_direction() -> None:
    assert len(list_facts({str(number): number for number in range(1000)})) == MAX_FACTS + 1
    assert list_facts([[number] for number in range(1000)])[-1].value.text == f"and {1000 - MAX_FACTS} more"
    deep: Any = "bottom"
    for _ in range(50):
        deep = {"a": [deep]}
    assert len(list_facts(deep)) == 1
    assert len(list_facts("x" * 100_000)[0].value.text) <= 4_000


@pytest.mark.parametrize(
    ("url", "is_link"),
    [
        ("https://shop.example/7?a=b#c", True),
        ("http://shop.example", True),
        ("/admin/", True),
        ("//evil.example/", False),
        ("/\\evil.example", False),
        ("javascript:alert(1)", False),
        ("JAVASCRIPT:alert(1)", False),
        ("data:text/html,x", False),
        ("https://", False),
        ("https://[x", False),
        ("https://shop.example/\u202efdp", False),
        (" https://shop.example", False),
        ("mailto:x@example.org", False),
        (7, False),
        (None, False),
    ],
)
def test_only_addresses_of_the_web_and_of_this_site_are_links(url: Any, is_link: bool) -> None:
    assert (read_link(url) is not None) == is_link
