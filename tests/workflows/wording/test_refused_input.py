"""What is refused because of what somebody typed: told where they typed it, in their language, without our names."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.test import Client
from django.utils import translation

from approvals import decide
from approvals.exceptions import DecisionFailed, InvalidApproval
from approvals.models import Comment, Vote
from approvals.models.vote import MAX_TEXT
from approvals.subjects.reference import InvalidChange
from tests.support.answer_pages import Browser as Partner
from tests.support.answer_pages import (
    PageFree,
    check,
    fresh,  # noqa: F401 (a fixture)
    handed,
    park,
)
from tests.support.bulk_page import AT, ask_many
from tests.support.review_admin import page_of, read_messages
from tests.support.review_calls import ask, make_person
from workflows import Await, Done, Workflow, step
from workflows.exceptions import InvalidCall
from workflows.values.json_text import check_text, dump_value
from workflows.wording.messages import Placed, Reason, make_sentence, ngettext_lazy, tell_reason

pytestmark = pytest.mark.django_db

TOO_MUCH = "x" * (MAX_TEXT + 1)
#: What a browser's `maxlength` takes, and what it makes of it on the way: 40 lines with two characters between them.
LINES = "\n".join(["y" * 99] * 40)
SENT = LINES.replace("\n", "\r\n")
#: What is too long, in the reader's words.
LONG = {
    "en": "Must have at most 4000 characters.",
    "de": "Darf höchstens 4000 Zeichen haben.",
    "fr": "Le nombre de caractères doit être au plus 4000.",
    "es": "Tiene que tener como máximo 4000 caracteres.",
    "ja": "4000文字以内にしてください。",
    "zh-hans": "最多 4000 个字符。",
    "ko": "4000자 이하여야 합니다.",
}


class Reader:
    """Somebody with a browser of a language."""

    def __init__(self, name: str, *groups: str, language: str = "de") -> None:
        self.user = make_person(name, *groups)
        self.language, self.client = language, Client()
        self.client.force_login(self.user)

    def post(self, at: str, status: int, **fields: Any) -> Any:
        answer = self.client.post(at, fields, headers={"Accept-Language": self.language})
        assert answer.status_code == status, answer.text
        for ours in ("cannot be used", "'xxx", "the limit is", "has 40"):
            assert ours not in answer.text
        return answer


def test_there_is_room_for_all_that_a_browser_takes() -> None:
    assert len(LINES) <= MAX_TEXT < len(SENT)


# --- a text that is too long ------------------------------------------------------------------------------


@pytest.mark.parametrize("language", LONG)
def test_what_is_too_long_is_told_at_its_field(language: str) -> None:
    ann, zoe = Reader("ann", "finance", language=language), Reader("zoe", language=language)
    review = ask(groups=["finance"], requester=zoe.user)
    at, told = f"/approvals/{review.pk}/", LONG[language]
    for by, do, field in (
        (ann, "comment", "text"),
        (ann, "ask", "question"),
        (ann, "delegate", "handing"),
        (zoe, "withdraw", "withdrawal"),
    ):
        page = by.post(at, 422, do=do, **{field: TOO_MUCH})
        assert page.context["typed"].said_errors == {field: told}
        assert told in page.text
    page = ann.post(at, 422, outcome="reject", version="1", reason=TOO_MUCH)
    assert page.context["typed"].reason_error == told
    page = ann.post(AT, 422, outcome="approve", pick=str(review.pk), reason=TOO_MUCH, **{f"version-{review.pk}": "1"})
    assert page.context["shown"].reason_error == told
    assert Vote.objects.count() + Comment.objects.count() == 0


def test_a_character_that_cannot_be_kept_is_told_in_the_language_too() -> None:
    ann = Reader("ann", "finance")
    review = ask(groups=["finance"])
    told = "Hier steht ein Zeichen, das nicht gespeichert werden kann. Löschen Sie es oder geben Sie den Text neu ein."
    page = ann.post(f"/approvals/{review.pk}/", 422, do="comment", text="a\0b")
    assert page.context["typed"].said_errors == {"text": told}


def test_a_line_break_is_one_character_as_in_the_browser_that_counts_it() -> None:
    ann, zoe = Reader("ann", "finance"), Reader("zoe")
    review = ask(groups=["finance"], requester=zoe.user)
    at = f"/approvals/{review.pk}/"
    ann.post(at, 303, do="comment", text=SENT)
    ann.post(at, 303, do="ask", question=SENT)
    assert list(Comment.objects.order_by("pk").values_list("text", flat=True)) == [LINES, LINES]
    ann.post(at, 303, outcome="reject", version="1", reason=SENT)
    [many] = ask_many(1)
    page = {"outcome": "approve", "pick": str(many.pk), f"version-{many.pk}": "1"}
    ann.post(AT, 200, reason=SENT, **page)
    assert list(Vote.objects.order_by("pk").values_list("reason", flat=True)) == [LINES, LINES]


def test_a_line_break_is_one_character_in_the_admin_too() -> None:
    ann = Reader("ann", "finance")
    ann.user.is_superuser = ann.user.is_staff = True
    ann.user.save()
    one, other = ask(groups=["finance"]), ask(groups=["finance"])
    ann.post(page_of(one, "decide/"), 302, confirmed="yes", outcome="approve", version="1", reason=SENT)
    assert Vote.objects.get().reason == LINES
    given = {"confirmed": "yes", "users": str(ann.user.pk), "reason": SENT}
    ann.post(page_of(other, "reassign/"), 302, **given)
    assert [one.principal for one in other.candidates.all()] == [f"user:{ann.user.pk}"]


# --- what else is refused ---------------------------------------------------------------------------------


def test_reassigning_to_too_few_is_refused_in_the_language_of_the_admin() -> None:
    ada, ann = Reader("ada"), Reader("ann")
    ada.user.is_superuser = ada.user.is_staff = True
    ada.user.save()
    make_person("ben", "finance")
    review = ask(groups=["finance"], quorum=2)
    given = {"confirmed": "yes", "users": str(ann.user.pk)}
    headers = {"Accept-Language": "de"}
    answer = ada.client.post(page_of(review, "reassign/"), given, headers=headers, follow=True)
    (told,) = read_messages(answer)
    assert told.endswith(
        "2 gleiche Antworten entscheiden, und es könnten höchstens 1 gegeben werden: "
        "nennen Sie mehr Personen oder eine Gruppe."
    )


def test_what_a_model_refuses_is_told_by_the_names_of_its_fields(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(User._meta.get_field("email"), "verbose_name", "nettobetrag")
    refused = InvalidChange("change", User, {"email": ["Dieses Feld ist zwingend erforderlich."], "": ["Zu spät."]})
    assert str(refused) == (
        "this change of auth.User is refused: email: Dieses Feld ist zwingend erforderlich.; Zu spät."
    )
    with translation.override("de"):
        assert refused.tell() == "Nettobetrag: Dieses Feld ist zwingend erforderlich.; Zu spät."
        assert make_sentence(DecisionFailed(refused.reason).problem) == refused.tell()


def test_what_no_answer_can_hold_is_told_to_a_partner_in_their_language() -> None:
    park(PageFree)
    partner = Partner()
    german = {"Accept-Language": "de"}
    answer = partner.send(partner.open(), headers=german, data="x" * 600_000)
    check(answer, 413, "Diese Antwort ist zu groß: 600002 Byte, erlaubt sind höchstens 524288.")


class DeepRefused(Workflow):
    """Asks for a value of any kind, within an object."""

    @step
    def ask(self, ctx: Any) -> Any:
        raw = ctx.callback("raw", schema={"type": "object", "properties": {"raw": {}}})
        handed["url"], handed["token"] = raw.resume_url, raw.resume_token
        return Await(raw, then="end")

    @step
    def end(self, ctx: Any) -> Any:
        return Done(ctx.answer)


def test_where_in_an_answer_it_cannot_be_kept_is_told_too() -> None:
    park(DeepRefused)
    partner, deep = Partner(), "[" * 32 + "]" * 32
    answer = partner.send(partner.open(), headers={"Accept-Language": "de"}, **{"data/raw": deep})
    told = f"So lässt sich das nicht speichern: bei $.raw{'[0]' * 31}: der Wert ist tiefer als 32 Ebenen verschachtelt."
    check(answer, 422, told)


def test_only_code_can_have_done_wrong_what_is_told_in_no_detail() -> None:
    refused = InvalidApproval("tone", "loud", "the tone of an outcome is one of positive, neutral, negative")
    with translation.override("de"):
        assert refused.tell() == "So lässt sich das nicht verwenden."


# --- the words themselves ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("make", "english", "german"),
    [
        (
            lambda: check_text("", "a comment"),
            "a comment must not be empty",
            "Darf nicht leer sein.",
        ),
        (
            lambda: check_text("xx", "a comment", limit=1),
            "a comment has 2 characters, the limit is 1",
            "Darf höchstens 1 Zeichen haben.",
        ),
        (
            lambda: dump_value({"a": ["\ud800"]}, "data"),
            "data cannot be stored: at $.a[0], it contains a lone surrogate, which is not valid Unicode",
            "So lässt sich das nicht speichern: bei $.a[0]: "
            "der Wert enthält ein einzelnes Surrogat, das kein gültiges Unicode ist.",
        ),
        (
            lambda: dump_value("xxxx", "data", 2),
            "data is 6 bytes as JSON, the limit is 2. Keep the large part elsewhere and pass a reference to it.",
            "Diese Antwort ist zu groß: 6 Byte, erlaubt sind höchstens 2.",
        ),
    ],
)
def test_a_caller_gets_english_and_whoever_typed_it_their_language(
    make: Callable[[], Any], english: str, german: str
) -> None:
    with translation.override("de"):
        with pytest.raises(InvalidCall) as caught:
            make()
        assert (str(caught.value), caught.value.tell()) == (english, german)


def test_a_reason_that_counts_says_one_of_one() -> None:
    told = ngettext_lazy("must have at least %(limit)s item", "must have at least %(limit)s items")
    one, more = (Reason(told, {"limit": str(limit)}, limit) for limit in (1, 2))
    assert (one, more) == ("must have at least 1 item", "must have at least 2 items")
    with translation.override("de"):
        for copy in (one, pickle.loads(pickle.dumps(one))):
            assert tell_reason(copy) == "muss mindestens 1 Eintrag haben"
        assert tell_reason(more) == "muss mindestens 2 Einträge haben"


def test_reasons_of_many_places_are_told_in_the_signs_of_the_language_and_are_not_endless() -> None:
    reasons = Placed({"a": ["x", "y"], "": ["z"]}, {"a": "Betrag"})
    assert reasons == "a: x, y; z"
    with translation.override("ja"):
        assert tell_reason(pickle.loads(pickle.dumps(reasons))) == "Betrag：x、y；z"  # noqa: RUF001
    many = Placed({str(number): ["no"] for number in range(22)})
    assert many.endswith("19: no; and 2 more")
    assert many.tell().endswith("19: no; …")


def test_a_decision_that_cannot_be_carried_out_is_told_in_the_language(settings: Any) -> None:
    settings.APPROVALS = {"UNDO_SECONDS": 0}
    ann = Reader("ann", "finance")
    review = ask(groups=["finance"], on_decision=lose_it)
    page = ann.post(f"/approvals/{review.pk}/", 409, outcome="approve", version="1")
    assert page.context["banner"].text == "Das Objekt ist nicht mehr vorhanden."
    with pytest.raises(DecisionFailed, match="its object is no longer there"), translation.override("de"):
        decide(review, "approve", actor=User.objects.get(username="ann"))


def lose_it(answer: Any, instance: Any) -> None:
    from approvals.subjects.change import GONE

    raise DecisionFailed(GONE)
