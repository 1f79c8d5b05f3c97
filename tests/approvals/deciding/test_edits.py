"""What an approver fills in is part of the vote: everybody sees it, and votes are equal only with equal data.

A vote with other data puts these on the table: earlier approvals no longer stand, whoever gave them is asked again, and
the answer holds what everybody counted agreed to.
"""

from __future__ import annotations

import doctest
import random
from dataclasses import dataclass
from decimal import Decimal
from importlib import import_module
from typing import Any

import pytest
from django.contrib.auth.models import User

from approvals import NotAllowed, Outcome, Stale, Veto, decide, undo
from approvals.cards.card import build_card
from approvals.deciding.undo_window import carry_out
from approvals.models import Review, Vote
from approvals.rules.door import Door
from tests.support import review_calls
from tests.support.edited_values import ASKED, EDITED, FORM
from tests.support.review_calls import (
    again,
    answers,
    ask,
    grant,
    list_calls,
    list_events,
    list_notices,
    list_standing,
    make_person,
    truth,  # noqa: F401 (a fixture)
)
from workflows import InvalidData
from workflows.testing import advance, assert_awaiting, assert_done, drain

pytestmark = pytest.mark.django_db

PAGE = Door("page")


@pytest.fixture
def people() -> dict[str, User]:
    return {name: make_person(name, "Legal") for name in ("maya", "lena", "tom")}


@pytest.fixture
def maya(people: dict[str, User]) -> User:
    return people["maya"]


@pytest.fixture
def lena(people: dict[str, User]) -> User:
    return people["lena"]


@pytest.fixture
def tom(people: dict[str, User]) -> User:
    return people["tom"]


def ask_all(**options: Any) -> Review:
    return ask(**{"groups": ["Legal"], "schema": FORM, "quorum": 2, **options})


def list_data(review: Review) -> list[Any]:
    return [vote.data for vote in Vote.objects.filter(review=review, standing=True).order_by("at")]


# --- equal only with equal data -----------------------------------------------------------------------------


def test_an_edit_makes_earlier_approvals_fall_and_the_answer_is_what_all_agreed_to(maya: User, lena: User) -> None:
    review = ask_all()
    decide(review, "approve", actor=lena, data=ASKED)
    assert decide(review, "approve", actor=maya, data=EDITED).state == "open"
    assert list_standing(review) == [(f"user:{maya.pk}", "approve")]
    assert_awaiting(review.instance_id)
    assert decide(review, "approve", actor=lena, data=EDITED).state == "decided"
    drain()
    [answer] = answers
    assert answer is not None
    assert answer.data == EDITED
    assert [(one.actor, one.data) for one in answer.decisions] == [
        (f"user:{maya.pk}", EDITED),
        (f"user:{lena.pk}", EDITED),
    ]


@pytest.mark.parametrize(
    "other", [{"months": 12, "value": 9600.0}, {"months": 12.0, "value": 9600}, {"value": 9.6e3, "months": 12}]
)
def test_numbers_and_the_order_of_keys_make_no_difference(maya: User, lena: User, other: Any) -> None:
    review = ask_all()
    decide(review, "approve", actor=maya, data=ASKED)
    assert decide(review, "approve", actor=lena, data=other).state == "decided"


def test_a_truth_value_is_no_number(maya: User, lena: User) -> None:
    review = ask_all(schema={"type": "object", "properties": {"a": {}}})
    decide(review, "approve", actor=maya, data={"a": 1})
    assert decide(review, "approve", actor=lena, data={"a": True}).state == "open"


@dataclass
class Payment:
    amount: Decimal
    note: str = ""


def test_data_are_compared_as_the_class_of_the_schema_makes_of_them(maya: User, lena: User) -> None:
    review = ask_all(schema=Payment)
    decide(review, "approve", actor=maya, data={"amount": "9000"})
    assert decide(review, "approve", actor=lena, data={"amount": "9000.00", "note": ""}).state == "decided"
    drain()
    assert answers[-1] is not None
    assert answers[-1].data == Payment(Decimal(9000))
    assert [one.data for one in answers[-1].decisions] == [Payment(Decimal(9000))] * 2


