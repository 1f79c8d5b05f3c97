"""The card's parts as pages, and the form on them: what stands there, for eyes and ears, and what comes back."""

from __future__ import annotations

import re
from collections import Counter
from typing import Any

import pytest
from django.http import QueryDict
from django.utils import translation

from approvals import Outcome, claim, comment, decide
from approvals.cards.decision_form import DecisionForm
from approvals.exceptions import ReasonRequired
from approvals.models import Review, Vote
from approvals.rules.door import Door
from tests.support.worlds.cards import Page, People, ask, build, read_again, render_part
from workflows.exceptions import InvalidData
from workflows.testing import advance

pytestmark = pytest.mark.django_db

MARKUP = "</b><script>alert(1)</script><img src=x onerror='x'>"
HOSTILE = f"{MARKUP}\u202e"
SCHEMA = {
    "type": "object",
    "required": ["how"],
    "properties": {
        "how": {"type": "string", "title": "How was it checked?", "enum": ["called", "wrote"]},
        "parts": {"type": "array", "items": {"type": "object", "properties": {"sku": {"type": "string"}}}},
    },
}


def render(review: Review, user: Any, **options: Any) -> Page:
    card = build(review, user)
    form = DecisionForm(card, **options).show()
    return Page(render_part("card", card=card, form=form) + render_part("bar", card=card, form=form))


def post(**fields: Any) -> QueryDict:
    data = QueryDict(mutable=True)
    for name, value in fields.items():
        data.setlist(name.replace("__", "/").replace("_0", "-"), value if isinstance(value, list) else [value])
    return data


# --- pages --------------------------------------------------------------------------------------------------


def test_a_card_has_one_heading_for_each_part_in_the_order_in_which_one_needs_it(asked: Review, people: People) -> None:
    decide(ask("Refund €640.00", groups=["Finance"]), "approve", actor=people.ann)
    card = build(asked, people.ann)
    html = render_part("card", card=card, form=DecisionForm(card).show())
    assert re.findall(r"<h([1-6])[^>]*>(?:<bdi>)?([^<]+)", html) == [
        ("1", "Refund €1,240.00 to Acme GmbH"),
        ("2", "Why now"),
        ("2", "What changes"),
        ("2", "Details"),
        ("2", "Evidence"),
        ("2", "Your answer"),
        ("2", "History"),
    ]
    deeper = render_part("card", card=card, level=2)
    assert [level for level, _ in re.findall(r"<h([1-6])([^>]*)>", deeper)] == ["2", *"33333"]


def test_every_id_is_there_once_and_every_reference_leads_somewhere(asked: Review, people: People) -> None:
    claim(asked, actor=people.cid)
    review = ask(groups=["Finance"], schema=SCHEMA, risk="high", outcomes=("approve", Outcome("no", presets=("Late",))))
    for page in (render(asked, people.ann), render(review, people.ann, asks_password=True)):
        ids = Counter(one["id"] for _, one in page.tags if one.get("id"))
        assert set(ids.values()) == {1}
        for _, one in page.tags:
            for name in ("for", "aria-labelledby", "aria-describedby"):
                assert set((one.get(name) or "").split()) <= set(ids)
        labelled = {one["for"] for one in page.find("label") if one.get("for")}
        for one in page.find("textarea") + page.find("input", type="password"):
            assert one["id"] in labelled


def test_tables_say_what_is_what_to_ears_too(asked: Review, people: People) -> None:
    decide(ask("Refund €640.00", subject=people.finance, groups=["Finance"]), "approve", actor=people.ann)
    page = render(ask(groups=["Finance"], subject=people.finance, change={"name": "Money"}), people.ann)
    assert len(page.find("caption")) == len(page.find("table")) == 2
    assert {one["scope"] for one in page.find("th")} == {"col", "row"}
    assert "was: " in page.words
    assert "will be: " in page.words


