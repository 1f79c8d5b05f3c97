"""What the shop has decided in the last two months, with reasons: what the requests of today are compared with."""

from __future__ import annotations

from examples.demo import rows
from examples.demo.play import Play
from examples.demo.refunds import SMALL_WHY

DAY = 24.0

#: Days ago, customer, amount, who decided, and why not.
SMALL = (
    (41, "J. Marsh", "18.90", "lena", ""),
    (36, "O. Brandt", "31.00", "ana", ""),
    (33, "T. Ilves", "12.40", "maya", ""),
    (29, "P. Costa", "47.00", "tom", "Refunded already"),
    (24, "H. Sato", "9.95", "lena", ""),
    (20, "R. Novak", "22.10", "maya", ""),
    (15, "E. Dubois", "38.60", "ana", ""),
    (11, "M. Haas", "44.90", "lena", "Outside the return period"),
    (8, "C. Lund", "15.00", "ana", ""),
    (5, "K. Oduya", "27.50", "maya", ""),
    (2, "F. Keller", "33.30", "lena", ""),
)
#: Days ago, customer, amount, why it was asked, who decided, reason; with "-" for a no.
MIDDLE = (
    (38, "Lumen AB", "210.00", "Two of six lamps came without a cable.", "ana", "Our mistake"),
    (27, "Hotel Astoria", "480.00", "The chairs are the wrong colour.", "lena", "-We can recolour them for less"),
    (19, "Studio Fjord", "145.00", "Delivered a week after the shoot.", "tom", "Goodwill for a good customer"),
    (9, "Bakker & Zoon", "320.00", "One table top has a crack.", "ana", "Photo shows it clearly"),
    (4, "Café Linden", "96.00", "Charged twice for the same order.", "maya", "Our mistake"),
)
#: The same, with those who voted.
LARGE = (
    (
        44,
        "Acme GmbH",
        "640.00",
        "The carrier has lost the parcel.",
        ("ana", "lena", "tom"),
        "Parcel lost, claim accepted",
    ),
    (31, "Lumen AB", "1105.00", "The carrier has lost both parcels.", ("maya", "tom", "ana"), "Claim accepted"),
    (
        22,
        "Kestrel Logistics",
        "2750.00",
        "They want to give twelve chairs back.",
        ("lena", "tom", "maya"),
        "-Used for a year",
    ),
    (12, "Acme GmbH", "890.00", "A cabinet fell from the lift.", ("maya", "ana", "tom"), "Parcel lost, claim accepted"),
)


def recall(play: Play) -> None:
    """Write the past into the play."""
    recall_refunds(play)
    recall_purchases(play)
    recall_the_rest(play)


def recall_refunds(play: Play) -> None:
    """Small, middle and large ones."""
    for days, customer, amount, who, why_not in SMALL:
        asking = play.ask(days * DAY, "small_refund", "ben", rows.for_refund, customer, amount, SMALL_WHY)
        asking.vote(days * DAY - 3, who, "reject" if why_not else "approve", why_not)
    for days, customer, amount, why, who, reason in MIDDLE:
        asking = play.ask(days * DAY, "order_refund", "ben", rows.for_refund, customer, amount, why)
        asking.vote(days * DAY - 6, who, "reject" if reason[0] == "-" else "approve", reason.lstrip("-"))
    for days, customer, amount, why, voters, reason in LARGE:
        asking = play.ask(days * DAY, "order_refund", "ben", rows.for_refund, customer, amount, why)
        for number, who in enumerate(voters, 1):
            asking.vote(days * DAY - 4 * number, who, "reject" if reason[0] == "-" else "approve", reason.lstrip("-"))


