"""What waits today of texts, versions and access; the rest is in `today`."""

from __future__ import annotations

from approvals import comment, request_info
from examples.demo import rows
from examples.demo.papers import PHOTO
from examples.demo.play import Play

OAK = (
    "A table of oak is oiled when it leaves us. Oil it again after a year, with a cloth and a little patience. "
    "Water is no problem if it is wiped away within the hour."
)
OAK_NEW = (
    "A table of oak is oiled when it leaves us. Oil it again after half a year, with a cloth and a little patience. "
    "Water is no problem if it is wiped away within ten minutes. Wine is."
)
RETURNS = "You can return everything within 14 days. We pay the postage if something is broken."
RETURNS_NEW = (
    "You can return everything within 30 days, used or not. We pay the postage if something is broken or came late."
)
SHIPPING = "We deliver within ten working days to Germany, Austria and the Netherlands."
SHIPPING_NEW = "We deliver within seven working days to Germany, Austria, Denmark and the Netherlands."
WINTER = "From Monday to Saturday we are there from 10 to 18."
WINTER_NEW = "From Monday to Saturday we are there from 10 to 17, and on the four Sundays of Advent from 12 to 17."
CHAIR = "The chair Finch comes in beech."
CHAIR_NEW = "The chair Finch comes in beech, in oak, and in a blue that we have mixed for three years."


def plan_texts(play: Play) -> None:
    """Write them into the play."""
    plan_articles(play)
    plan_deploys(play)
    plan_access(play)


def plan_articles(play: Play) -> None:
    """Before and after, to be compared."""
    text = rows.for_article
    why = "Three customers oiled theirs too late; two used water."
    asking = play.ask(50, "text_review", "ben", text, "How to care for oak", OAK, OAK_NEW, why, papers=[PHOTO])
    asking.act(30, "ines", comment, "The last sentence is the best one.")
    why = "The new rule holds from the first of next month."
    play.ask(
        70,
        "text_review",
        "ben",
        text,
        "Returns",
        RETURNS,
        RETURNS_NEW,
        why,
        headline="Change what we promise about returns",
        place="the pages of the shop",
        warnings=["Legal has not seen it"],
    )
    why = "Denmark is new, and the depot made us quicker."
    play.ask(
        28,
        "text_review",
        "priya",
        text,
        "Delivery",
        SHIPPING,
        SHIPPING_NEW,
        why,
        headline="Promise delivery within seven days",
    )
    why = "Advent begins soon."
    play.ask(
        7, "text_review", "ben", text, "Opening hours", WINTER, WINTER_NEW, why, due="1d", place="door and website"
    )
    why = "The blue one is in the window already."
    play.ask(3, "text_review", "ines", text, "The chair Finch", CHAIR, CHAIR_NEW, why, online=False, due="6d")


def plan_deploys(play: Play) -> None:
    """Evidence, four eyes and a reason."""
    deploy = rows.for_deploy
    why = "Pay by invoice, last part. Support has waited for it since spring."
    changes = ["Customers can pay by invoice", "The basket keeps what is in it for thirty days"]
    play.ask(3.2, "deployment", "samir", deploy, "checkout", "4.1.0", "4.2.0", why, changes, replicas=6, migrations=2)
    why = "A hole in the library that reads pictures; others are attacked through it already."
    asking = play.ask(
        5.5,
        "deployment",
        "samir",
        deploy,
        "pictures",
        "1.14.2",
        "1.14.3",
        why,
        ["Newer libwebp"],
        staging="40 min",
        warnings=["It ran on staging for less than an hour"],
    )
    asking.act(5, "ana", request_info, "Can we take the uploads offline until then?")
    why = "Finds “oak” without finding “soak”."
    play.ask(1, "deployment", "samir", deploy, "search", "2.8.1", "2.9.0", why, ["Whole words first"], due="1d")
    why = "The old depot closes on Friday; labels have to carry the new address."
    play.ask(
        0.7, "deployment", "samir", deploy, "labels", "0.9.1", "0.9.2", why, ["Address of the new depot"], due="2d"
    )


def plan_access(play: Play) -> None:
    """A form with choices, days and parts."""
    ask = rows.for_access
    why = "I check the overtime of the workshop before it is paid."
    play.ask(46, "access_request", "ben", ask, "Jonas Weber", "payroll reports", 14, ["Workshop", "Totals"], why)
    why = "The auditors come on Monday and need somebody who finds things."
    play.ask(
        45,
        "access_request",
        "priya",
        ask,
        "Priya Nair",
        "the ledger",
        10,
        ["Purchases", "Accruals"],
        why,
        warnings=["The ledger holds salaries too"],
    )
    why = "I take over the tickets of Nora while she is on leave."
    asking = play.ask(
        24, "access_request", "ben", ask, "Ben Okafor", "complaints archive", 30, ["Tickets", "Photos"], why
    )
    asking.act(20, "ines", comment, "Nora’s leave ends in four weeks, so thirty days are right.")
    why = "A temp for the weeks before Christmas."
    play.ask(9, "access_request", "ines", ask, "Mila Horvat", "the till", 45, ["Sales", "Vouchers"], why)
    why = "To find out why the search is slow on Mondays."
    play.ask(
        4.5,
        "access_request",
        "samir",
        ask,
        "Samir Haddad",
        "customer profiles",
        2,
        ["Search history"],
        why,
        risk="high",
    )
    why = "New in purchasing from Monday on."
    play.ask(
        2,
        "access_request",
        "priya",
        ask,
        "Emil Sørensen",
        "supplier prices",
        90,
        ["Wood", "Metal", "Linen"],
        why,
        due="5d",
    )
    why = "I write about how many lamps we repaired."
    play.ask(30, "access_request", "ines", ask, "Ines Duarte", "repair log", 7, ["Lamps"], why, risk="low").act(
        10, "maya", request_info, "Is a yearly sum enough for the text?"
    )