def test_the_first_vote_that_leaves_the_form_as_it_was_asked_changes_nothing(maya: User) -> None:
    review = ask_all()
    decide(review, "approve", actor=maya, data=ASKED)
    assert again(review).version == 1
    [vote] = Vote.objects.filter(review=review)
    assert (vote.changed_from, vote.version) == (None, 1)


def test_the_first_vote_that_edits_puts_its_data_on_the_table(maya: User) -> None:
    review = ask_all()
    decide(review, "approve", actor=maya, data=EDITED)
    assert again(review).version == 2
    [vote] = Vote.objects.filter(review=review)
    assert (vote.changed_from, vote.version) == ({"data": ASKED}, 2)


def test_who_fell_is_asked_again_once_and_it_stands_in_the_history(maya: User, lena: User) -> None:
    review = ask_all()
    decide(review, "approve", actor=lena, data=ASKED)
    decide(review, "approve", actor=maya, data=EDITED, reason="Agreed on the phone")
    [notice] = list_notices(review, "edited")
    assert notice.to == [f"user:{lena.pk}"]
    assert Review.objects.for_user(lena).filter(pk=review.pk).exists()
    first, second = list_events(review, "voted")
    assert "fallen" not in first.data
    [fallen] = Vote.objects.filter(review=review, standing=False)
    assert (second.data["edited"], second.data["fallen"]) == (True, [str(fallen.pk)])
    assert fallen.user_id == lena.pk
    assert Vote.objects.filter(review=review).count() == 2  # nothing is deleted


def test_a_fallen_approver_may_say_no_as_well(maya: User, lena: User) -> None:
    review = ask_all(quorum=Veto(2))
    decide(review, "approve", actor=lena, data=ASKED)
    decide(review, "approve", actor=maya, data=EDITED)
    assert decide(review, "reject", actor=lena).outcome == "reject"
    drain()
    assert answers[-1] is not None
    assert answers[-1].data is None
    assert [one.data for one in answers[-1].decisions] == [EDITED, None]


def test_who_says_no_needs_no_data_and_changes_nothing_on_the_table(maya: User, lena: User, tom: User) -> None:
    review = ask_all(quorum=2)
    decide(review, "approve", actor=maya, data=EDITED)
    version = again(review).version
    decide(review, "reject", actor=tom, data={"value": 1, "months": 1})
    assert again(review).version == version
    assert len(list_standing(review)) == 2
    assert decide(review, "approve", actor=lena, data=EDITED).outcome == "approve"


def test_those_who_say_no_need_not_agree_on_figures(maya: User, lena: User) -> None:
    review = ask_all(outcomes=("approve", "request_changes", "reject"))
    decide(review, "request_changes", actor=maya, data=EDITED)
    assert decide(review, "request_changes", actor=lena, data=ASKED).outcome == "request_changes"
    drain()
    assert answers[-1] is not None
    assert (answers[-1].data, [one.data for one in answers[-1].decisions]) == (None, [EDITED, ASKED])


def test_two_ways_of_saying_yes_agree_on_the_same_data(maya: User, lena: User, tom: User) -> None:
    review = ask_all(outcomes=("approve", Outcome("sign_later", tone="positive"), "reject"), quorum=2)
    decide(review, "sign_later", actor=lena, data=ASKED)
    decide(review, "approve", actor=maya, data=EDITED)
    assert list_data(review) == [EDITED]
    assert decide(review, "approve", actor=tom, data=EDITED).outcome == "approve"


# --- every kind of rule -------------------------------------------------------------------------------------


