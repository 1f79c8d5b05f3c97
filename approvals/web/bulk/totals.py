"""What requests that are alike come to altogether.

Pure. Invariant owned: nothing is added up that is not there in all of them, in one currency.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from decimal import Decimal
from typing import Any

from approvals.display.money import show_money
from approvals.forms.request_facts import find_units
from approvals.subjects.field_display import label_field

Amounts = Mapping[str, tuple[Decimal, str]]


def list_amounts(request: Any) -> Amounts:
    """The amounts that a workflow sent along, by their label.

    >>> list_amounts({"amount": "40.00", "currency": "EUR"})
    {'Amount': (Decimal('40.00'), 'EUR')}
    """
    if not isinstance(request, dict):
        return {}
    units = find_units(request)
    return {label_field(key, None): (Decimal(str(request[key])), request[unit]) for key, unit in units.items()}


def sum_up(given: Sequence[Amounts]) -> tuple[tuple[str, str], ...]:
    """The sums, as (label, amount).

    >>> sum_up([{"Amount": (Decimal("40.00"), "EUR")}, {"Amount": (Decimal("9.50"), "EUR")}])
    (('Amount', '€49.50'),)
    """
    if len(given) < 2:
        return ()
    found = []
    for label in given[0]:
        same = [amounts[label] for amounts in given if label in amounts]
        currencies = {currency for _, currency in same}
        if len(same) == len(given) and len(currencies) == 1:
            total = sum((amount for amount, _ in same), Decimal(0))
            found.append((label, show_money(total, currencies.pop())))
    return tuple(found)
