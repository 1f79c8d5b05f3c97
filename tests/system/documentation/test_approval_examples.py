"""The example workflows in which people decide do what their docstrings say."""

from __future__ import annotations

from datetime import datetime, timedelta
from decimal import Decimal
from typing import Any

import pytest
from django.contrib.auth.models import Group, User
from django.core import mail

import workflows
from approvals import AlreadyDecided, NotAllowed, ReasonRequired, Stale
from approvals.models import Candidate, Review
from approvals.testing import assert_asked, decide, pending
from examples import releases
from examples.models import Article, Contract, Invoice, Supplier
from workflows.clock import read_now
from workflows.models import Instance
from workflows.testing import advance, assert_awaiting, assert_done, drain

pytestmark = pytest.mark.django_db

ASKED = ("Finance", "Compliance", "Editors", "Site reliability", "Security", "Legal", "Directors", "IT", "Sales leads")


@pytest.fixture(autouse=True)
def groups() -> dict[str, Group]:
    return {name: Group.objects.create(name=name) for name in ASKED}


@pytest.fixture(autouse=True)
def nothing_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(releases, "running", [])


def hire(name: str, *groups: str) -> User:
    user = User.objects.create_user(name, f"{name}@shop.example")
    user.groups.set(Group.objects.filter(name__in=groups))
    return user


def begin(workflow: str, given: dict[str, Any], actor: Any = "") -> Instance:
    instance = workflows.start(workflow, given, actor=actor)
    drain()
    return instance


# --- a refund -----------------------------------------------------------------------------------------------


@pytest.fixture
def invoice() -> Invoice:
    return Invoice.objects.create(number="2026-07", customer="Acme GmbH", amount=Decimal(1500))


def ask_for_refund(invoice: Invoice, amount: str = "1240.00", actor: Any = "") -> Instance:
    return begin("demo.refund", {"invoice": invoice.pk, "amount": amount, "complaint": "late"}, actor)


def test_a_refund_is_paid_with_the_decision(invoice: Invoice) -> None:
    ana, ben = hire("ana", "Finance"), hire("ben", "Finance")
    refund = ask_for_refund(invoice, actor=ben)
    review = assert_asked(refund, ana)
    assert (review.title, review.risk) == ("Refund €1,240.00 to Acme GmbH", "medium")
    assert review.change == {"refunded": "1240.00", "status": "refunded"}
    with pytest.raises(NotAllowed, match="four eyes"):
        decide(refund, "approve", actor=ben)
    decide(refund, "approve", actor=ana)
    invoice.refresh_from_db()
    assert (invoice.refunded, invoice.status) == (Decimal("1240.00"), "refunded")
    drain()
    assert_done(refund, result={"refunded": True, "why": ""})


def test_a_refund_is_turned_down_with_a_reason(invoice: Invoice) -> None:
    ana = hire("ana", "Finance")
    refund = ask_for_refund(invoice, "18.90")
    assert assert_asked(refund).risk == "low"
    with pytest.raises(ReasonRequired):
        decide(refund, "reject", actor=ana)
    decide(refund, "reject", actor=ana, reason="No receipt")
    drain()
    assert_done(refund, result={"refunded": False, "why": "No receipt"})
    invoice.refresh_from_db()
    assert invoice.refunded == 0


def test_a_refund_of_an_invoice_that_has_changed_is_looked_at_again(invoice: Invoice) -> None:
    ana = hire("ana", "Finance")
    refund = ask_for_refund(invoice)
    Invoice.objects.update(refunded=Decimal(1500))
    with pytest.raises(Stale, match="Refunded"):
        decide(refund, "approve", actor=ana)
    decide(refund, "reject", actor=ana, reason="Refunded already")


def test_a_refund_that_nobody_decides_ends_after_a_week(invoice: Invoice) -> None:
    refund = ask_for_refund(invoice)
    assert assert_asked(refund).due_at is not None
    advance("7d")
    assert_done(refund, result={"refunded": False, "why": "nobody decided within a week"})


# --- a supplier ---------------------------------------------------------------------------------------------

SCREENING = {"rating": "A", "payment_days": 14, "lists_checked": ["sanctions"], "note": "known for years"}


@pytest.fixture
def supplier() -> Supplier:
    return Supplier.objects.create(name="Kestrel Logistics", country="Ireland")


def test_a_supplier_is_screened_by_one_and_agreed_to_by_another(supplier: Supplier) -> None:
    ines, ana = hire("ines", "Compliance", "Finance"), hire("ana", "Finance")
    taken = begin("demo.supplier", {"supplier": supplier.pk})
    with pytest.raises(workflows.InvalidData):
        decide(taken, "approve", actor=ines, data={**SCREENING, "rating": "D"})
    decide(taken, "approve", actor=ines, data=SCREENING)
    drain()
    review = assert_asked(taken, ana)
    assert review.title == "Pay Kestrel Logistics within 14 days from now on"
    assert {one["value"] for one in review.evidence} == {"sanctions", "known for years"}
    with pytest.raises(NotAllowed, match="earlier stage"):
        decide(taken, "approve", actor=ines)
    decide(taken, "approve", actor=ana)
    drain()
    assert_done(taken, result={"supplier": supplier.pk, "active": True})
    supplier.refresh_from_db()
    assert (supplier.status, supplier.rating, supplier.payment_days) == ("active", "A", 14)


