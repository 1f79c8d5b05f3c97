# ruff: noqa: RUF001 - full-width signs are what Japanese and Chinese have.
"""What people read, in other languages than ours: no meaning is lost, and no punctuation of ours is left over."""

from __future__ import annotations

import gettext as gnu
import json
import pickle
import re
from copy import deepcopy
from datetime import UTC, datetime, timedelta
from pathlib import Path

import django
import pytest
from django.contrib.auth import get_user_model
from django.core import mail
from django.test import Client
from django.utils import dates, timezone, translation
from django.utils.formats import date_format
from django.utils.safestring import mark_safe

import workflows
from approvals import Outcome, decide
from approvals.actions.actions import withdraw
from approvals.actions.delegation import delegate
from approvals.asking.approval import Approval
from approvals.models import Review
from approvals.reviews.case import Case
from approvals.rules import find_obstacle
from approvals.templatetags.approvals import after_comma, after_name, label, sentence
from approvals.templatetags.approvals import label as label_with
from config.messages import APPS, LANGUAGES, ROOT, locate_catalogue, read_catalogue
from tests.support.admin_pages import (
    log_operator_in,  # noqa: F401 (a fixture)
    page_of,
    part,
    waiting,
    words_of,
)
from tests.support.answer_pages import (
    BROWSER,
    change,
    fresh,  # noqa: F401 (a fixture)
    park,
    url,
)
from tests.support.bulk_page import AT, ask_many
from tests.support.notices import find_html, make_reader, site, take_mail  # noqa: F401
from tests.support.review_calls import make_person
from tests.support.worlds.cards import ask, build, list_told, make_people, render_part
from workflows import Channel
from workflows.admin.flow.queue_admin import QueueAdmin
from workflows.exceptions import InvalidData
from workflows.forms.form import SchemaForm
from workflows.models import ApiKey, Interaction, Limit
from workflows.schemas.schema import load_schema
from workflows.testing import drain
from workflows.wording.messages import make_sentence, tell_reason
from workflows.wording.punctuation import join_and, join_clauses, join_html, join_list, join_or, label_html
from workflows.wording.relative_times import show_moment

#: What Django calls days and months; its own words for both are looked up without a context.
DATE_WORDS = [dates.WEEKDAYS, dates.WEEKDAYS_ABBR, dates.MONTHS, dates.MONTHS_3]

#: Latin punctuation directly after what is no Latin letter.
FOREIGN_END = re.compile(r"[\u3040-\u30ff\u3400-\u9fff][.,;:]|。[.。]")


def list_date_words() -> list[str]:
    with translation.override("en"):
        return [str(word) for words in DATE_WORDS for word in words.values()]


def find_code(language: str) -> str:
    return translation.to_language(language)


# --- words with two meanings ------------------------------------------------------------------------------


@pytest.mark.parametrize("language", LANGUAGES)
def test_days_and_months_are_called_as_django_calls_them(language: str) -> None:
    mo = Path(django.__file__).parent / "conf" / "locale" / language / "LC_MESSAGES" / "django.mo"
    with mo.open("rb") as file:
        django_says = gnu.GNUTranslations(file)
    with translation.override(find_code(language)):
        said = [str(word) for words in DATE_WORDS for word in words.values()]
        assert said == [django_says.gettext(word) for word in list_date_words()]
        assert django_says.gettext("May") in date_format(datetime(2027, 5, 12), "j F Y")


@pytest.mark.parametrize("app", APPS)
def test_no_message_of_ours_is_a_day_or_a_month_to_django(app: str) -> None:
    written = read_catalogue(locate_catalogue(ROOT, app, LANGUAGES[0]).read_text(encoding="utf-8"))
    assert {one.source for one in written if one.context is None} & set(list_date_words()) == set()