def test_a_forbidden_button_stays_beside_the_sentence_that_forbids_it(asked: Review, people: People) -> None:
    page = render(asked, people.ben)
    buttons = page.find("button", name="outcome")
    assert [one["value"] for one in buttons] == ["approve", "reject"]
    for one in buttons:
        assert "disabled" in one
        assert one["aria-describedby"] == "data-policy"
    assert "You can’t decide because you are not among those asked. Finance can." in page.words
    assert not page.find("textarea")  # nothing to type for who may not answer
    page = render(asked, people.ann)
    assert not any("disabled" in one for one in page.find("button", name="outcome"))


def test_the_first_button_of_the_form_does_nothing_so_that_enter_decides_nothing(people: People) -> None:
    for schema in (None, SCHEMA):
        page = render(ask(groups=["Finance"], schema=schema), people.ann)
        first = page.find("button")[0]
        assert "disabled" in first
        assert "name" not in first


def test_only_the_first_positive_outcome_is_the_main_button(people: People) -> None:
    outcomes = ("approve", "edit_and_approve", "request_changes", "reject")
    classes = [one["class"] or "" for one in render(ask(outcomes=outcomes), people.ann).find("button", name="outcome")]
    assert not any("button-main" in one for one in classes)  # nothing is filled where nobody may press
    page = render(ask(outcomes=outcomes, groups=["Finance"]), people.ann)
    classes = [one["class"] or "" for one in page.find("button", name="outcome")]
    assert ["button-main" in one for one in classes] == [True, False, False, False]
    assert ["button-danger" in one for one in classes] == [False, False, False, True]


def test_nothing_of_others_becomes_markup(people: People) -> None:
    people.ben.first_name = HOSTILE
    people.ben.save()
    people.finance.name = HOSTILE[:150]
    people.finance.save()
    review = ask(
        HOSTILE,
        groups=[people.finance],
        quorum=2,
        requester=people.ben,
        subject=people.finance,
        change={"name": "x" + HOSTILE},
        request={HOSTILE: HOSTILE, "url": "javascript:alert(1)", "many": [HOSTILE]},
        evidence=[(HOSTILE, HOSTILE)],
        outcomes=("approve", Outcome("reject", HOSTILE, presets=(HOSTILE,))),
        schema={"type": "object", "properties": {MARKUP: {"type": "string", "title": MARKUP}}},
    )
    comment(review, HOSTILE, actor=people.ben)
    decide(review, "reject", actor=people.cid, reason=HOSTILE)
    people.finance.name = "changed" + HOSTILE[:100]
    people.finance.save()
    claim(review, actor=people.dee)
    for user in (people.ann, people.dee, people.ben, None):
        page = render(review, user)
        assert not page.find("script") + page.find("img")
        assert not [one for _, one in page.tags if any(name.startswith("on") for name in one)]
        assert "\u202e" not in page.words
        for link in page.find("a"):
            assert (link["href"] or "").startswith(("/", "https://", "http://", "#"))


def test_links_to_other_sites_tell_them_nothing(asked: Review, people: People) -> None:
    page = render(asked, people.ann)
    (link,) = page.find("a", href="https://shop.example/7")
    assert link["rel"] == "noopener nofollow"


@pytest.mark.parametrize("language", ["de", "ja", "ar"])
def test_a_card_is_whole_in_every_language(asked: Review, people: People, language: str) -> None:
    decide(asked, "approve", actor=people.cid, data={})
    with translation.override(language):
        page = render(asked, people.ann)
    (gauge,) = page.find("svg", class_="gauge")
    assert gauge["viewbox"] == "0 0 36 16"
    assert len(page.find("circle", class_="gauge-yes")) == 1
    assert page.find("circle", class_="gauge-open")[0]["r"] == "4.25"


def test_every_state_has_its_line(asked: Review, people: People) -> None:
    late = ask(groups=["Finance"], due="1m", timeout="7d")
    advance("2m")
    grace, decided = ask(groups=["Finance"]), ask(groups=["Finance"])
    decide(grace, "approve", actor=people.ann, grace=True)
    decide(decided, "reject", actor=people.ann)
    for review, words in (
        (asked, ["Asked", "Waiting", "Due", "If nobody decides", "And if still nobody decides"]),
        (grace, ["Asked", "Decided", "Takes effect"]),
        (decided, ["Asked", "Decided"]),
        (late, ["Asked", "Was due", "Waiting", "If nobody decides"]),
    ):
        html = render_part("holdline", card=build(review, people.ann))
        assert re.findall(r'<span class="hold-what">([^<]+)<', html) == words
    assert "overdue by 1" in render_part("holdline", card=build(late, people.ann))


