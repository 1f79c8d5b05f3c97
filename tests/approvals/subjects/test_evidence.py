"""Evidence: labelled links, files and facts, kept so that they can be shown as they are."""

from __future__ import annotations

from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import pytest
from django.core.files.base import ContentFile, File
from django.db import models

from approvals import Approval, InvalidApproval
from approvals.subjects.evidence import read_evidence
from tests.support.review_calls import ask

pytestmark = pytest.mark.django_db


class Scan(models.Model):
    """As a project keeps files."""

    file = models.FileField(upload_to="scans")

    class Meta:
        app_label = "holdpoint_tests"
        managed = False

    def __str__(self) -> str:
        return str(self.file)


def test_evidence_is_links_files_and_facts_with_a_label_each() -> None:
    scan = Scan(file="scans/Invoice 7.pdf")
    given = [
        ("Invoice", "https://shop.example/7?a=1#b"),
        ["Here", "/orders/7/"],
        ("Spaced", "https://shop.example/My file.pdf"),
        ("Orders", 12),
        ("Total", Decimal("1240.00")),
        ("Since", datetime(2026, 7, 14, 9, tzinfo=UTC)),
        ("Note", "javascript:alert(1)"),
        ("Open", None),
        ("Lines", [{"sku": 1}]),
        ("Scan", scan.file),
        scan.file,
        "https://shop.example/bare",
        "Paid in cash",
        {"label": " Named ", "url": "http://localhost:8000/x"},
        {"label": "Said", "value": "https://is.a.fact/no-less"},
        {"label": "Filed", "file": scan.file},
    ]
    assert [tuple(one.values()) for one in read_evidence(given)] == [
        ("link", "Invoice", "https://shop.example/7?a=1#b"),
        ("link", "Here", "/orders/7/"),
        ("link", "Spaced", "https://shop.example/My%20file.pdf"),
        ("fact", "Orders", 12),
        ("fact", "Total", "1240.00"),
        ("fact", "Since", "2026-07-14T09:00:00+00:00"),
        ("fact", "Note", "javascript:alert(1)"),
        ("fact", "Open", None),
        ("fact", "Lines", [{"sku": 1}]),
        ("file", "Scan", "/scans/Invoice%207.pdf", "Invoice 7.pdf", "application/pdf"),
        ("file", "Invoice 7.pdf", "/scans/Invoice%207.pdf", "Invoice 7.pdf", "application/pdf"),
        ("link", "https://shop.example/bare", "https://shop.example/bare"),
        ("fact", "Paid in cash", "Paid in cash"),
        ("link", "Named", "http://localhost:8000/x"),
        ("link", "Said", "https://is.a.fact/no-less"),
        ("file", "Filed", "/scans/Invoice%207.pdf", "Invoice 7.pdf", "application/pdf"),
    ]
    assert read_evidence(None) == read_evidence([]) == []
    assert ask(evidence=given).evidence == read_evidence(given)
    assert ask().evidence is None


HOSTILE = [
    "javascript:alert(1)",
    "JaVaScRiPt:alert(1)",
    "java\nscript:alert(1)",
    "\x01javascript:alert(1)",
    " javascript:alert(1)",
    "data:text/html,<script>alert(1)</script>",
    "vbscript:msgbox(1)",
    "file:///etc/passwd",
    "ftp://x.example/",
    "blob:https://x.example/1",
    "//evil.example/",
    "///evil.example/",
    "/\\evil.example/",
    "/\t/evil.example/",
    "\\\\evil.example\\share",
    "https:\\\\evil.example",
    "https:evil.example",
    "https:///evil.example",
    "https://",
    "http:/evil.example",
    "https://paypal.example@evil.example/",
    "https://user:secret@x.example/",
    "https://x.example/\x00",
    "https://x.example/\x07",
    "https://x.example/\r\nSet-Cookie: a=b",
    "https://x.example/\u202egpj.exe",
    "https://x.exam\u200bple/",
    "https://x example/",
    "https://[::1",
    "https://x.example/\ud800",
    "https://x.example/" + "x" * 2_000,
    "invoice.pdf",
    "?next=1",
    "#top",
    "",
    5,
    None,
]


@pytest.mark.parametrize("url", HOSTILE, ids=lambda url: ascii(url)[:40])
def test_an_address_that_is_not_plainly_one_of_the_web_or_of_this_site_is_refused(url: Any) -> None:
    with pytest.raises(InvalidApproval, match='an address begins with "https://", "http://" or "/"'):
        read_evidence([{"label": "Invoice", "url": url}])


@pytest.mark.parametrize(
    "given",
    [
        5,
        "invoice",
        {"label": "x", "url": "/"},
        [5],
        [None],
        [("a",)],
        [("a", "b", "c")],
        [("", "/")],
        [(" ", "/")],
        [(5, "/")],
        [("x" * 201, 1)],
        [{"label": "x"}],
        [{"label": "x", "url": "/", "value": 1}],
        [{"label": "x", "href": "/"}],
        [("x", object())],
        [("x", float("nan"))],
        [("x", "a\0b")],
        [("x\ud800", 1)],
        [("x", 1)] * 101,
        [("x", File(ContentFile(b"x")))],
        [("x", Scan().file)],
    ],
    ids=lambda given: type(given[0] if isinstance(given, list) else given).__name__,
)
def test_evidence_that_cannot_be_kept_is_refused(given: Any) -> None:
    with pytest.raises(InvalidApproval):
        Approval("Pay the invoice", evidence=given)