def test_a_supplier_that_one_stage_refuses_is_declined(supplier: Supplier) -> None:
    ines, ana = hire("ines", "Compliance"), hire("ana", "Finance")
    first = begin("demo.supplier", {"supplier": supplier.pk})
    decide(first, "reject", actor=ines, reason="on a list")  # the form may stay empty for the last outcome
    drain()
    assert_done(first, result={"supplier": supplier.pk, "active": False, "why": "on a list"})
    second = begin("demo.supplier", {"supplier": supplier.pk})
    decide(second, "approve", actor=ines, data=SCREENING)
    drain()
    decide(second, "reject", actor=ana, reason="too many already")
    drain()
    assert_done(second, result={"supplier": supplier.pk, "active": False, "why": "too many already"})
    supplier.refresh_from_db()
    assert supplier.status == "declined"


@pytest.mark.parametrize(("stages", "why"), [(0, "not screened"), (1, "not agreed")])
def test_a_supplier_that_nobody_looks_at_is_declined(supplier: Supplier, stages: int, why: str) -> None:
    ines = hire("ines", "Compliance")
    taken = begin("demo.supplier", {"supplier": supplier.pk})
    if stages:
        decide(taken, "approve", actor=ines, data=SCREENING)
    advance("30d")
    assert_done(taken, result={"supplier": supplier.pk, "active": False, "why": why})


# --- an article ---------------------------------------------------------------------------------------------


def test_an_article_is_read_again_until_it_is_published() -> None:
    author, editor = hire("author"), hire("editor", "Editors")
    article = Article.objects.create(title="Moss", body="It is green.")
    published = begin("demo.article", {"article": article.pk}, author)
    decide(published, "request_changes", actor=editor, reason="Sources are missing")
    drain()
    assert_awaiting(published, "revised")
    assert "Sources are missing" in [one for one in mail.outbox if one.to == ["author@shop.example"]][-1].body
    Article.objects.update(body="It is green (Linnaeus 1753).")
    workflows.signal(published, "revised")
    drain()
    assert assert_asked(published, editor).snapshot["body"] == "It is green (Linnaeus 1753)."
    decide(published, "approve", actor=editor)
    drain()
    assert_done(published, result={"published": True, "rounds": 1})
    article.refresh_from_db()
    assert article.is_published


def test_an_article_may_be_turned_down_left_unread_or_never_be_revised() -> None:
    editor = hire("editor", "Editors")
    article = Article.objects.create(title="Moss", body="It is green.")
    refused, unread, left = (begin("demo.article", {"article": article.pk}) for _ in range(3))
    decide(refused, "reject", actor=editor)
    decide(left, "request_changes", actor=editor, reason="Too long")
    advance("30d")
    assert_done(refused, result={"published": False, "rounds": 0})
    assert_done(unread, result={"published": False, "why": "nobody read it"})
    assert_done(left, result={"published": False, "why": "it was not revised"})
    article.refresh_from_db()
    assert not article.is_published


# --- a release ----------------------------------------------------------------------------------------------

RELEASE = {"version": "4.2", "changes": ["Pay by invoice"], "migrations": 2}


def test_a_release_needs_both_groups_and_reasons() -> None:
    sam, sue = hire("sam", "Site reliability"), hire("sue", "Security")
    release = begin("demo.release", RELEASE)
    assert assert_asked(release, sam, sue).risk == "high"
    with pytest.raises(ReasonRequired):
        decide(release, "approve", actor=sam)
    assert decide(release, "approve", actor=sam, reason="Tested on staging").state == "open"
    drain()
    assert releases.running == []
    assert decide(release, "approve", actor=sue, reason="No new surface").state == "decided"
    drain()
    assert_done(release, result={"released": "4.2"})
    assert releases.running == ["4.2"]


def test_one_veto_stops_a_release() -> None:
    sam, sue = hire("sam", "Site reliability"), hire("sue", "Security")
    release = begin("demo.release", RELEASE)
    decide(release, "approve", actor=sam, reason="Tested on staging")
    assert decide(release, "reject", actor=sue, reason="Not on a Friday").state == "decided"
    drain()
    assert_done(release, result={"released": None, "why": "Not on a Friday"})
    assert releases.running == []


def test_a_release_that_nobody_decides_stays_where_it_is() -> None:
    release = begin("demo.release", {"version": "4.2", "changes": []})
    advance("2d")
    assert_done(release, result={"released": None, "why": "nobody decided within two days"})