def test_what_changed_meanwhile_comes_before_everything_else(asked: Review, people: People, shop: Any) -> None:
    shop.Order.objects.update(amount=7)
    html = render_part("card", card=build(asked, people.ann))
    assert html.lstrip().startswith('<section class="banner"')
    assert "Changed since this was asked for" in html
    assert "€7.00" in html


# --- the form ---------------------------------------------------------------------------------------------------


@pytest.fixture
def form(people: People) -> DecisionForm:
    reasons = ("Not covered", "No receipt")
    outcomes = ("approve", Outcome("reject", requires_reason=True, presets=reasons))
    review = ask(groups=["Finance"], schema=SCHEMA, outcomes=outcomes)
    return DecisionForm(build(review, people.ann))


def test_what_was_filled_in_comes_back_as_decide_takes_it(form: DecisionForm, people: People) -> None:
    page = Page(render_part("form", form=form.show(), csrf_token="token"))
    hidden = {one["name"]: one["value"] for one in page.find("input", type="hidden")}
    assert hidden.items() >= {"csrfmiddlewaretoken": "token", "version": "1", "seen": form.card.seen}.items()
    chosen = page.find("input", type="radio", name="data/how")[0]["value"]
    filled = form.read(post(outcome="approve", reason=" Fine ", version="1", data__how=chosen))
    assert (filled.outcome, filled.reason, filled.data, filled.version) == ("approve", "Fine", {"how": "called"}, 1)
    assert not filled.errors
    review = Review.objects.get(pk=form.card.id)
    done = decide(review, filled.outcome, actor=people.ann, reason=filled.reason, data=filled.data, version=1)
    assert done.state == "decided"


def test_a_ready_reason_and_one_of_ones_own(form: DecisionForm) -> None:
    assert form.read(post(outcome="reject", **{"preset-reject": "1"})).reason == "No receipt"
    assert form.read(post(outcome="reject", reason="Really", **{"preset-reject": "0"})).reason == "Not covered\nReally"
    assert form.read(post(outcome="reject", **{"preset-reject": ""})).reason == ""
    for forged in ("9", "-1", "x", "٣"):
        assert form.read(post(outcome="reject", **{"preset-reject": forged})).reason == ""
    # What was chosen for one outcome is not said with another.
    assert form.read(post(outcome="approve", **{"preset-reject": "1"})).reason == ""


def test_a_button_decides_with_a_ready_reason_at_once(form: DecisionForm) -> None:
    filled = form.read(post(outcome="reject:1"))
    assert (filled.outcome, filled.reason) == ("reject", "No receipt")
    # What was typed in its menu, and in the form, is said too.
    filled = form.read(post(outcome="reject:0", reason="Below", **{"reason-reject": " Above "}))
    assert filled.reason == "Not covered\nAbove\nBelow"
    assert form.read(post(outcome="reject", **{"reason-reject": "Alone"})).reason == "Alone"
    assert form.read(post(outcome="approve", **{"reason-reject": "Not this"})).reason == ""
    for forged in ("9", "-1", "x", "٣", "1:1"):
        filled = form.read(post(outcome=f"reject:{forged}"))
        assert (filled.outcome, filled.reason) == ("reject", "")


def test_where_there_is_a_menu_it_has_what_was_chosen_and_typed(form: DecisionForm, people: People) -> None:
    filled = form.read(post(outcome="reject:1", **{"reason-reject": "Because of …"}))
    shown = form.show(filled)
    assert [(name, menu.reason) for name, menu in shown.menus.items()] == [("reject", "Because of …")]
    page = Page(render_part("bar", card=form.card, form=shown, full=True))
    buttons = {one["value"]: one for one in page.find("button", name="outcome")}
    assert list(buttons) == ["approve", "reject:0", "reject:1", "reject"]
    assert "aria-current" in buttons["reject:1"]
    assert "aria-current" not in buttons["reject:0"]
    assert "Because of …" in page.words
    # The ready reasons stand once on a page: in the menu, or in the form.
    assert not Page(render_part("form", form=shown, card=form.card, full=True)).find("input", name="preset-reject")
    high = DecisionForm(build(ask(groups=["Finance"], risk="high", outcomes=form_outcomes()), people.ann)).show()
    assert not high.menus
    assert Page(render_part("form", form=high, card=high.card, full=True)).find("input", name="preset-reject")


