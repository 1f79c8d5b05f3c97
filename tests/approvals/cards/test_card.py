"""The card of a review: every field of it, for every kind of person, in every state, at a known cost."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from django.apps import apps
from django.contrib.auth.models import Group, Permission, User
from django.db import connection

from approvals import Outcome, Veto, claim, comment, decide, explain, nudge, withdraw
from approvals.cards.card import Card, build_card
from approvals.exceptions import NotAllowed
from approvals.models import Comment, Review, Vote
from approvals.reviews.permissions import CHECKS
from approvals.subjects.reference import digest, snapshot_again
from tests.support.review_calls import count_statements
from tests.support.worlds.cards import REFUND, People, ask, build, list_texts, read_again

pytestmark = pytest.mark.django_db

HOSTILE = "invoice\u202egpj.exe\x07 <b onclick='x'>\u200b\u2066"


def grant(user: User, codename: str) -> None:
    user.user_permissions.add(Permission.objects.get(codename=codename))


# --- every field ------------------------------------------------------------------------------------------


def test_a_card_says_what_will_happen_to_whom_who_asked_and_by_which_rule(asked: Review, people: People) -> None:
    card = build(asked, people.ann)
    assert (card.id, card.title) == (asked.pk, REFUND)
    assert (card.workflow, card.step, card.workspace) == ("cards-refund", "ask", "default")
    assert (card.status, card.requester, card.who) == ("open", "Ben Okafor", "Finance")
    assert (card.risk, card.risk_label) == ("medium", "Medium risk")
    assert card.rule == "2 equal answers decide."
    assert card.four_eyes.startswith("Four eyes: neither Ben Okafor, who asked,")
    assert card.told.startswith("Waiting for Finance since ")
    assert card.told.endswith(", 0 of 2 approved")
    assert [(one.label, one.votes, one.needed) for one in card.progress] == [("", 0, 2)]
    assert (card.version, card.claimed_by, card.answer) == (1, "", None)
    assert (card.effective_at, card.decided_at, card.closed_at) == (None, None, None)


def test_a_card_says_until_when_and_what_happens_then(asked: Review, people: People) -> None:
    card = build(asked, people.ann)
    assert card.asked_at == asked.created_at
    assert card.due_at == asked.created_at + timedelta(days=2)
    assert card.deadline == asked.created_at + timedelta(days=7)
    assert [(ending.what, ending.at) for ending in card.endings] == [
        ("Ben Okafor is asked as well", asked.created_at + timedelta(days=3)),
        ("Answered “Turn down” automatically", asked.created_at + timedelta(days=4)),
    ]
    assert card.what_then.startswith("Ben Okafor is asked as well on ")
    assert "Answered “Turn down” automatically on " in card.what_then
    without = build(ask(groups=["Finance"], timeout=None), people.ann)
    assert (without.deadline, without.what_then) == (None, "It waits until somebody decides.")
    timed = build(ask(groups=["Finance"], timeout="1d"), people.ann)
    assert timed.what_then.startswith("The wait ends without an answer tomorrow at ")
    # What would come after the end of the wait does not come.
    cut = build(ask(groups=["Finance"], timeout="1d", escalate=[("2d", ("outcome", "reject"))]), people.ann)
    assert cut.what_then.startswith("The wait ends without an answer")


def test_a_card_shows_what_changes_and_what_was_sent_along_in_words(asked: Review, people: People) -> None:
    card = build(asked, people.ann)
    assert card.subject is not None
    assert (card.subject.text, card.subject.url) == ("Order A-20718", None)
    assert [(row.label, row.before.text, row.after.text) for row in card.diff] == [
        ("Amount", "€1,240.00", "€99.50"),
        ("Urgent", "No", "Yes"),
        ("Due", "—", "Dec. 1, 2026"),
    ]
    assert card.drift == ()
    fields = apps.get_model(asked.subject_model)._meta.concrete_fields
    assert card.unchanged == sum(one.editable and not one.primary_key for one in fields) - 3
    assert {fact.label: fact.value.text for fact in card.facts} == {
        "Order › Number": "A-20718",  # noqa: RUF001 - the sign between a name and one within it
        "Order › Paid": "Yes",  # noqa: RUF001
        "Amount": "€1,240.00",
    }
    assert [(one["kind"], one["label"], one["url"], one["text"]) for one in card.evidence] == [
        ("link", "Invoice", "https://shop.example/7", "shop.example"),
        ("fact", "Earlier refunds", None, "2"),
    ]
    assert card.raw["change"] == {"amount": "99.50", "urgent": True, "due": "2026-12-01"}
    assert '"number": "A-20718"' in card.raw_request
    assert card.schema == {"type": "object", "properties": {"note": {"type": "string"}}}
    assert card.seen == asked.digest != ""


def test_a_secret_is_on_no_card(people: People) -> None:
    review = ask(groups=["Finance"], request={"password": "canary", "inner": {"api_key": "canary"}, "order": 7})
    card = build(review, people.ann)
    assert not [text for text in list_texts(card) if "canary" in text]
    assert ("Password", "••••••") in {(fact.label, fact.value.text) for fact in card.facts}
    assert "canary" not in card.raw_request


def test_buttons_have_label_tone_reasons_and_what_is_in_their_way(asked: Review, people: People) -> None:
    approve, reject = build(asked, people.ann).outcomes
    assert (approve.name, approve.label, approve.tone, approve.requires_reason) == (
        "approve",
        "Approve",
        "positive",
        False,
    )
    assert (reject.label, reject.requires_reason, reject.presets) == ("Turn down", True, ("No receipt",))
    assert (approve.obstacle, reject.obstacle) == ("", "")
    card = build(asked, people.ben)
    assert {one.obstacle for one in card.outcomes} == {
        "You can’t decide because you are not among those asked. Finance can."
    }
    assert (card.may_decide, card.obstacle) == (False, card.outcomes[0].obstacle)
    high = build(ask(groups=["Finance"], risk="high"), people.ann)
    assert [one.requires_reason for one in high.outcomes] == [True, True]


def test_a_button_gives_the_sentence_that_the_refusal_would_give(asked: Review, people: People) -> None:
    decide(asked, "approve", actor=people.ann, data={})
    for user in (people.ann, people.ben):
        told = {one.obstacle for one in build(asked, user).outcomes}
        with pytest.raises(NotAllowed) as refused:
            decide(asked, "approve", actor=user, data={})
        assert told == {str(refused.value)}


def test_every_action_is_there_and_says_why_not(asked: Review, people: People) -> None:
    for user in (people.ann, people.ben):
        card = build(asked, user)
        assert card.actions.keys() == CHECKS.keys()
        why = {name: "" if one is None else one.message for name, one in explain(asked, user).items()}
        assert card.actions == why
    assert build(asked, people.ann).actions["claim"] == ""
    assert build(asked, people.ann).actions["nudge"] == "Only who asked for this can remind those asked."


def test_who_has_claimed_it_is_named(asked: Review, people: People) -> None:
    claim(asked, actor=people.cid)
    card = build(asked, people.ann)
    assert card.claimed_by == "Cid Campos"
    assert card.obstacle == "Cid Campos has claimed this. Others can decide once it is released."
    assert build(asked, people.cid).may_decide


def test_many_names_are_counted(people: People) -> None:
    users = [User.objects.create_user(f"user{number}") for number in range(40)]
    card = build(ask(assignees=users, quorum=3), people.ann)
    assert card.who == "user0, user1, user2, user3, user4 or 35 more"


# --- the requester, and nobody in particular -----------------------------------------------------------------


def test_the_requester_sees_how_it_stands_and_what_may_be_done(asked: Review, people: People) -> None:
    decide(asked, "approve", actor=people.ann, data={})
    card = build(asked, people.ben)
    assert card.told.endswith(", 1 of 2 approved")
    assert not card.may_decide
    assert (card.actions["nudge"], card.actions["withdraw"]) == ("", "")
    assert [(entry.who, entry.what) for entry in card.timeline] == [
        ("Ann Archer", "approved"),
        ("You", "asked for this"),
    ]


def test_for_nobody_in_particular_there_is_nothing_to_do_and_nothing_from_before(asked: Review, people: People) -> None:
    decide(ask(groups=["Finance"]), "approve", actor=people.ann)
    card = build(asked, None)
    assert card.actions == {}
    assert card.similar == ()
    assert [one.obstacle for one in card.outcomes] == ["", ""]
    decide(asked, "approve", actor=people.ann, data={})
    decide(asked, "approve", actor=people.cid, data={})
    card = build(asked, None)
    assert card.status == "decided"
    assert all("has decided this already" in one.obstacle for one in card.outcomes)


def test_a_link_to_the_subject_is_for_those_who_may_follow_it(asked: Review, people: People, settings: Any) -> None:
    about = ask(groups=["Finance"], subject=people.finance)
    assert build(about, people.ann).subject == build(about, None).subject
    people.ann.is_staff = True
    people.ann.save()
    grant(people.ann, "view_group")
    subject = build(about, people.ann).subject
    assert subject is not None
    assert subject.url == f"/admin/auth/group/{people.finance.pk}/change/"


# --- what has changed, what was before ------------------------------------------------------------------------


def test_what_changed_since_it_was_asked_for_stands_beside_what_is_asked(
    asked: Review, people: People, shop: Any
) -> None:
    order = shop.Order.objects.get()
    order.amount = 7
    order.save()
    card = build(asked, people.ann)
    assert [(row.label, row.before.text, row.after.text) for row in card.drift] == [("Amount", "€1,240.00", "€7.00")]
    assert card.seen == digest(snapshot_again(order, asked.snapshot or {}), asked.change or {}) != asked.digest


def test_a_subject_that_is_gone_is_said_to_be_gone(asked: Review, people: People, shop: Any) -> None:
    shop.Order.objects.all().delete()
    card = build(asked, people.ann)
    assert card.subject is not None
    assert (card.subject.text, card.subject.missing) == ("Order A-20718", True)
    assert [row.kind for row in card.drift] == ["gone"]
    assert card.seen == ""
    assert card.diff != ()
    with connection.cursor() as cursor:  # as after an app was removed
        cursor.execute("UPDATE holdpoint_review SET subject_model = 'gone.order' WHERE id = %s", [asked.pk])
    card = build(asked, people.ann)
    assert card.subject is not None
    assert card.subject.missing
    assert [row.label for row in card.diff] == ["Amount", "Due", "Urgent"]


def test_people_and_groups_that_are_gone_are_called_former(asked: Review, people: People) -> None:
    comment(asked, "Soon?", actor=people.ben)
    decide(asked, "approve", actor=people.ann, data={})
    claim(asked, actor=people.cid)
    people.ben.delete()
    people.ann.delete()
    people.cid.delete()
    people.finance.delete()
    card = build(asked, people.dee)
    assert (card.requester, card.who, card.claimed_by) == ("a former user", "a former group", "a former user")
    assert {entry.who for entry in card.timeline} == {"a former user"}
    assert card.told.startswith("Waiting for a former group since ")


def test_what_was_decided_before_in_such_cases_is_shown_to_those_who_may_see_it(people: People) -> None:
    for number in range(5):
        decide(ask(f"Refund {number}", groups=["Finance"]), "approve", actor=people.ann)
    decide(ask("Refund 5", assignees=[people.dee]), "reject", actor=people.dee)
    withdraw(ask("Refund 6", groups=["Finance"], requester=people.ben), actor=people.ben)
    decide(ask("Refund 7", groups=["Finance"]), "approve", actor=people.ann, grace=True)
    review = ask("Refund 8", groups=["Finance"])
    similar = build(review, people.cid).similar
    assert [(one.title, one.outcome_label) for one in similar] == [(f"Refund {n}", "Approve") for n in (4, 3, 2)]
    assert [one.title for one in build(review, people.dee).similar] == ["Refund 5", "Refund 4", "Refund 3"]
    assert build(review, people.ben).similar == ()
    about = ask(groups=["Finance"], subject=people.finance)
    assert build(about, people.cid).similar == ()  # another kind of thing
    # What was decided later was nobody's example.
    decide(review, "reject", actor=people.ann)
    decide(ask("Refund 9", groups=["Finance"]), "approve", actor=people.ann)
    assert [one.title for one in build(read_again(review), people.cid).similar] == ["Refund 4", "Refund 3", "Refund 2"]


# --- counting ---------------------------------------------------------------------------------------------


def test_progress_is_counted_by_group_by_share_and_beside_a_veto(people: People) -> None:
    legal = Group.objects.create(name="Legal")
    legal.user_set.add(people.ben)
    review = ask(groups=["Finance"], quorum={"Finance": 2, "Legal": "all"})
    decide(review, "approve", actor=people.ann)
    card = build(review, people.cid)
    assert [(one.label, one.votes, one.needed, one.text) for one in card.progress] == [
        ("Finance", 1, 2, "Finance: 1 of 2 approved"),
        ("Legal", 0, 1, "Legal: 0 of 1 approved"),
    ]
    share = build(ask(groups=["Finance"], quorum="50%"), people.cid)
    assert [(one.votes, one.needed) for one in share.progress] == [(0, 2)]
    split = ask(groups=["Finance"], quorum=Veto(3, ["reject"]), outcomes=("approve", "later", "reject"))
    decide(split, "later", actor=people.ann)
    decide(split, "approve", actor=people.cid)
    assert [one.text for one in build(split, people.dee).progress] == ["1 of 3 approved, 1 “Later”"]


# --- cost, and hostile texts -----------------------------------------------------------------------------------


def test_a_card_costs_the_same_however_much_has_happened(asked: Review, people: People) -> None:
    decide(asked, "approve", actor=people.ann, data={})
    comment(asked, "Soon?", actor=people.ben)
    nudge(asked, actor=people.ben)
    viewer = User.objects.get(pk=people.cid.pk)

    def count() -> int:
        review = read_again(asked)
        return len(count_statements(lambda: build_card(review, viewer)))

    assert count() <= 10  # the first one also asks for the viewer's permissions, as the first of a request does
    # The review with candidates, votes, comments and history; the names of people, and of groups; what it is about;
    # who looks (workspaces; groups, rules and absences); what was decided in cases like this;
    # other changes of it that wait.
    assert count() == 8
    for number in range(30):
        other = User.objects.create_user(f"other{number}")
        people.finance.user_set.add(other)
        comment(asked, f"Comment {number}", actor=other)
        with pytest.raises(NotAllowed):
            decide(asked, "approve", actor=people.ben, data={})
    assert Comment.objects.count() == 31
    assert count() == 8
    again = read_again(asked)
    assert len(count_statements(lambda: build_card(again, None))) == 4


def test_no_text_of_others_can_hide_or_reorder_anything(people: People) -> None:
    people.ben.first_name = HOSTILE
    people.ben.save()
    people.finance.name = HOSTILE
    people.finance.save()
    review = ask(
        f"Pay {HOSTILE}",
        groups=[HOSTILE],
        quorum=2,
        requester=people.ben,
        request={HOSTILE: HOSTILE, "list": [HOSTILE, {HOSTILE: HOSTILE}], "url": "javascript:alert(1)"},
        evidence=[(HOSTILE, HOSTILE)],  # addresses with such characters are refused
        outcomes=("approve", Outcome("reject", HOSTILE, presets=(HOSTILE,))),
    )
    comment(review, HOSTILE, actor=people.ben)
    decide(review, "reject", actor=people.ann, reason=HOSTILE)
    for user in (people.ann, people.cid, people.ben, None):
        card = build(review, user)
        unsafe = {sign for text in list_texts({**_as_dict(card), "raw": None}) for sign in text} & set(
            "\u202e\x07\u200b\u2066"
        )
        assert not unsafe
        assert not [one for one in card.evidence if one["url"]]
        assert not [fact for fact in card.facts if fact.value.url]
        assert "\u202e" not in card.raw_request
    assert Vote.objects.get().reason == HOSTILE  # what is kept is what was written


def _as_dict(card: Card) -> dict[str, Any]:
    return {name: getattr(card, name) for name in Card.__dataclass_fields__}
