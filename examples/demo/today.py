"""What waits today: some fifty requests of all six processes, and what people have done about them so far."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from approvals import answer_info, claim, comment, delegate, request_info, snooze
from examples.demo import rows
from examples.demo.papers import LOSS, PHOTO
from examples.demo.play import Play
from examples.demo.refunds import SMALL_WHY
from examples.demo.texts import plan_texts
from workflows.clock import read_now

#: Customer, amount, hours ago: alike, and under one rule.
SMALL = (
    ("J. Marsh", "32.40", 6.5),
    ("A. Petrov", "18.90", 6.2),
    ("L. Moreau", "44.00", 5.9),
    ("S. Ito", "12.50", 5.4),
    ("B. Andersen", "27.80", 5.1),
    ("N. Rossi", "39.90", 4.6),
    ("W. Yilmaz", "21.00", 4.2),
    ("D. Svensson", "49.00", 3.7),
    ("G. Papadakis", "16.75", 3.1),
    ("I. Kowalska", "35.20", 2.4),
    ("V. Moser", "8.95", 1.3),
    ("U. Lang", "29.90", 0.6),
)
#: Customer, amount, paid, hours ago, why, options.
MIDDLE: tuple[tuple[str, str, str, float, str, dict[str, Any]], ...] = (
    ("Hotel Astoria", "264.00", "2640.00", 27, "Four chairs wobble; they would rather keep them for less.", {}),
    ("Café Linden", "118.50", "118.50", 21, "The lamp came broken, the photo shows how.", {"papers": [PHOTO]}),
    (
        "K. Oduya",
        "64.00",
        "64.00",
        13,
        "The wrong size was in the parcel, twice.",
        {"warnings": ["Second refund to this customer in a year"]},
    ),
    ("Praxis Dr. Wolf", "420.00", "1280.00", 9, "Delivered three weeks late; we had promised one.", {}),
    ("Atelier Noon", "89.00", "356.00", 5, "One of four stools has a dent.", {"papers": [PHOTO]}),
    ("R. Novak", "150.00", "900.00", 2.5, "The table is darker than in the picture.", {"due": "3d"}),
    ("Studio Fjord", "75.00", "310.00", 1.1, "They returned the cushions and kept the bench.", {"due": "6d"}),
)


def plan_today(play: Play) -> None:
    """Write today into the play."""
    plan_small_refunds(play)
    plan_refunds(play)
    plan_purchases(play)
    plan_contracts(play)
    plan_texts(play)


def plan_small_refunds(play: Play) -> None:
    """Twelve alike: what one decides for many at once."""
    for customer, amount, ago in SMALL:
        play.ask(ago, "small_refund", "ben", rows.for_refund, customer, amount, SMALL_WHY)


def plan_refunds(play: Play) -> None:
    """Those that one person decides, and those that take three."""
    for number, (customer, amount, paid, ago, why, more) in enumerate(MIDDLE):
        asking = play.ask(ago, "order_refund", "ben", rows.for_refund, customer, amount, why, paid=paid, **more)
        if number == 2:
            asking.act(12, "ana", request_info, "Was the second parcel sent by us or by the shop in Bremen?")
        if number == 3:
            asking.act(4, "lena", claim)
        if number == 5:
            asking.act(1, "maya", snooze_until_tomorrow)
    lost = {"papers": [LOSS, PHOTO], "complaint": "Where is my parcel? I have written three times."}
    why = "The carrier confirmed that the parcel is lost, and takes our claim."
    asking = play.ask(44, "order_refund", "ben", rows.for_refund, "Acme GmbH", "1240.00", why, paid="1500.00", **lost)
    asking.act(43.5, "lena", comment, "Their claim number is PW-88120. The carrier pays within a month.")
    asking.approve(40, "ana", "Parcel lost, claim accepted").approve(22, "tom")
    why = "Twelve chairs came in the wrong oak; they want their money, not new chairs."
    asking = play.ask(46, "order_refund", "ben", rows.for_refund, "Kestrel Logistics", "3480.00", why, papers=[PHOTO])
    asking.approve(30, "lena", "Our mistake")
    why = "The sideboard fell from the lift of the carrier. Nobody was hurt."
    asking = play.ask(26, "order_refund", "ben", rows.for_refund, "Bakker & Zoon", "890.00", why, papers=[PHOTO, LOSS])
    asking.act(20, "maya", request_info, "Do they keep the sideboard?")
    asking.act(18, "ben", answer_info, "No, the carrier has it for inspection.")
    why = "Paid twice: once by card and once by transfer."
    asking = play.ask(
        8,
        "order_refund",
        "ben",
        rows.for_refund,
        "Lumen AB",
        "2160.00",
        why,
        warnings=["The transfer has no order number"],
    )
    asking.act(2, "maya", claim)
    why = "They cancelled two days after ordering, as the law lets them."
    play.ask(3, "order_refund", "ben", rows.for_refund, "Nordlicht Hotels", "6900.00", why, due="4d")
    why = "Part of the kitchen never came; they have built it themselves by now."
    play.ask(72, "order_refund", "ben", rows.for_refund, "Haus am See", "1875.00", why).approve(50, "tom").approve(
        49, "lena"
    )


def plan_purchases(play: Play) -> None:
    """Whom we pay, and where to."""
    account = rows.for_account
    why = "They write that their old account is closed at the end of the month."
    asking = play.ask(
        20,
        "bank_account_change",
        "priya",
        account,
        "Harbourline",
        "Triodos Bank",
        "NL44 TRIO 0212 4567 89",
        why,
        open_invoices="€48,310.00 in five",
        warnings=["The letter came by mail, not by post"],
    )
    asking.act(19, "lena", comment, "I asked for the number of their accountant. The one on the letter is new.")
    why = "Their bank collects for them from now on."
    asking = play.ask(
        27, "bank_account_change", "priya", account, "Osthaus Holz", "Commerzbank", "DE75 2004 0000 0123 4567 00", why
    )
    asking.approve(21, "ana", "Called the number that we have on file")
    why = "Their new entity in Ireland sends the invoices from now on."
    play.ask(
        2,
        "bank_account_change",
        "priya",
        account,
        "Kestrel Logistics",
        "AIB",
        "IE12 AIBK 9311 5212 3456 78",
        why,
        country="Ireland",
        due="3d",
    )
    supplier = rows.for_supplier
    why = "Linen from one mill instead of three, and a fifth cheaper."
    asking = play.ask(
        70, "new_supplier", "priya", supplier, "Weberei Sand", "Germany", why, rating="A", payment_days=14
    )
    asking.approve(60, "lena", "Register and references are fine")
    why = "The only one who can repair the old lathes."
    play.ask(31, "new_supplier", "priya", supplier, "Tornio Oy", "Finland", why, references=1)
    why = "Boxes of recycled paper that hold twenty kilograms."
    play.ask(
        6,
        "new_supplier",
        "priya",
        supplier,
        "Packwerk",
        "Austria",
        why,
        payment_days=45,
        warnings=["Founded four months ago"],
    )
    why = "Handles of brass, cast the way we draw them."
    play.ask(90, "new_supplier", "priya", supplier, "Fonderia Bassi", "Italy", why, due="4d").act(
        20, "ana", delegate, to=play.people["samir"], reason="You know the founders."
    )


def plan_contracts(play: Play) -> None:
    """What two of Legal sign, in the working hours of Berlin."""
    contract = rows.for_contract
    why = "The pictures of spring are done; these are for autumn and the fair."
    asking = play.ask(40, "contract_signing", "priya", contract, "Photographs", "Studio Fjord", "9600", 12, why)
    asking.act(30, "maya", comment, "They would take twelve months for €9,000.")
    why = "Our rent in Hamburg ends in March; the owner wants to know."
    play.ask(120, "contract_signing", "priya", contract, "Workshop lease", "Elbe Immobilien", "38400", 24, why)
    why = "The present insurance does not cover the workshop."
    asking = play.ask(30, "contract_signing", "priya", contract, "Insurance", "Nordsee Mutual", "12800", 12, why)
    asking.approve(8, "lena")
    why = "They hold the price of last year if we sign this week."
    play.ask(
        10,
        "contract_signing",
        "priya",
        contract,
        "Parcels",
        "Parcelway",
        "86000",
        24,
        why,
        warnings=["They lost six parcels this year"],
    )
    why = "Two weeks at the fair in Cologne, with the tables of autumn."
    play.ask(
        4, "contract_signing", "ines", contract, "Fair stand", "Messe Köln", "17250", 1, why, due="8 business days"
    )
    why = "Music for the shop, paid by the square metre."
    play.ask(1.5, "contract_signing", "ines", contract, "Music", "Klangwerk", "1140", 12, why, due="5 business days")


def snooze_until_tomorrow(review: Any, *, actor: Any) -> None:
    """Put aside for a day."""
    snooze(review, until=read_now() + timedelta(hours=20), actor=actor)