@pytest.mark.parametrize(
    ("code", "at_least", "as_many"), [("ja", "3以上。", "3件以上。"), ("ko", "3 이상", "3개 이상")]
)
def test_a_number_has_a_least_value_and_a_list_a_least_length(code: str, at_least: str, as_many: str) -> None:
    schema = {
        "type": "object",
        "properties": {
            "price": {"type": "integer", "minimum": 3},
            "names": {"type": "array", "items": {"type": "string"}, "minItems": 3},
        },
    }
    with translation.override(code):
        shown = repr(SchemaForm(schema).show({}))
    assert at_least in shown
    assert as_many in shown


@pytest.mark.django_db
@pytest.mark.parametrize(
    ("code", "approved", "sent_back", "counted"),
    [
        ("en", "approved", "answered “Back to you”", "1 of 3 approved"),
        ("es", "aprobó", "respondió «Back to you»", "1 de 3 a favor"),
        ("ja", "承認", "「Back to you」と回答", "3票中1票承認"),
        ("zh-hans", "批准了申请", "答复了“Back to you”", "已批准 1/3 票"),
        ("ko", "승인함", "“Back to you” 답변함", "승인함"),
    ],
)
def test_a_vote_is_a_deed_in_the_history_and_a_word_in_a_count(
    code: str, approved: str, sent_back: str, counted: str
) -> None:
    people = make_people()
    review = ask(groups=["Finance"], quorum=3, outcomes=("approve", Outcome("send_back", "Back to you")))
    decide(review, "approve", actor=people.ann)
    with translation.override(code):
        assert counted in build(review, people.ben).told
    decide(review, "send_back", actor=people.cid)
    with translation.override(code):
        (_, second, _), (_, first, _), *_ = list_told(review, people.ben)
    assert first == approved
    assert second == sent_back


@pytest.mark.django_db
@pytest.mark.parametrize(
    ("code", "subject", "banner", "noted"),
    [
        ("en", "Approved: Pay", "1 of 1 approved", "Approved, others still have to decide"),
        ("de", "Genehmigt: Pay", "1 von 1 genehmigt", "Genehmigt, andere müssen noch entscheiden"),
        ("fr", "Approuvée\u202f: Pay", "1 sur 1 (approuvée)", "Approbation, d’autres doivent encore décider"),
        ("es", "Aprobada: Pay", "1 de 1 (aprobada)", "A favor; falta la decisión de otras personas"),
        ("ja", "承認：Pay", "1件中1件承認", "承認（ほかの人の判断待ち）"),
        ("zh-hans", "已批准：Pay", "1 项中 1 项已批准", "已批准，其他人仍须作出决定"),
        ("ko", "승인됨: Pay", "1건 중 1건 승인됨", "승인함, 다른 사람도 결정해야 함"),
    ],
)
def test_what_is_decided_about_a_request_is_no_vote(code: str, subject: str, banner: str, noted: str) -> None:
    ann, ben = make_reader("ann", "finance"), make_reader("ben", language=code)
    review = ask("Pay", groups=["finance"], requester=ben)
    mail.outbox.clear()
    decide(review, "approve", actor=ann)
    drain()
    assert take_mail("ben").subject == subject
    [alone] = ask_many(1, groups=["finance"], assignees=[])
    [shared] = ask_many(1, groups=["finance"], assignees=[], quorum=2)
    client = Client()
    client.force_login(ann)
    for row, told in ((alone, banner), (shared, noted)):
        sent = {"outcome": "approve", "pick": [row.pk], f"version-{row.pk}": "1"}
        assert told in client.post(AT, sent, headers={"Accept-Language": code}).text


@pytest.mark.django_db
@pytest.mark.parametrize(
    ("code", "chip", "none"), [("fr", "close", "aucun"), ("es", "cerrada", "ninguno"), ("de", "geschlossen", "keine")]
)
def test_a_request_is_closed_in_other_words_than_a_column_is_named(code: str, chip: str, none: str) -> None:
    zoe = make_person("zoe", "finance")
    review = ask("Pay", groups=["finance"], requester=zoe)
    withdraw(review, actor=zoe)
    client = Client()
    client.force_login(zoe)
    reader = {"Accept-Language": code}
    assert f">{chip}</span>" in client.get("/approvals/?view=requested", headers=reader).text
    assert re.search(
        rf'<option value="none"[^>]*>{none.capitalize()}<', client.get("/approvals/settings/", headers=reader).text
    )