@pytest.mark.parametrize("quorum", [3, "100%", "all", {"Legal": 3}, Veto(3), Veto({"Legal": "all"})])
def test_by_every_rule_all_have_to_agree_to_the_same_data(maya: User, lena: User, tom: User, quorum: Any) -> None:
    review = ask_all(quorum=quorum)
    for person, data in ((lena, ASKED), (tom, ASKED), (maya, EDITED), (tom, EDITED)):
        assert decide(review, "approve", actor=person, data=data).state == "open"
    assert decide(review, "approve", actor=lena, data=EDITED).state == "decided"
    drain()
    assert answers[-1] is not None
    assert answers[-1].data == EDITED


def test_an_edit_of_one_group_asks_the_other_group_again(maya: User) -> None:
    fin = make_person("fin", "Finance")
    review = ask_all(quorum={"Legal": 1, "Finance": 1})
    decide(review, "approve", actor=fin, data=ASKED)
    assert decide(review, "approve", actor=maya, data=EDITED).state == "open"
    assert [one.to for one in list_notices(review, "edited")] == [[f"user:{fin.pk}"]]
    assert decide(review, "approve", actor=fin, data=EDITED).state == "decided"


def test_one_vote_decides_with_what_it_filled_in(maya: User) -> None:
    review = ask_all(quorum=1)
    assert decide(review, "approve", actor=maya, data=EDITED).state == "decided"
    assert again(review).version == 1


# --- bound to what was shown --------------------------------------------------------------------------------


def test_a_stale_voter_is_told_the_difference_and_nothing_changes(maya: User, lena: User) -> None:
    review = ask_all()
    decide(review, "approve", actor=maya, data=EDITED)
    with pytest.raises(Stale) as refused:
        decide(review, "approve", actor=lena, data=ASKED, version=1)
    assert refused.value.difference == {"Value": ("9,600", "9,000")}
    assert list_data(review) == [EDITED]


def test_the_difference_is_that_to_what_was_on_this_persons_page(maya: User, lena: User, tom: User) -> None:
    review = ask_all(quorum=3)
    decide(review, "approve", actor=maya, data=EDITED)
    decide(review, "approve", actor=lena, data={"value": 8000, "months": 12})
    for version, before in ((1, "9,600"), (2, "9,000")):
        with pytest.raises(Stale) as refused:
            decide(review, "approve", actor=tom, data=ASKED, version=version)
        assert refused.value.difference == {"Value": (before, "8,000")}
    assert decide(review, "approve", actor=tom, data={"value": 8000, "months": 12}, version=3).state == "open"


def test_when_the_subject_changes_the_edit_falls_and_every_difference_told_is_true(
    maya: User, lena: User, tom: User, shop: Any
) -> None:
    order = shop.Order.objects.create(code="A-1", amount="40.00")
    review = ask_all(subject=order, quorum=3)
    decide(review, "approve", actor=lena, data=ASKED)
    decide(review, "approve", actor=maya, data=EDITED)

    def vote(version: int) -> list[str]:
        with pytest.raises(Stale) as refused:
            decide(review, "approve", actor=tom, data=EDITED, version=version)
        return [*refused.value.difference]

    shop.Order.objects.update(amount="400.00")
    assert vote(2) == ["Amount"]
    card = build_card(again(review), tom)
    assert (card.edit, card.version, list_standing(review)) == (None, 3, [])
    assert vote(2) == ["Value"]  # of what stood on that page, the edit is gone
    shop.Order.objects.update(amount="401.00")
    assert vote(3) == ["Amount"]
    assert vote(3) == []  # that page showed no edit
    assert vote(1) == []
    decide(review, "approve", actor=maya, data=EDITED, version=4)
    assert vote(4) == vote(3) == ["Value"]


def test_without_a_version_the_data_are_the_vote(maya: User, lena: User) -> None:
    review = ask_all()
    decide(review, "approve", actor=maya, data=EDITED)
    assert decide(review, "approve", actor=lena, data=ASKED).state == "open"
    assert list_data(review) == [ASKED]