def recall_purchases(play: Play) -> None:
    """Suppliers, their accounts, and contracts."""
    why = "They moved to another bank and told us by letter."
    asking = play.ask(
        40 * DAY,
        "bank_account_change",
        "priya",
        rows.for_account,
        "Osthaus Holz",
        "GLS Bank",
        "DE02 4306 0967 0000 0171 00",
        why,
    )
    asking.approve(40 * DAY - 3, "lena", "Called the number that we have on file")
    asking.approve(40 * DAY - 7, "maya", "Confirmed by their bank, letter of today")
    why = "A mail asks us to pay to a new account, at once."
    asking = play.ask(
        17 * DAY,
        "bank_account_change",
        "priya",
        rows.for_account,
        "Delta Textiles",
        "Fast Bank",
        "LT12 1000 0111 0100 1000",
        why,
        warnings=["The mail came from another address than before"],
    )
    asking.reject(17 * DAY - 2, "ana", "Nobody answers at the known number")
    asking.reject(17 * DAY - 5, "tom", "The letter is not theirs")
    why = "They can deliver oak within a week, and ours takes three."
    asking = play.ask(26 * DAY, "new_supplier", "priya", rows.for_supplier, "Nordmark Timber", "Sweden", why)
    asking.approve(25 * DAY, "maya", "Register and references are fine")
    asking.approve(24 * DAY, "lena", "Register and references are fine")
    why = "Cheaper felt for the pads under the chairs."
    asking = play.ask(14 * DAY, "new_supplier", "priya", rows.for_supplier, "Feltworks Ltd", "United Kingdom", why)
    asking.reject(13.5 * DAY, "ana", "We have two of this kind")
    asking.reject(13 * DAY, "lena", "Terms are too long")
    for days, title, party, value, months, why, voters in (
        (43, "Cleaning", "Blanko Services", "14400", 12, "The old contract ended.", ("lena", "tom")),
        (
            21,
            "Spring photographs",
            "Studio Fjord",
            "7800",
            6,
            "The pictures of last year sold well.",
            ("maya", "lena"),
        ),
    ):
        asking = play.ask(days * DAY, "contract_signing", "priya", rows.for_contract, title, party, value, months, why)
        for number, who in enumerate(voters, 1):
            asking.approve(days * DAY - 5 * number, who)
    asking = play.ask(
        16 * DAY,
        "contract_signing",
        "priya",
        rows.for_contract,
        "Fleet of vans",
        "Rollwerk",
        "52000",
        36,
        "Ours are eight years old.",
    )
    asking.reject(15.5 * DAY, "lena", "The term")
    asking.reject(15 * DAY, "maya", "The price")


def recall_the_rest(play: Play) -> None:
    """Texts, versions and access."""
    for days, title, outcome, reason, who in (
        (35, "How we oil a table", "approve", "", "lena"),
        (23, "Ten reasons for beech", "reject", "Not our voice", "ines"),
        (10, "Opening hours in winter", "approve", "", "ana"),
    ):
        asking = play.ask(
            days * DAY,
            "text_review",
            "ben",
            rows.for_article,
            title,
            "To be written.",
            "Written, read aloud, and shorter than before.",
            "Customers ask for it.",
            online=False,
        )
        asking.vote(days * DAY - 20, who, outcome, reason)
    for days, name, version, why, outcome, reason, who in (
        (30, "checkout", "4.0.0", "Pay by invoice, first part.", "approve", "Tested on staging", "lena"),
        (18, "search", "2.8.0", "Finds words with accents.", "reject", "Not on a Friday", "ana"),
        (17, "search", "2.8.1", "Finds words with accents.", "approve", "Tested on staging", "maya"),
        (6, "checkout", "4.1.0", "Pay by invoice, second part.", "approve", "Same as in the canary", "ana"),
    ):
        asking = play.ask(
            days * DAY,
            "deployment",
            "samir",
            rows.for_deploy,
            name,
            "3.9.2" if name == "checkout" else "2.7.4",
            version,
            why,
            [why],
        )
        asking.vote(days * DAY - 1.5, who, outcome, reason)
    for days, who, person, system, length, areas, yes in (
        (39, "ben", "Ben Okafor", "order archive", 7, ["Orders of last year"], True),
        (13, "priya", "Priya Nair", "payroll reports", 30, ["Totals", "Names"], False),
        (7, "ben", "Jonas Weber", "ticket history", 14, ["Tickets"], True),
    ):
        asking = play.ask(
            days * DAY,
            "access_request",
            who,
            rows.for_access,
            person,
            system,
            length,
            areas,
            "Needed for the yearly report.",
        )
        asking.vote(days * DAY - 9, "ines", "approve" if yes else "reject", "" if yes else "Ask for less")