def form_outcomes() -> Any:
    return ("approve", Outcome("reject", requires_reason=True, presets=("Not covered", "No receipt")))


def test_saying_no_takes_no_form_and_saying_yes_does(form: DecisionForm) -> None:
    refused = form.read(post(outcome="reject", data__how=""))
    assert (refused.data, refused.errors) == (None, {})
    agreed = form.read(post(outcome="approve", data__how=""))
    assert agreed.errors or agreed.data is not None
    if not agreed.errors:
        agreed.place_errors({"how": ["is required"]})
    assert form.show(agreed).count == 1


def test_what_was_typed_is_there_again_with_what_is_wrong(form: DecisionForm, people: People) -> None:
    posted = post(outcome="reject", reason="Because of …", **{"preset-reject": "1"})
    filled = form.read(posted)
    page = Page(render_part("form", form=form.show(filled, reason_error="Say why.")))
    assert "Because of …" in page.words
    (area,) = page.find("textarea", name="reason")
    assert area["aria-invalid"] == "true"
    assert "data-reason-error" in (area["aria-describedby"] or "")
    assert "autofocus" in area
    assert "checked" in page.find("input", name="preset-reject")[1]
    assert "checked" not in page.find("input", name="preset-reject")[2]
    # Somebody else was quicker: what was typed is still on the page.
    review = Review.objects.get(pk=form.card.id)
    decide(review, "reject", actor=people.cid, reason="No")
    card = build(review, people.ann)
    page = Page(render_part("card", card=card, form=DecisionForm(card).show(filled)))
    assert "Because of …" in page.words


def test_a_password_is_asked_for_and_never_shown_again(people: People) -> None:
    card = build(ask(groups=["Finance"], risk="high"), people.ann)
    form = DecisionForm(card, asks_password=True)
    filled = form.read(post(outcome="approve", reason="x", password="canary"))
    assert filled.password == "canary"
    html = render_part("form", form=form.show(filled, password_error="That is not it."))
    assert "canary" not in html
    assert "That is not it." in html
    assert 'autocomplete="current-password"' in html


def test_rows_are_added_without_deciding_anything(form: DecisionForm) -> None:
    (add,) = Page(render_part("form", form=form.show())).find("button", name="add")
    pressed = form.press(post(add=str(add["value"]), outcome="", reason="So far"))
    assert pressed is not None
    filled, focus = pressed
    assert focus.startswith("data/parts/")
    shown = form.show(filled, focus=focus)
    assert shown.reason == "So far"
    assert form.press(post(outcome="approve")) is None
    assert Vote.objects.count() == 0


def test_posted_nonsense_is_read_and_decides_nothing(form: DecisionForm, people: People) -> None:
    for posted in (post(), post(outcome="x" * 10_000, version="9" * 50, seen="y" * 10_000), post(version="-1")):
        filled = form.read(posted)
        assert len(filled.outcome) <= 200
        assert filled.version == 0
        assert form.show(filled).is_shown
    review = read_again(Review.objects.get(pk=form.card.id))
    with pytest.raises((ReasonRequired, InvalidData)):
        decide(review, "reject", actor=people.ann, door=Door("link", seen=form.card.seen))


def test_the_hint_says_which_answers_need_a_reason(people: People) -> None:
    def read_hint(**options: Any) -> str:
        return DecisionForm(build(ask(groups=["Finance"], **options), people.ann)).show().reason_hint

    assert read_hint().startswith("Optional.")
    assert read_hint(risk="high").startswith("Needed for every answer.")
    assert read_hint(outcomes=("approve", Outcome("reject", requires_reason=True))).startswith("Needed for “Reject”.")