@pytest.mark.django_db
@pytest.mark.parametrize("code", [find_code(language) for language in LANGUAGES])
def test_an_outcome_with_a_label_of_its_own_is_an_answer_in_every_language(code: str) -> None:
    people = make_people()
    review = ask(groups=["Finance"], quorum=3, outcomes=("approve", Outcome("reject", "Turn down")))
    decide(review, "reject", actor=people.ann)
    with translation.override(code):
        answered = translation.gettext("answered %(outcome)s")
        quoted = translation.gettext("“%(label)s”") % {"label": "Turn down"}
        assert list_told(review, people.ben)[0][1] == answered % {"outcome": quoted}


@pytest.mark.django_db
@pytest.mark.parametrize(
    ("code", "approved", "handed_on"),
    [
        ("en", "You approved", "Ann Archer handed it on to you"),
        ("de", "Sie: genehmigt", "Ann Archer: weitergegeben an Sie"),
        ("fr", "Vous\u202f: approbation", "Ann Archer\u202f: transmission à vous"),
        ("es", "Usted aprobó", "Ann Archer la pasó a usted"),
        ("ja", "あなた：承認", "Ann Archer：あなたへ引き継ぎ"),
        ("zh-hans", "您 批准了申请", "Ann Archer 转交给了 您"),
        ("ko", "나 승인함", "Ann Archer 나에게 넘김"),
    ],
)
def test_a_line_of_the_history_has_the_signs_of_its_language(code: str, approved: str, handed_on: str) -> None:
    people = make_people()
    review = ask(assignees=["ann"])
    delegate(review, to=people.ben, actor=people.ann)
    decide(review, "approve", actor=people.ben)
    with translation.override(code):
        shown = render_part("timeline", card=build(review, people.ben))
    bare = re.sub(r"<svg.*?</svg>|<[^>]*>", "", shown.replace("<li", "\n<li"))
    lines = [re.sub(r"[ \n]+", " ", one).strip() for one in bare.split("\n")]
    assert any(approved in one for one in lines)
    assert any(handed_on in one for one in lines)


# --- moments and punctuation ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("code", "told"),
    [
        ("en", "Wed 12 May 2027, 14:30 UTC"),
        ("es", "mié 12 de mayo de 2027, 14:30 UTC"),
        ("ja", "2027年5月12日(水) 14:30 UTC"),
        ("zh-hans", "2027年5月12日 星期三 14:30 UTC"),
        # Newer than 6.0, Django writes the short name of a day.
        ("ko", f"2027년 5월 12일 ({'수' if django.VERSION >= (6, 1) else '수요일'}) 14:30 UTC"),
    ],
)
def test_an_exact_moment_has_the_order_of_its_language(code: str, told: str) -> None:
    at = datetime(2027, 5, 12, 14, 30, tzinfo=UTC)
    with translation.override(code):
        assert show_moment(at, at).exactly == told


@pytest.mark.parametrize(
    ("code", "told"),
    [
        ("en", ["a, b, c", "a; b", "a, b and c", "a, b or c", "a", "", "a: b", "a."]),
        ("es", ["a, b, c", "a; b", "a, b y c", "a, b o c", "a", "", "a: b", "a."]),
        ("ja", ["a、b、c", "a；b", "a、bとc", "a、bまたはc", "a", "", "a：b", "a。"]),
        ("zh-hans", ["a、b、c", "a；b", "a、b 和 c", "a、b 或 c", "a", "", "a：b", "a。"]),
    ],
)
def test_things_are_put_together_with_the_signs_of_the_language(code: str, told: list[str]) -> None:
    three = ["a", "b", "c"]
    with translation.override(code):
        assert [
            *(join_list(three), join_clauses(three[:2]), join_and(three), join_or(three), join_or(["a"]), join_and([])),
            *(label("a", "b"), sentence("a")),
        ] == told
        assert sentence("") == ""


