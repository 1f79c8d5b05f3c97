"""The rows that the shop's requests are about. Each call makes one, and returns what its process is started with."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from decimal import Decimal
from typing import Any

from examples.demo.papers import PAPERS
from examples.models import Access, Article, Contract, Invoice, Paper, Service, Supplier


def file_papers() -> None:
    """What can be shown as evidence."""
    for file, label in PAPERS.items():
        Paper.objects.get_or_create(file=file, defaults={"label": label})


def number_invoices() -> Iterator[str]:
    """Numbers that nobody has used."""
    for number in itertools.count(20_700 + Invoice.objects.count()):
        if not Invoice.objects.filter(number=f"A-{number}").exists():
            yield f"A-{number}"


def for_refund(customer: str, amount: str, why: str, *, paid: str = "", **more: Any) -> dict[str, Any]:
    """An order that somebody complains about."""
    invoice = Invoice.objects.create(
        number=next(number_invoices()), customer=customer, amount=Decimal(paid or amount), refunded=0
    )
    return {"invoice": invoice.pk, "amount": amount, "why": why, **more}


def for_account(name: str, bank: str, account: str, why: str, **more: Any) -> dict[str, Any]:
    """A supplier whom we have paid for years, to another account."""
    supplier, _made = Supplier.objects.get_or_create(
        name=name,
        defaults={
            "country": more.pop("country", "Netherlands"),
            "rating": "A",
            "status": Supplier.Status.ACTIVE,
            "bank": "ABN AMRO",
            "account": "NL91 ABNA 0417 1643 00",
        },
    )
    return {"supplier": supplier.pk, "bank": bank, "account": account, "why": why, **more}


def for_supplier(name: str, country: str, why: str, **more: Any) -> dict[str, Any]:
    """Somebody who would like to sell us something."""
    return {"supplier": Supplier.objects.create(name=name, country=country).pk, "why": why, **more}


def for_article(title: str, before: str, after: str, why: str, *, online: bool = True, **more: Any) -> dict[str, Any]:
    """A text as it is and as it shall be."""
    article = Article.objects.create(title=title, body=before, is_published=online)
    return {"article": article.pk, "body": after, "why": why, **more}


def for_deploy(name: str, now: str, version: str, why: str, changes: list[str], **more: Any) -> dict[str, Any]:
    """A service as it runs and as it shall run."""
    service, _made = Service.objects.get_or_create(name=name, defaults={"version": now, "replicas": 4})
    return {"service": service.pk, "version": version, "changes": changes, "why": why, **more}


def for_contract(title: str, party: str, value: str, months: int, why: str, **more: Any) -> dict[str, Any]:
    """Something to sign."""
    contract = Contract.objects.create(title=title, party=party, value=Decimal(value), months=months)
    return {"contract": contract.pk, "why": why, **more}


def for_access(person: str, system: str, days: int, areas: list[str], why: str, **more: Any) -> dict[str, Any]:
    """What somebody needs to see."""
    wanted = Access.objects.create(person=person, system=system)
    return {"access": wanted.pk, "days": days, "areas": areas, "why": why, **more}