def test_without_data_who_has_seen_it_agrees_to_what_is_on_the_table(maya: User, lena: User) -> None:
    review = ask_all()
    decide(review, "approve", actor=maya, data=EDITED)
    with pytest.raises(InvalidData):
        decide(review, "approve", actor=lena)
    with pytest.raises(Stale):
        decide(review, "approve", actor=lena, version=1)
    assert decide(review, "approve", actor=lena, version=2).state == "decided"
    drain()
    assert answers[-1] is not None
    assert answers[-1].data == EDITED


def test_without_data_nothing_is_agreed_to_where_nobody_has_filled_in_anything(maya: User) -> None:
    with pytest.raises(InvalidData):
        decide(ask_all(), "approve", actor=maya, version=1)


def test_high_risk_takes_a_look_at_the_change(maya: User, lena: User) -> None:
    review = ask_all(risk="high")
    seen = Door("page", saw_diff=True)
    decide(review, "approve", actor=maya, data=EDITED, reason="x", version=1, door=seen)
    with pytest.raises(Stale):
        decide(review, "approve", actor=lena, data=ASKED, reason="x", version=1, door=seen)
    with pytest.raises(NotAllowed):
        decide(review, "approve", actor=lena, data=EDITED, reason="x", version=2, door=Door("page", saw_diff=False))
    assert decide(review, "approve", actor=lena, data=EDITED, reason="x", version=2, door=seen).state == "decided"


# --- taking back --------------------------------------------------------------------------------------------


def test_undoing_an_edit_brings_back_what_stood_before(maya: User, lena: User, tom: User) -> None:
    review = ask_all(quorum=3)
    decide(review, "approve", actor=lena, data=ASKED)
    decide(review, "approve", actor=tom, data=ASKED)
    decide(review, "approve", actor=maya, data=EDITED)
    version = again(review).version
    undo(review, actor=maya)
    assert sorted(list_standing(review)) == sorted([(f"user:{lena.pk}", "approve"), (f"user:{tom.pk}", "approve")])
    assert again(review).version == version + 1
    [taken] = list_events(review, "reversed")
    assert len(taken.data["restored"]) == 2
    with pytest.raises(Stale) as refused:
        decide(review, "approve", actor=maya, data=EDITED, version=version)
    assert refused.value.difference == {"Value": ("9,000", "9,600")}
    assert decide(review, "approve", actor=maya, data=ASKED).state == "decided"


def test_whoever_has_voted_again_meanwhile_counts_once(maya: User, lena: User, tom: User) -> None:
    make_person("pia", "Legal")
    review = ask_all(quorum=3)
    decide(review, "approve", actor=lena, data=ASKED)
    decide(review, "approve", actor=tom, data=ASKED)
    decide(review, "approve", actor=maya, data=EDITED)
    decide(review, "reject", actor=tom)
    undo(review, actor=maya)
    assert list_standing(review) == [(f"user:{lena.pk}", "approve"), (f"user:{tom.pk}", "reject")]


def test_an_edit_that_others_agreed_to_stays_when_its_author_leaves_it(maya: User, lena: User, tom: User) -> None:
    review = ask_all(quorum=3)
    decide(review, "approve", actor=lena, data=ASKED)
    decide(review, "approve", actor=maya, data=EDITED)
    decide(review, "approve", actor=tom, data=EDITED)
    version = again(review).version
    undo(review, actor=maya)
    assert list_standing(review) == [(f"user:{tom.pk}", "approve")]
    assert (list_data(review), again(review).version) == ([EDITED], version)


def test_edits_are_undone_one_by_one(maya: User, lena: User, tom: User) -> None:
    review = ask_all(quorum=3)
    lowest = {"value": 1, "months": 12}
    decide(review, "approve", actor=lena, data=ASKED)
    decide(review, "approve", actor=maya, data=EDITED)
    decide(review, "approve", actor=tom, data=lowest)
    undo(review, actor=tom)
    assert list_data(review) == [EDITED]
    undo(review, actor=maya)
    assert list_standing(review) == [(f"user:{lena.pk}", "approve")]