def test_what_is_put_together_is_no_format_and_no_markup() -> None:
    assert join_or(["%(last)s", "{}", "100%"]) == "%(last)s, {} or 100%"
    assert label("%s", "{0}%") == "%s: {0}%"
    assert join_html(["<b>", "{0}%s"]) == "&lt;b&gt;, {0}%s"


@pytest.mark.django_db
@pytest.mark.parametrize(("code", "quoted"), [("ja", "「遅すぎる」"), ("zh-hans", "“遅すぎる”"), ("es", "«遅すぎる»")])
def test_a_mail_has_the_punctuation_of_its_reader(code: str, quoted: str) -> None:
    ann = make_reader("ann", language=code)
    make_reader("ben", language=code)
    review = ask(
        "承認してください",
        assignees=["ann"],
        requester=get_user_model().objects.get(username="ben"),
        risk="medium",
        due=timedelta(hours=2),
        request={"amount": "12"},
    )
    asked = take_mail("ann")
    decide(review, "reject", actor=ann, reason="遅すぎる")
    drain()
    told = take_mail("ben")
    for text in (asked.body, find_html(asked), told.body, find_html(told)):
        words = re.sub(r"<style.*?</style>|<[^>]*>", "", text, flags=re.DOTALL)
        assert FOREIGN_END.findall(words) == []
        assert ".." not in words
    assert quoted in told.body
    assert quoted in find_html(told)


@pytest.mark.django_db
@pytest.mark.parametrize(
    ("code", "selected", "before"),
    [
        ("ja", "1件を選択中。", "Cidが今日の"),
        ("zh-hans", "已选 1 项。", "Cid"),
        ("fr", "1 sélectionnée.", "Cid"),
        ("ko", "1건 선택됨.", "Cid"),
    ],
)
def test_the_page_of_many_has_the_punctuation_of_its_reader(code: str, selected: str, before: str) -> None:
    ann, cid = make_person("ann", "finance"), make_person("cid", "finance")
    one, other = ask_many(2, groups=["finance"], assignees=[])
    client = Client()
    client.force_login(ann)
    reader = {"Accept-Language": code}
    page = client.get(AT, {"pick": [one.pk]}, headers=reader).text
    assert selected in page
    sent = {"outcome": "approve", "pick": [one.pk, other.pk]}
    decide(one, "approve", actor=cid)
    answer = client.post(AT, {**sent, **{f"version-{row.pk}": "1" for row in (one, other)}}, headers=reader).text
    [told] = re.findall(rf'<tr[^>]*data-id="{one.pk}">(.*?)</tr>', answer, re.DOTALL)
    assert before in told
    for text in (page, answer):
        words = re.sub(r"<style.*?</style>|<[^>]*>", "", text, flags=re.DOTALL)
        assert FOREIGN_END.findall(words) == []
        assert ".." not in words


@pytest.mark.parametrize(
    ("code", "name", "comma", "link"),
    [
        ("en", ": Ann", ", Ann", "&lt;b&gt;: <b>x</b>"),
        ("fr", "\u202f: Ann", ", Ann", "&lt;b&gt;\u202f: <b>x</b>"),
        ("ja", "：Ann", "、Ann", "&lt;b&gt;：<b>x</b>"),
    ],
)
def test_what_follows_something_begins_with_the_sign_of_the_language(
    code: str, name: str, comma: str, link: str
) -> None:
    with translation.override(code):
        assert (after_name("Ann"), after_comma("Ann")) == (name, comma)
        assert label_html("<b>", mark_safe("<b>x</b>")) == link


