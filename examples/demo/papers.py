"""What the processes show as evidence, and how they write amounts.

Invariant owned: every address leads somewhere on this site, so that nobody's first click in the demo ends nowhere.
"""

from __future__ import annotations

from decimal import Decimal
from typing import Any

from django.db import models

from examples.models import Paper

#: The files below static/, and what they are.
PAPERS = {
    "examples/loss-statement.pdf": "Statement of loss",
    "examples/parcel.png": "Photo of the parcel",
    "examples/bank-letter.pdf": "Letter of the supplier",
    "examples/contract-draft.pdf": "Draft",
}
LOSS, PHOTO, LETTER, DRAFT = PAPERS


def show_amount(amount: Decimal) -> str:
    """As titles and facts write it.

    >>> show_amount(Decimal("1240"))
    '€1,240.00'
    """
    return f"€{amount:,.2f}"


def link_row(label: str, row: models.Model) -> tuple[str, str]:
    """The page of a row, as evidence."""
    return label, f"/demo/{row._meta.model_name}/{row.pk}/"


def list_papers(*files: str) -> list[tuple[str, Any]]:
    """Files as evidence; those that nobody has filed are left out."""
    return [(paper.label, paper.file) for paper in Paper.objects.filter(file__in=files).order_by("label")]


def list_warnings(given: dict[str, Any]) -> list[tuple[str, str]]:
    """What whoever asks thinks that people should not overlook."""
    return [("Warning", text) for text in given.get("warnings", ())]