def test_within_its_grace_a_closing_edit_is_undone_with_all_it_did(maya: User, lena: User) -> None:
    review = ask_all(groups=[], assignees=["lena", "maya"], quorum="all")
    decide(review, "approve", actor=lena, data=ASKED)
    User.objects.filter(pk=lena.pk).update(is_active=False)
    recorded = decide(review, "approve", actor=maya, data=EDITED, grace=True, door=PAGE)
    assert recorded.state == "grace"  # who has left is not waited for
    undo(review, actor=maya)
    assert list_standing(review) == [(f"user:{lena.pk}", "approve")]
    assert list_notices(review, "edited") == []


def test_an_edit_is_carried_out_after_its_grace(maya: User) -> None:
    review = ask_all(quorum=1, on_decision=review_calls.note_call)
    decide(review, "approve", actor=maya, data=EDITED, grace=True, door=PAGE)
    advance("10s")
    assert [answer.data for answer, _ in list_calls()] == [EDITED]
    assert_done(review.instance_id)


def test_a_closing_vote_that_agrees_is_undone_and_the_edit_stays(maya: User, lena: User) -> None:
    review = ask_all()
    decide(review, "approve", actor=maya, data=EDITED)
    decide(review, "approve", actor=lena, data=EDITED, version=2, grace=True, door=PAGE)
    undo(review, actor=lena)
    assert list_data(review) == [EDITED]
    assert again(review).version == 2
    assert not carry_out(review.pk)


# --- others who take part -----------------------------------------------------------------------------------


def test_an_override_with_other_data_is_no_agreement_of_those_before(lena: User) -> None:
    review = ask_all()
    boss = grant(make_person("boss"), "override_review")
    decide(review, "approve", actor=lena, data=ASKED)
    decide(review, "approve", actor=boss, data=EDITED, reason="now", override=True)
    drain()
    assert answers[-1] is not None
    assert [(one.actor, one.data) for one in answers[-1].decisions] == [(f"user:{boss.pk}", EDITED)]
    assert list_notices(review, "edited") == []  # nothing is asked of anybody any more


def test_who_overrides_their_own_edit_leaves_no_vote_twice(maya: User, lena: User) -> None:
    boss = grant(maya, "override_review")
    review = ask_all(quorum=3)
    decide(review, "approve", actor=lena, data=ASKED)
    decide(review, "approve", actor=boss, data=EDITED)
    decide(review, "approve", actor=boss, data=ASKED, reason="as asked", override=True)
    drain()
    assert answers[-1] is not None
    assert answers[-1].data == ASKED


def test_a_share_that_was_handed_on_falls_and_is_asked_again(maya: User, lena: User) -> None:
    from approvals import delegate

    out = make_person("out")
    review = ask(assignees=["lena", "maya"], schema=FORM, quorum=2)
    delegate(review, to=out, actor=lena)
    decide(review, "approve", actor=out, data=ASKED)
    decide(review, "approve", actor=maya, data=EDITED)
    assert [one.to for one in list_notices(review, "edited")] == [[f"user:{out.pk}"]]
    assert decide(review, "approve", actor=out, data=EDITED).state == "decided"


def test_the_requester_is_still_kept_out_after_an_edit(maya: User, lena: User) -> None:
    review = ask_all(requester=lena, quorum=1)
    with pytest.raises(NotAllowed):
        decide(review, "approve", actor=lena, data=EDITED)
    assert decide(review, "approve", actor=maya, data=EDITED).state == "decided"


def test_a_rung_of_the_ladder_leaves_the_edit_on_the_table(maya: User, lena: User) -> None:
    boss = make_person("boss", "Directors")
    review = ask_all(escalate=[("1h", ("add", "Directors"))])
    decide(review, "approve", actor=maya, data=EDITED)
    advance("2h")
    card = build_card(again(review), boss)
    assert card.may_decide
    assert card.filled == EDITED
    assert decide(review, "approve", actor=boss, version=2).state == "decided"