# --- a contract ---------------------------------------------------------------------------------------------


@pytest.fixture
def contract() -> Contract:
    return Contract.objects.create(party="Studio Fjord", title="Photographs", value=Decimal(9600), months=12)


def advance_to_rung(review: Review, n: int) -> None:
    """To the moment of a rung, which depends on the day on which this test runs."""
    at = datetime.fromisoformat(review.rungs[n]["at"])
    advance(at - read_now() + timedelta(seconds=1))


def test_a_contract_is_signed_by_two(contract: Contract) -> None:
    lena, ola = hire("lena", "Legal"), hire("ola", "Legal")
    signing = begin("demo.contract", {"contract": contract.pk})
    decide(signing, "approve", actor=lena)
    contract.refresh_from_db()
    assert not contract.is_signed
    decide(signing, "approve", actor=ola)
    contract.refresh_from_db()
    assert contract.is_signed
    drain()
    assert_done(signing, result={"signed": True, "by": [f"user:{lena.pk}", f"user:{ola.pk}"]})


def test_a_contract_goes_up_and_is_refused_when_everybody_is_silent(contract: Contract) -> None:
    lena, dora = hire("lena", "Legal"), hire("dora", "Directors")
    signing = begin("demo.contract", {"contract": contract.pk})
    review = assert_asked(signing, lena)
    assert [one["do"] for one in review.rungs] == ["remind", "add", "outcome"]
    with pytest.raises(AssertionError, match="not among those asked"):
        assert_asked(signing, dora)
    advance_to_rung(review, 0)
    assert [one.to for one in mail.outbox] == [["lena@shop.example"]] * 2  # asked, and reminded
    advance_to_rung(review, 1)
    assert_asked(signing, lena, dora)
    decide(signing, "approve", actor=dora)
    advance_to_rung(review, 2)
    assert_done(signing, result={"signed": False, "by": [f"user:{dora.pk}"]})
    with pytest.raises(AlreadyDecided):
        decide(review, "approve", actor=lena)


# --- access -------------------------------------------------------------------------------------------------


def test_access_is_given_with_the_decision_and_taken_away_in_the_end() -> None:
    jonas, ida = hire("jonas"), hire("ida", "IT")
    Group.objects.create(name="Payroll reports")
    access = begin("demo.access", {"user": jonas.pk, "group": "Payroll reports", "days": 14, "why": "audit"}, jonas)
    with pytest.raises(NotAllowed):
        decide(access, "approve", actor=jonas)
    decide(access, "approve", actor=ida)
    assert jonas.groups.filter(name="Payroll reports").exists()
    advance("13d")
    assert jonas.groups.exists()
    advance("1d")
    assert not jonas.groups.exists()
    assert_done(access, result={"granted": True, "days": 14})


def test_access_is_refused_or_forgotten() -> None:
    jonas, ida = hire("jonas"), hire("ida", "IT")
    given = {"user": jonas.pk, "group": "IT", "days": 14, "why": "curious"}
    refused, forgotten = begin("demo.access", given, jonas), begin("demo.access", given, jonas)
    decide(refused, "reject", actor=ida, reason="no need")
    advance("5d")
    assert_done(refused, result={"granted": False, "why": "no need"})
    assert_done(forgotten, result={"granted": False, "why": "nobody decided"})
    assert not jonas.groups.exists()


# --- a discount ---------------------------------------------------------------------------------------------


def test_a_small_discount_asks_nobody() -> None:
    discount = begin("demo.discount", {"customer": "Ann", "percent": 5})
    assert_done(discount, result={"approved": True, "by": "rule"})
    assert pending() == []


def test_a_discount_is_decided_by_the_first_group() -> None:
    bob = hire("bob", "Sales leads")
    discount = begin("demo.discount", {"customer": "Ann", "percent": 20})
    assert assert_asked(discount, bob).title == "Give Ann a discount of 20%"
    decide(discount, "reject", actor=bob, reason="too much")
    drain()
    assert_done(discount, result={"approved": False, "by": f"user:{bob.pk}", "reason": "too much"})


def test_a_discount_that_the_first_group_ignores_is_the_next_ones() -> None:
    bob, dora = hire("bob", "Sales leads"), hire("dora", "Directors")
    discount = begin("demo.discount", {"customer": "Ann", "percent": 20})
    advance("4h")
    assert_asked(discount, dora)
    with pytest.raises(NotAllowed):
        decide(discount, "approve", actor=bob)
    decide(discount, "approve", actor=dora)
    drain()
    assert_done(discount, result={"approved": True, "by": f"user:{dora.pk}", "reason": ""})


def test_a_discount_that_nobody_decides_is_refused_in_the_end() -> None:
    discount = begin("demo.discount", {"customer": "Ann", "percent": 20})
    advance("28h")
    assert_done(discount, result={"approved": False, "by": "time", "reason": ""})
    assert not Candidate.objects.filter(open=True).exists()
