"""A desk with work on it: the people and requests that the browser tests of the inbox begin with.

Lives here: what several of them need. What must not: assertions. Maya and Lena decide for Finance, Ben and Priya ask.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

from django.contrib.auth.models import Group, User
from playwright.sync_api import Locator, Page, expect

import workflows
from approvals import Approval, Outcome, decide
from approvals.actions import actions
from approvals.models import Review, SavedView
from examples.models import Invoice, Supplier
from tests.support.browser.served import Site
from workflows import Await, Done, Workflow, step
from workflows.testing import drain

#: On pictures it is always this moment, and the phone is always this one.
MORNING = datetime(2026, 11, 18, 9, 41, tzinfo=UTC)
PHONE: dict[str, Any] = {"width": 375, "height": 720, "touch": True}
REASONS = ("No receipt", "Not in the budget", "Paid back already")
OUTCOMES = ("approve", Outcome("reject", requires_reason=True, presets=REASONS))
LATE = "The parcel came late and it is the first claim of this customer."
LINES: dict[str, Any] = {
    "type": "object",
    "required": ["amount", "lines"],
    "properties": {
        "amount": {"type": "integer", "minimum": 1, "title": "Amount"},
        "lines": {
            "type": "array",
            "title": "Parts",
            "minItems": 1,
            "items": {
                "type": "object",
                "required": ["part"],
                "properties": {"part": {"type": "string", "title": "Part"}, "pieces": {"type": "integer"}},
            },
        },
    },
}

#: What is asked, by a name that travels through the workflow's input: rows and dates could not.
_asked: dict[str, dict[str, Any]] = {}


class OrderRefund(Workflow):
    """Ends with what was decided."""

    name = "desk.order_refund"

    @step
    def ask(self, ctx: Any) -> Any:
        return Await(Approval(**_asked[ctx.input]), then="end", timeout="30d")

    @step
    def end(self, ctx: Any) -> Any:
        return Done({"outcome": ctx.answer.outcome, "reason": ctx.answer.reason, "data": ctx.answer.data})


class SmallRefund(OrderRefund):
    """Those that are many and alike."""

    name = "desk.small_refund"


class BankAccount(OrderRefund):
    """Those that are few and dangerous."""

    name = "desk.bank_account"


@dataclass(frozen=True, slots=True)
class Desk:
    """Who sits there."""

    maya: User
    lena: User
    ben: User
    priya: User
    finance: Group


def make_desk() -> Desk:
    """The people."""
    made = {}
    for name in ("Maya Lindqvist", "Lena Fischer", "Ben Okafor", "Priya Nair"):
        first, last = name.split()
        made[first.lower()] = User.objects.create_user(first.lower(), first_name=first, last_name=last)
    finance = Group.objects.create(name="Finance")
    finance.user_set.set([made["maya"], made["lena"]])
    return Desk(**made, finance=finance)


def make_neighbours(*people: User) -> None:
    """Have them share a group: what waits for one can be handed on to the other."""
    Group.objects.create(name="Office").user_set.set(people)


def ask(title: str, *, kind: type[Workflow] = OrderRefund, **options: Any) -> Review:
    """One request to Finance, of Ben's, unless it says otherwise."""
    name = str(len(_asked))
    given = {"groups": ["Finance"], "requester": "ben", "outcomes": OUTCOMES, **options}
    if "assignees" in options:
        del given["groups"]
    _asked[name] = {"title": title, **given}
    instance = workflows.start(kind, name)
    drain()
    return Review.objects.get(instance=instance)


def ask_three(**options: Any) -> tuple[Review, Review, Review]:
    """Three that are not alike, in the order in which the list has them."""
    return (
        ask("Refund €64.00 to K. Oduya", due="2h", why="Her parcel was lost.", **options),
        ask("Refund €86.40 to J. Marsh", due="3h", why="He was charged twice.", **options),
        ask("Refund €118.50 to Café Linden", due="4h", why="The coffee was stale.", **options),
    )


def ask_alike(n: int = 4) -> list[Review]:
    """Small ones for the same reason."""
    amounts = [f"{number * 3 + 11}.{number % 10}0" for number in range(n)]
    return [
        ask(
            f"Refund €{amount} to {name}",
            kind=SmallRefund,
            why=LATE,
            due="8h",
            request={"customer": name, "amount": amount, "currency": "EUR", "rule": "late, first claim"},
        )
        for amount, name in zip(amounts, _list_names(), strict=False)
    ]


