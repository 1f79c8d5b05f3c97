"""What a workflow sent along, as rows of a label and a value: for a page, a mail or a message.

Pure. Invariants owned: whatever was sent, what is shown of it is bounded, plain text, and without secrets; an address
in it is a link only where it leads to the web or stays on this site.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import date, datetime
from decimal import Decimal, InvalidOperation
from typing import Any
from urllib.parse import urlsplit

from django.utils import timezone
from django.utils.dateparse import parse_date, parse_datetime

from approvals.display.money import show_money
from approvals.display.values import EMPTY, HIDDEN, MAX_BLOCK, MAX_NAME, ShownValue, show_moment, show_text
from approvals.subjects.field_display import count_more, label_field, show_loose
from approvals.subjects.field_values import is_secret_name
from workflows.wording.punctuation import join_clauses, join_label, join_list

#: Rows that are shown, items of a list in one row, and how deep one looks.
MAX_FACTS = 60
MAX_ITEMS = 20
MAX_DEPTH = 6

_CURRENCY = re.compile(r"[A-Z]{3}")
_MOMENT = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d(:\d\d(\.\d+)?)?(Z|[+-]\d\d:?\d\d)")
_DAY = re.compile(r"\d{4}-\d\d-\d\d")
_AMOUNT = re.compile(r"-?\d{1,15}(\.\d{1,6})?")


@dataclass(frozen=True, slots=True)
class Fact:
    """One row: what it is called, and what it is."""

    label: str
    value: ShownValue


def list_facts(given: Any) -> tuple[Fact, ...]:
    """The rows of any JSON.

    >>> [(fact.label, fact.value.text) for fact in list_facts({"net_total": "12.50", "paid": True})]
    [('Net total', '12.50'), ('Paid', 'Yes')]
    """
    if given is None or given in ({}, [], ""):
        return ()
    rows = list(_walk(given, ()))
    if len(rows) > MAX_FACTS:
        return (*rows[:MAX_FACTS], Fact("", ShownValue(count_more(len(rows) - MAX_FACTS))))
    return tuple(rows)


def read_link(url: Any) -> str | None:
    """The address, where a link may lead there: to the web, or to a place of this site.

    >>> read_link("https://shop.example/7"), read_link("javascript:alert(1)")
    ('https://shop.example/7', None)
    """
    if not isinstance(url, str) or "\\" in url or url != url.strip() or url != show_text(url, len(url) + 1):
        return None
    try:
        parts = urlsplit(url)
    except ValueError:
        return None
    is_local = not parts.scheme and not parts.netloc and url.startswith("/") and not url.startswith("//")
    return url if is_local or (parts.scheme in ("http", "https") and parts.netloc) else None


def list_evidence(given: Iterable[Mapping[str, Any]] | None) -> tuple[dict[str, Any], ...]:
    """The evidence of a review, ready to be shown: `kind`, `label`, `url` (None: no link), `text`.

    >>> list_evidence([{"kind": "link", "label": "Invoice", "url": "https://shop.example/7"}])[0]["text"]
    'shop.example'
    """
    return tuple(map(_show_evidence, given or ()))


def _show_evidence(one: Mapping[str, Any]) -> dict[str, Any]:
    kind, url, value = str(one.get("kind", "fact")), read_link(one.get("url")), one.get("value")
    shown: dict[str, Any] = {"kind": kind, "label": show_text(one.get("label", ""), MAX_NAME), "url": url}
    if kind == "file":
        return {**shown, "text": show_text(one.get("name", ""), MAX_NAME)}
    if kind == "link":
        return {**shown, "text": show_text(urlsplit(url).netloc if url else one.get("url", ""), MAX_NAME)}
    if isinstance(value, dict | list) and value:
        facts = list_facts(value)
        told = join_clauses(
            join_label(fact.label, fact.value.text) if fact.label else fact.value.text for fact in facts
        )
        return {**shown, "text": show_text(told, MAX_BLOCK)}
    return {**shown, "text": _show_scalar(value).text}


def _walk(value: Any, path: tuple[str, ...]) -> Iterator[Fact]:
    if isinstance(value, dict) and value and len(path) < MAX_DEPTH:
        units = find_units(value)
        for key, inner in value.items():
            if key in units.values():
                continue
            label = label_field(key, None)
            if is_secret_name(key):
                yield Fact(_join((*path, label)), ShownValue(HIDDEN))
            elif key in units:
                yield Fact(_join((*path, label)), ShownValue(show_money(Decimal(str(inner)), value[units[key]])))
            else:
                yield from _walk(inner, (*path, label))
    elif isinstance(value, list) and len(path) < MAX_DEPTH and any(isinstance(item, dict | list) for item in value):
        for number, item in enumerate(value, 1):
            yield from _walk(item, (*path, str(number)))
    else:
        yield Fact(_join(path), _show_scalar(value))


def _join(path: tuple[str, ...]) -> str:
    return show_text(" \u203a ".join(path), MAX_BLOCK)


def _show_scalar(value: Any) -> ShownValue:
    if isinstance(value, list):
        if not value:
            return EMPTY
        told = [_show_scalar(item).text for item in value[:MAX_ITEMS]]
        more = [count_more(len(value) - MAX_ITEMS)] if len(value) > MAX_ITEMS else []
        return ShownValue(show_text(join_list([*told, *more]), MAX_BLOCK))
    if isinstance(value, str) and value:
        return _show_string(value)
    return EMPTY if value in ({}, "", None) else show_loose(value)


def _show_string(value: str) -> ShownValue:
    when: datetime | date | None = None
    try:
        if _MOMENT.fullmatch(value):
            when = parse_datetime(value)
        elif _DAY.fullmatch(value):
            when = parse_date(value)
    except ValueError:
        pass
    if when is not None:
        return ShownValue(show_moment(timezone.localtime(when) if isinstance(when, datetime) else when))
    link = read_link(value) if value.startswith(("https://", "http://")) else None
    return ShownValue(show_text(value, MAX_BLOCK, lines=True), url=link)


def find_units(value: Mapping[str, Any]) -> dict[str, str]:
    """Which key is the currency of which amount: `price` and `price_currency`, or `amount` and `currency`.

    >>> find_units({"amount": "40.00", "currency": "EUR", "n": 2})
    {'amount': 'currency'}
    """
    found = {}
    for key, inner in value.items():
        unit = f"{key}_currency" if f"{key}_currency" in value else "currency" if key == "amount" else ""
        if unit and _is_amount(inner) and isinstance(value.get(unit), str) and _CURRENCY.fullmatch(value[unit]):
            found[key] = unit
    return found


def _is_amount(value: Any) -> bool:
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        return False
    if isinstance(value, str) and not _AMOUNT.fullmatch(value):
        return False
    try:
        return Decimal(str(value)).is_finite()
    except InvalidOperation:
        return False