def test_when_somebody_leaves_the_votes_that_count_agree(maya: User, lena: User, tom: User) -> None:
    review = ask_all(quorum="all")
    decide(review, "approve", actor=lena, data=ASKED)
    decide(review, "approve", actor=maya, data=EDITED)
    User.objects.filter(pk__in=[tom.pk, lena.pk]).update(is_active=False)
    advance("6m")
    assert_done(review.instance_id)
    assert answers[-1] is not None
    assert answers[-1].data == EDITED


@pytest.mark.parametrize("module", ["forms.form_values"])
def test_what_the_docstrings_say_is_so(module: str) -> None:
    ran = doctest.testmod(import_module(f"approvals.{module}"))
    assert ran.attempted > 0
    assert ran.failed == 0


# --- what everybody sees ------------------------------------------------------------------------------------


def list_shifts(changes: Any) -> list[tuple[str, str, str]]:
    return [(one.label, one.before.text, one.after.text) for one in changes]


def test_card_and_history_show_the_edit_to_everybody(maya: User, lena: User, tom: User) -> None:
    review = ask_all(quorum=3)
    decide(review, "approve", actor=lena, data=ASKED)
    decide(review, "approve", actor=maya, data=EDITED, reason="Agreed on the phone")
    card = build_card(again(review), tom)
    assert card.edit is not None
    assert (card.edit.by, card.edit.fallen, card.edit.reason) == ("Maya", "Lena", "Agreed on the phone")
    assert list_shifts(card.edit.changes) == [("Value", "9,600", "9,000")]
    assert card.filled == EDITED
    assert list_shifts(card.settings) == [("Value", "9,600", "9,000"), ("Months", "12", "12")]
    edit, fallen, _ = card.timeline
    assert (edit.who, edit.what, list_shifts(edit.changes)) == (
        "Maya",
        "approved with changes",
        [("Value", "9,600", "9,000")],
    )
    assert (fallen.who, fallen.what, fallen.is_void) == ("Lena", "approved", True)


def test_what_the_form_sets_stands_there_before_any_vote(maya: User) -> None:
    access = {
        "type": "object",
        "properties": {
            "until": {"type": "string", "format": "date", "title": "Until"},
            "level": {"enum": ["read", "write"], "title": "Level", "default": "read"},
            "note": {"type": "string", "title": "Note"},
            "api_key": {"type": "string", "default": "hunter2"},
        },
        "required": ["until", "level"],
    }
    card = build_card(ask(assignees=["maya"], schema=access), maya)
    assert [(one.label, one.after.text) for one in card.settings] == [
        ("Until", "as you fill it in"),
        ("Level", "read"),
        ("Api key", "••••••"),
    ]
    assert card.edit is None


def test_the_history_tells_that_an_edit_was_taken_back(maya: User, lena: User) -> None:
    review = ask_all(quorum=3)
    decide(review, "approve", actor=lena, data=ASKED)
    decide(review, "approve", actor=maya, data=EDITED)
    undo(review, actor=maya)
    card = build_card(again(review), maya)
    assert card.edit is None
    taken = card.timeline[0]
    assert (taken.what, list_shifts(taken.changes)) == ("took back “Approve”", [("Value", "9,000", "9,600")])
    assert not any(one.is_void for one in card.timeline)


def test_an_amount_is_told_with_its_currency(maya: User, lena: User) -> None:
    schema = {
        "type": "object",
        "properties": {
            "amount": {"type": "string", "format": "decimal", "default": "9600.00", "title": "Value"},
            "currency": {"const": "EUR"},
        },
        "required": ["amount", "currency"],
    }
    review = ask_all(schema=schema)
    decide(review, "approve", actor=maya, data={"amount": "9000.00", "currency": "EUR"})
    card = build_card(again(review), lena)
    assert card.edit is not None
    assert list_shifts(card.edit.changes) == [("Value", "€9,600.00", "€9,000.00")]