def _list_names() -> tuple[str, ...]:
    known = ("A. Novak", "B. Osei", "C. Ruiz", "D. Lind", "E. Sato", "F. Moreau", "G. Weber", "H. Costa", "I. Berg")
    return (*known, "J. Iyer")


def ask_acme() -> Review:
    """One with all that a card may have."""
    invoice = Invoice.objects.create(number="A-20718", customer="Acme GmbH", amount=Decimal("1240.00"))
    return ask(
        "Refund €1,240.00 to Acme GmbH",
        why="The carrier confirmed on Sat 14 Nov that the parcel is lost. Refunds over €500 need two from Finance.",
        subject=invoice,
        change={"refunded": Decimal("1240.00"), "status": Invoice.Status.REFUNDED},
        evidence=[
            ("The carrier’s statement", "https://shop.example/loss.pdf"),
            ("No earlier refund on this order", True),
        ],
        risk="medium",
        quorum=2,
        due="6h",
        escalate=[("2d", ("add", "user", "priya")), ("4d", ("outcome", "reject"))],
        outcomes=(
            Outcome("approve", presets=("Parcel lost, claim accepted", "Our mistake")),
            Outcome("reject", requires_reason=True, presets=REASONS),
            Outcome("request_changes", requires_reason=True),
        ),
    )


def ask_high(**options: Any) -> Review:
    """One of high risk."""
    supplier = Supplier.objects.create(name="Harbourline", country="Ireland", bank="AIB", account="IE12 AIBK 9311")
    given: dict[str, Any] = {
        "why": "Their letter of 12 November gives a new account.",
        "subject": supplier,
        "change": {"bank": "N26", "account": "DE07 1234 5678"},
        "risk": "high",
        "requester": "priya",
        "due": "7h",
    }
    return ask("Change Harbourline’s bank account", kind=BankAccount, **{**given, **options})


def ask_form(**options: Any) -> Review:
    """One with a form that has rows."""
    title = "Replace the parts of order B-118"
    return ask(title, **{"schema": LINES, "why": "Two arrived broken.", "due": "5h", **options})


def ask_day(site: Site, desk: Desk) -> dict[str, Review]:
    """A day's work, as on pictures; two hours of it have passed, and some of yesterday is decided."""
    for title, outcome in (("Refund €1,105.00 to Lumen AB", "approve"), ("Refund €640.00 to Nordlicht", "reject")):
        paid = Invoice.objects.create(number=title[7:16], customer=title, amount=Decimal("1240.00"))
        past = ask(title, subject=paid, change={"status": Invoice.Status.REFUNDED})
        decide(past, outcome, actor=desk.lena, reason="As the carrier says")
    site.pass_time("20h")
    day = {"late": ask("Refund €1,875.00 to Haus am See", due="1h", risk="medium", why="Nothing arrived.")}
    site.pass_time("2h")
    day["acme"] = ask_acme()
    day["high"] = ask_high()
    day["alike"] = ask_alike(10)[0]
    day["form"] = ask_form()
    oduya, marsh, linden = ask_three()
    day |= {"oduya": oduya, "marsh": marsh, "linden": linden}
    day["lease"] = ask("Sign the workshop lease with Elbe", due="3d", requester="priya", why="The old one ends in May.")
    day["payroll"] = ask("Open payroll reports to J. Weber", due="9d", risk="medium", requester="priya", why="Audit.")
    decide(day["acme"], "approve", actor=desk.lena)
    actions.claim(day["lease"], actor=desk.maya)
    for name, query in (("Refunds under €50", "workflow=desk.small_refund"), ("Suppliers’ bank data", "risk=high")):
        SavedView.objects.create(user=desk.maya, name=name, query=query)
    site.pass_time("18m")
    return day


def find_row(page: Page, review: Review) -> Locator:
    """Its row in the list."""
    return page.locator(f"#rows .request[data-id='{review.pk}']")


def find_detail(page: Page, review: Review) -> Locator:
    """The pane, once it shows this request."""
    return page.locator(f"#detail[data-id='{review.pk}']")


def read_again(review: Review) -> Review:
    """The row as it is now."""
    found: Review = Review.objects.get(pk=review.pk)
    return found


def open_one(page: Page, review: Review) -> Any:
    find_row(page, review).get_by_role("link").click()
    detail = find_detail(page, review)
    expect(detail).to_be_visible()
    return detail
