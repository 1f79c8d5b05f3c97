"""The six forms of "Make a request": what each asks for, and what its workflow is started with.

Invariant owned: whatever was typed is checked by a form before a row of it is made.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from django import forms
from django.db import transaction
from django.utils.functional import Promise
from django.utils.translation import gettext_lazy as _

import workflows
from approvals.people.principals import name_person
from examples.demo import rows
from examples.demo.refunds import RefundOrder, RefundSmall, name_refund
from examples.demo.texts import CHAIR, CHAIR_NEW
from examples.models import Service, Supplier
from workflows.models import Instance


class OfferForm(forms.Form):
    """Fields that look like those of the other pages."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        for name, field in self.fields.items():
            field.widget.attrs["class"] = "input"
            if isinstance(field.widget, forms.Textarea):
                field.widget.attrs["rows"] = 3
            if self.is_bound and name in self.errors:
                field.widget.attrs["aria-invalid"] = "true"


def _text(label: Any, initial: str, longest: int = 100) -> forms.CharField:
    return forms.CharField(label=label, initial=initial, max_length=longest)


def _texts(label: Any, initial: str) -> forms.CharField:
    return forms.CharField(label=label, initial=initial, max_length=1_000, widget=forms.Textarea)


def _why(initial: str) -> forms.CharField:
    return _texts(_("Why now"), initial)


def _amount(label: Any, initial: str) -> forms.DecimalField:
    smallest, largest = Decimal("0.01"), Decimal(1_000_000)
    return forms.DecimalField(label=label, initial=initial, min_value=smallest, max_value=largest, decimal_places=2)


def _number(label: Any, initial: int, largest: int) -> forms.IntegerField:
    return forms.IntegerField(label=label, initial=initial, min_value=1, max_value=largest)


class RefundForm(OfferForm):
    customer = _text(_("Customer"), "Acme GmbH")
    amount = _amount(_("Amount in euros"), "620.00")
    why = _why("The parcel is lost, and they have waited for two weeks.")


class AccountForm(OfferForm):
    supplier = _text(_("Supplier"), "Harbourline")
    bank = _text(_("New bank"), "Rabobank", 50)
    account = _text(_("New account"), "NL20 RABO 0300 0652 64", 40)
    why = _why("They told us by letter; I have called them.")


class ArticleForm(OfferForm):
    title = _text(_("Title"), "The chair Finch in blue")
    before = _texts(_("As it is"), CHAIR)
    after = _texts(_("As it shall be"), CHAIR_NEW)
    why = _why("The blue one is in the window already.")


class DeployForm(OfferForm):
    service = _text(_("Service"), "checkout", 50)
    version = _text(_("Version"), "4.3.0", 20)
    changes = _texts(_("What changes, one line each"), "Vouchers can be given away")
    why = _why("The vouchers are in the shops on Saturday.")


class ContractForm(OfferForm):
    title = _text(_("What"), "Window cleaning")
    party = _text(_("With"), "Klarsicht")
    value = _amount(_("Value in euros"), "2400.00")
    months = _number(_("Runs for months"), 12, 36)
    why = _why("It was in nobody’s contract until now.")


class AccessForm(OfferForm):
    system = _text(_("System"), "order archive", 50)
    days = _number(_("For days"), 14, 365)
    areas = _text(_("Areas, with commas between them"), "Orders, Complaints", 200)
    why = _why("I look for what we promised a customer two years ago.")


@dataclass(frozen=True, slots=True)
class Offer:
    """One process that can be started from the page."""

    name: str
    workflow: str
    title: str | Promise
    #: What it shows.
    more: str | Promise
    #: What happens when people have agreed.
    then: str | Promise
    form: type[OfferForm]
    make: Callable[[Mapping[str, Any], Any], dict[str, Any]]

    def start(self, given: Mapping[str, Any], user: Any) -> Instance:
        """Ask for it as this user: the row and the instance, or neither."""
        with transaction.atomic():
            name = name_refund(given["amount"]) if self.name == "refund" else self.workflow
            return workflows.start(name, self.make(given, user), actor=user)


def _make_refund(given: Mapping[str, Any], user: Any) -> dict[str, Any]:
    return rows.for_refund(given["customer"], str(given["amount"]), given["why"])


def _make_account(given: Mapping[str, Any], user: Any) -> dict[str, Any]:
    return rows.for_account(given["supplier"], given["bank"], given["account"], given["why"])


def _make_article(given: Mapping[str, Any], user: Any) -> dict[str, Any]:
    return rows.for_article(given["title"], given["before"], given["after"], given["why"])


def _make_deploy(given: Mapping[str, Any], user: Any) -> dict[str, Any]:
    changes = [line.strip() for line in given["changes"].splitlines() if line.strip()]
    return rows.for_deploy(given["service"], "1.0.0", given["version"], given["why"], changes)


def _make_contract(given: Mapping[str, Any], user: Any) -> dict[str, Any]:
    return rows.for_contract(given["title"], given["party"], str(given["value"]), given["months"], given["why"])


def _make_access(given: Mapping[str, Any], user: Any) -> dict[str, Any]:
    areas = [one.strip() for one in given["areas"].split(",") if one.strip()] or [given["areas"]]
    return rows.for_access(name_person(user), given["system"], given["days"], areas, given["why"])


OFFERS = (
    Offer(
        "refund",
        "order_refund",
        _("Refund a customer"),
        _("Under €50 it is one of many; over €500 three people of Finance have to agree."),
        _("The refund is paid"),
        RefundForm,
        _make_refund,
    ),
    Offer(
        "account",
        "bank_account_change",
        _("Change a supplier’s bank account"),
        _("High risk: two people, each with a reason, and none of them by a single key."),
        _("The account is changed"),
        AccountForm,
        _make_account,
    ),
    Offer(
        "article",
        "text_review",
        _("Publish a text"),
        _("Compared word by word. Editors publish it, ask for changes or say no."),
        _("The text is online"),
        ArticleForm,
        _make_article,
    ),
    Offer(
        "deploy",
        "deployment",
        _("Deploy a service"),
        _("High risk: whoever asks cannot agree, and whoever agrees says why."),
        _("It runs in production"),
        DeployForm,
        _make_deploy,
    ),
    Offer(
        "contract",
        "contract_signing",
        _("Sign a contract"),
        _("Two of Legal, in working hours of Berlin. They may change value and term, and sign that."),
        _("It is signed"),
        ContractForm,
        _make_contract,
    ),
    Offer(
        "access",
        "access_request",
        _("Get access for a while"),
        _("Whoever agrees fills in how much, where and until when."),
        _("Access is open until its day, and is taken away again"),
        AccessForm,
        _make_access,
    ),
)


def find_offer(*, name: str = "", workflow: str = "") -> Offer | None:
    """An offer by its name or by what it starts."""
    if workflow == RefundSmall.name:
        workflow = RefundOrder.name
    return next((one for one in OFFERS if one.name == name or one.workflow == workflow), None)


def list_subjects() -> dict[str, list[str]]:
    """What there is already, for who would rather choose than type."""
    return {
        "supplier": list(Supplier.objects.filter(status=Supplier.Status.ACTIVE).values_list("name", flat=True)),
        "service": list(Service.objects.values_list("name", flat=True)),
    }