def test_an_edit_whose_author_left_it_is_shown_as_that_of_who_agreed(maya: User, lena: User, tom: User) -> None:
    review = ask_all(quorum=3)
    decide(review, "approve", actor=lena, data=ASKED)
    decide(review, "approve", actor=maya, data=EDITED)
    decide(review, "approve", actor=tom, data=EDITED)
    undo(review, actor=maya)
    card = build_card(again(review), lena)
    assert card.edit is not None
    assert (card.edit.by, list_shifts(card.edit.changes)) == ("Tom", [("Value", "9,600", "9,000")])
    assert card.told.endswith("changed by Tom")


def test_who_agrees_to_what_was_asked_has_changed_nothing(maya: User, lena: User) -> None:
    review = ask_all()
    decide(review, "approve", actor=maya, data={"months": 12.0, "value": 9600})
    card = build_card(again(review), lena)
    assert (card.edit, card.timeline[0].changes) == (None, ())


def test_who_fills_in_an_empty_form_has_changed_nothing(maya: User, lena: User) -> None:
    review = ask_all(
        schema={"type": "object", "properties": {"host": {"type": "string"}}, "required": ["host"]}, quorum=3
    )
    decide(review, "approve", actor=maya, data={"host": "a"})
    card = build_card(again(review), lena)
    assert card.edit is not None
    assert not card.edit.is_change
    assert card.told.endswith("1 of 3 approved, filled in by Maya")
    decide(review, "approve", actor=lena, data={"host": "b"})
    card = build_card(again(review), maya)
    assert card.edit is not None
    assert card.edit.is_change
    assert card.told.endswith("changed by Lena")


@dataclass
class Terms:
    value: int
    months: int = 12


@pytest.mark.parametrize(("schema", "months"), [(Terms, "12"), (None, "—")])
def test_what_is_left_out_is_told_as_the_answer_will_have_it(maya: User, lena: User, schema: Any, months: str) -> None:
    plain = {
        "type": "object",
        "properties": {"value": {"type": "integer"}, "months": {"type": "integer", "default": 12}},
        "required": ["value"],
    }
    review = ask_all(schema=schema or plain)
    decide(review, "approve", actor=maya, data={"value": 5})
    card = build_card(again(review), lena)
    assert [(one.label, one.after.text) for one in card.settings] == [("Value", "5"), ("Months", months)]
    assert card.edit is not None
    assert [one.label for one in card.edit.changes] == (["Value"] if schema else ["Value", "Months"])


# --- whatever is done in whatever order ---------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(6))
def test_however_people_vote_edit_and_take_back_those_who_count_agree(seed: int) -> None:
    chance = random.Random(seed)
    people = [make_person(f"p{n}", "Legal") for n in range(5)]
    review = ask_all(quorum=4)
    data = [ASKED, EDITED, {"value": 8000.0, "months": 12}, {"months": 12, "value": 9600.0}]
    for _ in range(25):
        before = again(review)
        actor = chance.choice(people)
        table = build_card(before, None).filled
        try:
            if chance.random() < 0.3:
                undo(review, actor=actor)
            elif chance.random() < 0.1:
                decide(review, "reject", actor=actor)
            else:
                decide(review, "approve", actor=actor, data=chance.choice(data))
        except NotAllowed:
            continue
        standing = list(Vote.objects.filter(review=review, standing=True))
        agreed = [vote.data for vote in standing if vote.outcome == "approve"]
        assert all(one == agreed[0] for one in agreed)
        assert len({vote.user_id for vote in standing}) == len(standing)
        now = again(review)
        assert (len(agreed) >= 4) == (now.outcome == "approve")
        if not now.open:
            break
        card = build_card(now, None)
        is_same = (table if isinstance(table, dict) else ASKED) == (card.filled if agreed else ASKED)
        assert now.version == before.version + (not is_same)
    drain()
    if answers and answers[-1] is not None and answers[-1].outcome == "approve":
        assert {one.outcome for one in answers[-1].decisions if one.data == answers[-1].data} >= {"approve"}
        assert sum(one.data == answers[-1].data for one in answers[-1].decisions) == 4