@pytest.mark.django_db
@pytest.mark.parametrize(
    ("code", "zone", "quicker", "undo"),
    [
        ("ja", "Asia/Tokyo", "Annがすでに判断しました：「承認」、今日の", "まで元に戻せます。"),
        ("de", "Europe/Berlin", "Ann hat dies bereits entschieden: „Genehmigen“, heute um ", " rückgängig machen."),
        ("en", "UTC", "Ann has decided this already: “Approve”, today at ", "It can be undone until "),
    ],
)
def test_who_was_quicker_is_told_in_the_zone_of_the_reader(code: str, zone: str, quicker: str, undo: str) -> None:
    ann, ben = make_person("ann", "finance"), make_person("ben", "finance")
    over, held = ask_many(2, groups=["finance"], assignees=[])
    decide(over, "approve", actor=ann)
    decide(held, "approve", actor=ann, grace=True)
    with translation.override(code), timezone.override(zone):
        case = Case(Review.objects.get(pk=over.pk))
        obstacle = find_obstacle(case.rules, case.find_facts(ben))
        assert obstacle is not None
        assert case.review.decided_at is not None
        time = timezone.localtime(case.review.decided_at).strftime("%H:%M")
        assert obstacle.message.startswith(f"{quicker}{time}")
        case = Case(Review.objects.get(pk=held.pk))
        assert case.review.effective_at is not None
        obstacle = find_obstacle(case.rules, case.find_facts(ben))
        assert obstacle is not None
        assert undo in obstacle.message
        assert timezone.localtime(case.review.effective_at).strftime("%H:%M:%S") in obstacle.message
        assert "UTC" not in obstacle.message


@pytest.mark.parametrize(
    ("code", "of_calls", "of_runs"),
    [("de", "Aufrufrate", "Rate"), ("es", "límite de llamadas", "ritmo"), ("ja", "呼び出し回数の上限", "レート")],
)
def test_a_rate_of_runs_is_no_rate_of_calls(code: str, of_calls: str, of_runs: str) -> None:
    kinds = dict(Limit._meta.get_field("kind").flatchoices)
    with translation.override(code):
        assert str(ApiKey._meta.get_field("rate").verbose_name) == of_calls
        assert str(kinds[Limit.RATE]) == of_runs
        assert str(QueueAdmin.shown_rate.short_description) == of_runs  # type: ignore[attr-defined]


@pytest.mark.django_db
@pytest.mark.parametrize(("code", "label"), [("en", "High risk"), ("de", "Hohes Risiko"), ("fr", "Risque élevé")])
def test_a_list_and_a_card_call_a_risk_the_same(code: str, label: str) -> None:
    ann = make_person("ann", "finance")
    review = ask("Pay", groups=["finance"], risk="high")
    client = Client()
    client.force_login(ann)
    reader = {"Accept-Language": code}
    with translation.override(code):
        named = label_with(label, "")
    assert f'<span class="vh">{named}' in client.get("/approvals/", headers=reader).text
    with translation.override(code):
        assert build(review, ann).risk_label == label


@pytest.mark.parametrize(
    ("code", "one", "more"),
    [
        ("en", "1 waits for Finance", "1+ wait for Finance"),
        ("fr", "Finance\u202f: 1 en attente", "Finance\u202f: 1+ en attente"),
        ("es", "Pendiente de Finance: 1", "Pendientes de Finance: 1+"),
        ("ja", "Financeの判断待ち：1件", "Financeの判断待ち：1+件"),
    ],
)
def test_one_that_waits_elsewhere_is_told_as_one(code: str, one: str, more: str) -> None:
    link = {"name": "Finance", "url": "?view=x", "is_current": False, "icon": "outbox"}
    with translation.override(code):
        shown = [
            render_part("rows_none", filters={"view": "mine"}, rows={}, rail={"groups": [{**link, "count": count}]})
            for count in ("1", "1+")
        ]
    assert [told in part for told, part in zip((one, more), shown, strict=True)] == [True, True]


# --- what code says of itself -----------------------------------------------------------------------------


@pytest.mark.django_db
@pytest.mark.parametrize(("code", "where"), [("es", "por su canal"), ("ja", "専用のチャネル"), ("ko", "전용 채널")])
def test_where_an_answer_is_given_is_said_in_the_language_of_the_page(code: str, where: str) -> None:
    park()
    change("owned = true")
    page = Client().get(url(), headers={"Accept": BROWSER, "Accept-Language": code})
    assert where in page.text
    assert Channel.door not in page.text


@pytest.mark.parametrize("code", ["es", "ja", "zh-hans", "ko"])
def test_where_requests_are_decided_is_in_every_language(code: str) -> None:
    with translation.override(code):
        assert translation.gettext(Approval.door) != Approval.door


