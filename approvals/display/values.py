"""Values as a reviewer reads them: plain text in the reader's language and time zone.

Nothing here queries, and nothing here is markup: templates escape. Invariants owned: what leaves is exactly `str`
(never marked as safe), not longer than its limit, and without a character that hides, reorders or fakes what stands
beside it; two different texts that are shown together never look the same.
"""

from __future__ import annotations

import re
import unicodedata
from dataclasses import dataclass
from datetime import date, datetime, time, timedelta
from decimal import Decimal

from django.template.defaultfilters import filesizeformat
from django.utils import timezone
from django.utils.formats import date_format, number_format, time_format
from django.utils.text import capfirst
from django.utils.translation import gettext as _
from django.utils.translation import pgettext

from workflows.wording.hidden_characters import UNSEEN, name_character, reveal

#: Characters of a value in one line, of a name, and of a text with lines.
MAX_SHOWN = 300
MAX_NAME = 120
#: Between the words of a class's name: "RefundInvoice", "CIBuild".
_HUMPS = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")
MAX_BLOCK = 4_000
#: Characters that stand before the first difference of two long texts.
CONTEXT = 24
#: Integers from here on have their thousands apart; a year and a house number have not.
GROUPED_FROM = 10_000

#: In the place of nothing, and of what may not be read.
NOTHING = "—"
HIDDEN = "••••••"

#: Cyrillic and Greek letters that are drawn like Latin ones.
_LOOKALIKES = str.maketrans(
    (
        "\u0410\u0412\u0415\u0405\u0406\u0408\u041a\u041c\u041d\u041e\u0420\u0421\u0422\u0423\u0425"
        "\u0430\u0435\u0456\u0458\u043e\u0440\u0441\u0443\u0445\u0455\u04bb\u0501\u051b\u051d\u0475"
        "\u0391\u0392\u0395\u0396\u0397\u0399\u039a\u039c\u039d\u039f\u03a1\u03a4\u03a5\u03a7\u03bf\u03bd"
    ),
    "ABESIJKMHOPCTYXaeijopcyxshdqwvABEZHIKMNOPTYXov",
)
_SPACES = re.compile(r"\s+")
_CUT_SIGN = re.compile("⟨[^⟩]{0,8}$")


@dataclass(frozen=True, slots=True)
class ShownValue:
    """One value on a page or in a mail: text, not markup."""

    text: str
    #: Where the viewer can look at it.
    url: str | None = None
    #: What the value points to is not there any more.
    missing: bool = False
    #: There is no value; the text is only a dash.
    empty: bool = False


EMPTY = ShownValue(NOTHING, empty=True)


def show_text(value: object, limit: int = MAX_SHOWN, *, lines: bool = False) -> str:
    """A text in one line, or with its `lines`; what has no shape gets one, and what is cut off leaves a mark.

    >>> show_text("invoice\\u202egpj.exe")
    'invoice⟨U+202E⟩gpj.exe'
    """
    text = "".join((str(value),))  # `str` itself: a subclass may claim to be safe for a page
    if len(text) <= limit and text.isascii() and text.isprintable():
        return text
    shown = reveal(text[: limit + 1], lines=lines)
    if len(text) <= limit and len(shown) <= limit:
        return shown
    return _CUT_SIGN.sub("", shown[: limit - 1]) + "…"


def show_texts(before: str, after: str, limit: int = MAX_SHOWN) -> tuple[str, str]:
    """Two different texts, each in one line: the first difference is on the page, and can be seen.

    >>> show_texts("Acme", "Acme ")
    ('Acme', 'Acme␣')
    """
    start = 0
    if max(len(before), len(after)) > limit:
        start = max(0, count_shared(before, after) - CONTEXT)
    shown = [_show_from(text, start, limit, spell=False) for text in (before, after)]
    if before != after and _blur(shown[0]) == _blur(shown[1]):
        start = max(0, count_shared(before, after) - CONTEXT)
        shown = [_show_from(text, start, limit, spell=True) for text in (before, after)]
    return shown[0], shown[1]


