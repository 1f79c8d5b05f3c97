"""Amounts of money as people write them.

Lives here: the few symbols that everybody knows, and where a language puts them. Invariants owned: no two currencies
look the same in one language; no place that an amount has is left out.
"""

from __future__ import annotations

import re
from decimal import Decimal

from django.utils.formats import number_format
from django.utils.translation import get_language

from approvals.display.values import show_number, show_text

_LANGUAGES_WITH_SYMBOL_FIRST = {"en", "ja", "ko", "zh"}
#: No two currencies share a symbol; whatever is missing is told by its code.
_SYMBOLS = {
    "EUR": "€",
    "USD": "$",
    "GBP": "£",
    "JPY": "¥",
    "CNY": "CN¥",
    "KRW": "₩",
    "INR": "₹",
    "ILS": "₪",
    "VND": "₫",
    "AUD": "A$",
    "BRL": "R$",
    "CAD": "CA$",
    "HKD": "HK$",
    "MXN": "MX$",
    "NZD": "NZ$",
    "TWD": "NT$",
    "NGN": "₦",
    "PHP": "₱",
    "TRY": "₺",
    "UAH": "₴",
}
_SYMBOLS_IN_CHINESE = {"CNY": "¥", "JPY": "JP¥"}
_WITHOUT_CENTS = re.compile("BIF|CLP|DJF|GNF|ISK|JPY|KMF|KRW|PYG|RWF|UGX|VND|VUV|XAF|XOF|XPF")
_WITH_MILLS = re.compile("BHD|IQD|JOD|KWD|LYD|OMR|TND")
_CODE = re.compile(r"[A-Za-z]{3}")


def show_money(amount: Decimal | int | float, currency: str) -> str:
    """An amount with its currency, as the language writes it; never with fewer places than it has.

    >>> show_money(Decimal("1240"), "EUR"), show_money(Decimal("-9.5"), "SEK")
    ('€1,240.00', '-SEK\\xa09.50')
    """
    number = Decimal(str(amount))
    if not number.is_finite() or not _CODE.fullmatch(currency):
        return f"{show_number(number)} {show_text(currency, 20)}".strip()
    code = currency.upper()
    digits = show_text(number_format(_set_places(abs(number), code), force_grouping=True))
    sign = "-" if number < 0 else ""
    language = (get_language() or "en").partition("-")[0]
    symbol = (_SYMBOLS_IN_CHINESE.get(code) if language == "zh" else None) or _SYMBOLS.get(code, code)
    if language not in _LANGUAGES_WITH_SYMBOL_FIRST:
        return f"{sign}{digits}\xa0{symbol}"
    return f"{sign}{symbol}\xa0{digits}" if symbol == code else f"{sign}{symbol}{digits}"


def _set_places(number: Decimal, code: str) -> Decimal:
    """As many decimal places as the currency has, or more where the amount has more."""
    least = 0 if _WITHOUT_CENTS.fullmatch(code) else 3 if _WITH_MILLS.fullmatch(code) else 2
    if abs(number.adjusted()) > 100:
        return number
    fraction = f"{number:f}".partition(".")[2].rstrip("0")
    return Decimal(f"{number:.{max(least, len(fraction))}f}")
