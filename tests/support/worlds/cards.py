"""Reviews for tests of cards: a workflow that asks whatever a test wants asked, people to ask, a page to put parts on.

What lives here: only what several files of tests need. Must not live here: anything that a test asserts.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import timedelta
from html.parser import HTMLParser
from typing import Any

import pytest
from django.contrib.auth.models import Group, User
from django.template.loader import render_to_string

import workflows
from approvals import Approval, Outcome
from approvals.cards.card import Card, build_card
from approvals.cards.status import describe_status
from approvals.cards.timeline import list_entries
from approvals.models import Review
from approvals.reviews.case import Case
from workflows import Await, Done, Workflow, step
from workflows.models import Instance
from workflows.testing import drain

REFUND = "Refund €1,240.00 to Acme GmbH"

#: What a test asks, by a name that travels through the workflow's input: rows and dates could not.
_asked: dict[str, dict[str, Any]] = {}


class Ask(Workflow):
    name = "cards-refund"

    @step
    def ask(self, ctx: Any) -> Any:
        return Await(Approval(**_asked[ctx.input]["approval"]), then="end", timeout=_asked[ctx.input]["timeout"])

    @step
    def end(self, ctx: Any) -> Any:
        return Done()


def ask(title: str = REFUND, *, timeout: Any = "7d", **options: Any) -> Review:
    """A review, as it is once its workflow waits for it."""
    name = str(len(_asked))
    _asked[name] = {"approval": {"title": title, **options}, "timeout": timeout}
    instance: Instance = workflows.start(Ask, name)
    drain()
    return Review.objects.get(instance=instance)


def read_again(review: Review) -> Review:
    """The row as it is now, with nothing remembered."""
    return Review.objects.get(pk=review.pk)


@dataclass
class People:
    """Ann, Cid and Dee are in Finance; Ben asks."""

    ann: User
    ben: User
    cid: User
    dee: User
    finance: Group


def make_people() -> People:
    """Whom the tests ask."""
    names = {"ann": "Ann Archer", "ben": "Ben Okafor", "cid": "Cid Campos", "dee": "Dee Dahl"}
    made = {}
    for username, name in names.items():
        first, last = name.split()
        made[username] = User.objects.create_user(username, first_name=first, last_name=last)
    finance = Group.objects.create(name="Finance")
    finance.user_set.set([made["ann"], made["cid"], made["dee"]])
    return People(**made, finance=finance)


def ask_about_order(shop: Any, people: People) -> Review:
    """Ben asks Finance about an order, with everything that a card may have."""
    acme = shop.Customer.objects.create(name="Acme GmbH", code="acme")
    order = shop.Order.objects.create(code="A-20718", customer=acme)
    return ask(
        groups=["Finance"],
        quorum=2,
        requester=people.ben,
        risk="medium",
        subject=order,
        change={"amount": "99.50", "urgent": True, "due": "2026-12-01"},
        request={"order": {"number": "A-20718", "paid": True}, "amount": "1240.00", "currency": "EUR"},
        evidence=[("Invoice", "https://shop.example/7"), ("Earlier refunds", 2)],
        due=timedelta(days=2),
        outcomes=("approve", Outcome("reject", "Turn down", requires_reason=True, presets=("No receipt",))),
        schema={"type": "object", "properties": {"note": {"type": "string"}}},
        escalate=[("3d", ("add", "user", "ben")), ("4d", ("outcome", "reject"))],
    )


def build(review: Review, user: User | None) -> Card:
    """The card as a door makes it: everything read anew."""
    return build_card(read_again(review), None if user is None else User.objects.get(pk=user.pk))


def tell(review: Review, user: User | None = None) -> str:
    """How it stands."""
    return describe_status(read_again(review), user)


def list_told(review: Review, user: User | None = None) -> list[tuple[str, str, str]]:
    """Its history: who, what, and what they wrote."""
    return [(one.who, one.what, one.text) for one in list_entries(Case(read_again(review)), user)]


def render_part(name: str, **context: Any) -> str:
    """One of the card's parts."""
    return render_to_string(f"approvals/parts/{name}.html", context)


def list_texts(value: Any) -> Iterator[str]:
    """Every text in a value, however deep."""
    if isinstance(value, str):
        yield value
    elif dataclasses.is_dataclass(value) and not isinstance(value, type):
        for field in dataclasses.fields(value):
            yield from list_texts(getattr(value, field.name))
    elif isinstance(value, dict):
        yield from (text for pair in value.items() for one in pair for text in list_texts(one))
    elif isinstance(value, list | tuple):
        yield from (text for one in value for text in list_texts(one))


class Page(HTMLParser):
    """The tags of a page and its words, and that what was opened is closed."""

    VOID = frozenset({"input", "br", "meta", "link", "circle", "path"})

    def __init__(self, html: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.words = ""
        self._open: list[str] = []
        self.feed(html)
        self.close()
        assert not self._open, f"never closed: {self._open}"

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        if tag not in self.VOID:
            self._open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        assert self._open[-1:] == [tag], f"</{tag}> closes nothing"
        self._open.pop()

    def handle_data(self, data: str) -> None:
        self.words += data

    def find(self, tag: str, **attributes: str) -> list[dict[str, str | None]]:
        """The attributes of the tags of this name that have these among them."""
        wanted = {name.rstrip("_"): value for name, value in attributes.items()}
        return [found for name, found in self.tags if name == tag and wanted.items() <= found.items()]


@pytest.fixture(name="people")
def make_people_of_cards(db: None) -> People:
    return make_people()


@pytest.fixture(name="asked")
def ask_about_the_order(shop: Any, people: People) -> Review:
    return ask_about_order(shop, people)