@pytest.mark.django_db
def test_the_ledger_in_the_admin_is_told_in_the_order_of_the_language(operator: Client) -> None:
    instance = waiting("AdminAsks", {})
    question = Interaction.objects.get()
    head = operator.get(page_of(instance), headers={"Accept-Language": "ja"}).text
    assert "（経由チャネル： callback ）" in words_of(head)
    workflows.complete(question, {"amount": 3}, actor="bob")
    drain()
    page = operator.get(page_of(instance), headers={"Accept-Language": "ja"}).text
    assert "経由チャネル： callback" in part(page, "ledger")
    assert f"{question.signal_id} （経由チャネル： callback ）" in part(page, "ledger")


@pytest.mark.django_db
def test_what_is_asked_about_a_key_is_refused_in_the_language_of_the_page(operator: Client) -> None:
    sent = {"name": "x", "scopes": ["read"], "reach": "all", "rate": "fast", "expires_at_0": "2001-01-01"}
    answer = operator.post(
        "/admin/holdpoint/apikey/add/", sent | {"expires_at_1": "00:00"}, headers={"Accept-Language": "es"}
    )
    words = words_of(answer.text)
    for told in ("Permisos", "No es un límite de llamadas: escriba", "Está en el pasado: para inhabilitar"):
        assert told in words


# --- what is wrong with a value ---------------------------------------------------------------------------

STRICT = {
    "type": "object",
    "required": ["count", "kind"],
    "additionalProperties": False,
    "properties": {
        "count": {"type": ["integer", "null"], "minimum": 3},
        "kind": {"enum": ["cash", "card"]},
        "names": {"type": "array", "items": {"type": "string", "maxLength": 2}},
    },
}


def refuse(data: object) -> InvalidData:
    schema = load_schema(STRICT, None)
    assert schema is not None
    with pytest.raises(InvalidData) as caught:
        schema.check(data)
    return caught.value


@pytest.mark.parametrize(
    ("code", "told"),
    [
        ("en", ["Must be a whole number or null.", 'Must be one of "cash" or "card".']),
        ("es", ["Tiene que ser un número entero o null.", 'Tiene que ser uno de "cash" o "card".']),
        ("ja", ["整数またはnullにしてください。", '"cash"または"card"のどれかにしてください。']),
        ("zh-hans", ["必须是整数 或 null。", '必须是 "cash" 或 "card" 之一。']),
        ("ko", ["정수 또는 null이어야 합니다.", '"cash" 또는 "card" 중 하나여야 합니다.']),
    ],
)
def test_what_a_schema_refuses_is_told_in_the_language_of_the_form(code: str, told: list[str]) -> None:
    with translation.override(code):
        refused = refuse({"count": "x", "kind": "coin"})
        assert [make_sentence(refused.errors[place][0]) for place in ("count", "kind")] == told


def test_programs_get_the_same_words_in_every_language() -> None:
    with translation.override("ja"):
        refused = refuse({"count": 1, "more": 2, "names": ["abc"]})
    assert json.loads(json.dumps(refused.errors)) == {
        "count": ["must be at least 3"],
        "kind": ["is required"],
        "more": ["is not expected"],
        "names.0": ["must have at most 2 characters"],
    }


def test_a_reason_survives_its_way_through_other_processes() -> None:
    reason = refuse({"count": "100%", "kind": "cash"}).errors["count"][0]
    for copy in (pickle.loads(pickle.dumps(reason)), deepcopy(reason)):
        assert (copy, tell_reason(copy)) == (reason, "must be a whole number or null")
    with translation.override("es"):
        assert tell_reason(pickle.loads(pickle.dumps(reason))) == "tiene que ser un número entero o null"


def test_a_reason_of_somebody_else_is_told_as_it_is() -> None:
    with translation.override("ja"):
        assert make_sentence("must hold %(x)s of {y}") == "Must hold %(x)s of {y}."
        assert make_sentence("Zu groß") == "Zu groß"