def show_yes_no(value: bool | None) -> str:
    """A truth value; not knowing is one of three."""
    return pgettext("neither yes nor no", "Unknown") if value is None else _("Yes") if value else _("No")


def show_number(value: int | float | Decimal) -> str:
    """A number with the separators of the language.

    >>> show_number(Decimal("1240.00"))
    '1,240.00'
    """
    if isinstance(value, Decimal | float) and not Decimal(value).is_finite():
        return str(value)
    grouped = not isinstance(value, int) or abs(value) >= GROUPED_FROM
    return show_text(number_format(value, force_grouping=grouped))


def show_moment(value: datetime | date | time) -> str:
    """A date, a time of day, or a moment in the time zone that is active."""
    try:
        if isinstance(value, datetime):
            local = timezone.localtime(value) if timezone.is_aware(value) else value
            return show_text(date_format(local, "DATETIME_FORMAT"))
        return show_text(time_format(value) if isinstance(value, time) else date_format(value))
    except (OverflowError, ValueError):
        return value.isoformat()


def show_duration(value: timedelta) -> str:
    """A length of time.

    >>> show_duration(timedelta(hours=50, seconds=1.5))
    '2 d 2 h 1.5 s'
    """
    total = abs(value)
    minutes, seconds = divmod(total.seconds, 60)
    hours, minutes = divmod(minutes, 60)
    parts = [(total.days, "d"), (hours, "h"), (minutes, "min")]
    told = [f"{show_number(count)} {unit}" for count, unit in parts if count]
    exactly = Decimal(seconds * 1_000_000 + total.microseconds) / 1_000_000
    if exactly or not told:
        told.append(f"{show_number(exactly)} s")
    return ("-" if value < timedelta() else "") + " ".join(told)


def show_file(name: str, size: int | None) -> str:
    """A file by the end of its name, which tells most, and its size."""
    told = show_text(name.rpartition("/")[2] or name, MAX_NAME)
    return told if size is None else f"{told} ({show_text(filesizeformat(size))})"


def count_shared(before: str, after: str) -> int:
    """How many characters two texts share from their beginning."""
    shortest = min(len(before), len(after))
    low, high = 0, shortest
    while low < high:  # halving compares whole slices, which is quick also for megabytes
        middle = (low + high + 1) // 2
        low, high = (middle, high) if before[low:middle] == after[low:middle] else (low, middle - 1)
    return low


def _show_from(text: str, start: int, limit: int, *, spell: bool) -> str:
    window = text[start : start + limit + 1]
    shown = "".join(map(_spell, window)) if spell else reveal(window)
    ahead = "…" if start else ""
    rest = len(text) - start - len(window)
    room = limit - len(ahead)
    if rest <= 0 and len(shown) <= room:
        return ahead + shown
    return ahead + _CUT_SIGN.sub("", shown[: room - 1]) + "…"


def _spell(char: str) -> str:
    """A character so that no other looks like it."""
    return "␣" if char == " " else char if "!" <= char <= "~" else name_character(char)


def _blur(text: str) -> str:
    """What is left of a text for an eye: not how spaces, accents, variants and borrowed letters are made."""
    plain = UNSEEN.sub("", unicodedata.normalize("NFC", text)).translate(_LOOKALIKES)
    return _SPACES.sub(" ", plain).strip()


def name_kind(workflow: str) -> str:
    """A workflow's name as words, without the app that it is of.

    >>> name_kind("shop.late_refund"), name_kind("RefundInvoice")
    ('Late refund', 'Refund invoice')
    """
    name = show_text(workflow.rpartition(".")[2], MAX_NAME).replace("_", " ").replace("-", " ").strip()
    first, *others = _HUMPS.split(name)
    return capfirst(" ".join([first, *(part if part.isupper() else part[:1].lower() + part[1:] for part in others)]))
