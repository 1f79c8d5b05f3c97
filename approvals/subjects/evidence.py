"""Evidence: labelled links, files and facts that a decider should see.

Invariant owned: what is kept is JSON that can be shown as it is: an address in it is one of the web or of this site,
never a script.
"""

from __future__ import annotations

import mimetypes
from collections.abc import Iterable, Mapping
from datetime import date, datetime
from decimal import Decimal
from typing import Any
from urllib.parse import urlsplit

from django.core.files import File
from django.db.models.fields.files import FieldFile

from approvals.exceptions import InvalidApproval
from workflows.exceptions import InvalidCall
from workflows.values.json_text import dump_value

MAX_ITEMS = 100
MAX_LABEL = 200
MAX_URL = 2_000

_HOW = (
    'evidence is a list of links ("Invoice", "https://…"), files ("Scan", invoice.scan) and facts ("Orders", 12); '
    'or dicts {"label": …, "url": …} and {"label": …, "value": …}'
)


def read_evidence(given: Iterable[Any] | None) -> list[dict[str, Any]]:
    """What an author wrote, as it is kept.

    >>> read_evidence([("Invoice", "https://shop.example/7"), ("Orders", 12)])
    [{'kind': 'link', 'label': 'Invoice', 'url': 'https://shop.example/7'}, {'kind': 'fact', 'label': 'Orders', 'value': 12}]
    """  # noqa: E501 - a doctest shows the value as it is
    if given is None:
        return []
    if isinstance(given, str | Mapping) or not isinstance(given, Iterable):
        raise InvalidApproval("evidence", given, _HOW)
    items = [_read_item(one) for one in given]
    if len(items) > MAX_ITEMS:
        raise InvalidApproval("evidence", len(items), f"it has {len(items)} items, the limit is {MAX_ITEMS}")
    try:
        dump_value(items, "the evidence")
    except InvalidCall as error:
        raise InvalidApproval("evidence", given, str(error)) from error
    return items


def _read_item(given: Any) -> dict[str, Any]:
    if isinstance(given, Mapping):
        if not {"label"} < set(given) <= {"label", "url", "file", "value"} or len(given) != 2:
            raise InvalidApproval("evidence", given, _HOW)
        label, value = given["label"], next(given[name] for name in given if name != "label")
        return _read_link(label, value) if "url" in given else _read_value(label, value)
    if isinstance(given, str | FieldFile):
        return _read_value(_name_file(given) if isinstance(given, FieldFile) else given[:MAX_LABEL], given)
    if not isinstance(given, tuple | list) or len(given) != 2:
        raise InvalidApproval("evidence", given, _HOW)
    return _read_value(*given)


def _read_value(label: Any, value: Any) -> dict[str, Any]:
    if isinstance(value, FieldFile):
        return _read_file(label, value)
    if isinstance(value, File):
        raise InvalidApproval("evidence", label, "store the file first, in a FileField, and give that")
    if isinstance(value, str) and value.startswith(("https://", "http://", "/")):
        return _read_link(label, value)
    if isinstance(value, Decimal):
        value = str(value)
    if isinstance(value, datetime | date):
        value = value.isoformat()
    return {"kind": "fact", "label": _read_label(label), "value": value}


def _read_link(label: Any, url: Any) -> dict[str, Any]:
    return {"kind": "link", "label": _read_label(label), "url": _read_url(url)}


def _read_file(label: Any, file: FieldFile) -> dict[str, Any]:
    if not file:
        raise InvalidApproval("evidence", label, "the field holds no file")
    name = _name_file(file)
    kind = mimetypes.guess_type(name)[0] or "application/octet-stream"
    return {"kind": "file", "label": _read_label(label), "url": _read_url(file.url), "name": name, "type": kind}


def _name_file(file: FieldFile) -> str:
    return str(file.name).rsplit("/", 1)[-1]


def _read_label(given: Any) -> str:
    if not isinstance(given, str) or not given.strip() or len(given) > MAX_LABEL:
        raise InvalidApproval("evidence", given, f"a label is a text of 1 to {MAX_LABEL} characters")
    return given.strip()


def _read_url(given: Any) -> str:
    """An address of the web, or of this site from its root."""
    try:
        parts = urlsplit(given) if isinstance(given, str) and len(given) <= MAX_URL else None
    except ValueError:
        parts = None
    # What a browser drops or reads as something else, what nobody can see, and names that pose as another's host.
    if parts is None or not given.isprintable() or "\\" in given or "@" in parts.netloc or " " in parts.netloc:
        parts = None
    local = parts is not None and not parts.scheme and given.startswith("/") and not given.startswith("//")
    if parts is None or not (local or (parts.scheme in ("http", "https") and parts.netloc)):
        told = (
            'an address begins with "https://", "http://" or "/", names no user, and has no backslash, no characters '
            f"that cannot be seen, and at most {MAX_URL} characters"
        )
        raise InvalidApproval("evidence", given, told)
    return str(given).replace(" ", "%20")
