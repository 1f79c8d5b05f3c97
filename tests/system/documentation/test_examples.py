"""The example workflows do what their docstrings say, and the guides show them as they are.

Those in which people decide are tried in test_approval_examples.
"""

import json
import re
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from django.contrib.auth import get_user_model
from django.test import Client

import workflows
from examples import builds, identity, payments
from examples import workflows as small
from examples.payments import PayByMachine, PayInSteps, pay
from workflows import Machine
from workflows.definitions import registry
from workflows.models import Instance, Interaction
from workflows.schemas.schema import read_schema
from workflows.styles.machine import stages, vocabulary
from workflows.testing import advance, assert_awaiting, assert_done, assert_failed, drain

pytestmark = pytest.mark.django_db

HOME = Path(__file__).resolve().parents[3]


@pytest.fixture(autouse=True)
def nobody_was_asked(monkeypatch):
    """The outside world of each test is its own."""
    monkeypatch.setattr(payments, "charges", {})
    monkeypatch.setattr(builds, "deployed", [])
    monkeypatch.setattr(identity, "submitted", {})
    monkeypatch.setattr(small, "parts_ordered", {})


def answer(url: str, data: object) -> int:
    """What a partner does with the address that it was given; the status of the response."""
    body = json.dumps({"data": data})
    return Client().post(urlsplit(url).path, body, content_type="application/json").status_code


def asked(**which: object) -> Interaction:
    return Interaction.objects.get(status="pending", **which)


def test_an_order_ships_when_it_is_paid():
    order = workflows.start("demo.ship", {"order": 7}, key="order-7")
    drain()
    assert_awaiting(order, "payment_confirmed")
    workflows.signal("order-7", "payment_confirmed", {"amount": 120})
    drain()
    assert_done(order, result={"paid": {"amount": 120}})


def test_an_order_that_is_never_paid_fails_after_a_day():
    order = workflows.start("demo.ship", {"order": 7})
    advance("23h")
    assert_awaiting(order, "payment_confirmed")
    advance("1h")
    assert_failed(order, "payment never came")


def test_reminders_stop_when_somebody_reacts():
    reminder = workflows.start("demo.remind", {"every": "1h", "times": 3})
    advance("90m")
    workflows.signal(reminder, "done")
    drain()
    assert_done(reminder, result={"reminders": 2})


def test_reminders_give_up_after_so_many():
    reminder = workflows.start("demo.remind", {"every": "1h", "times": 3})
    advance("3h")
    assert_failed(reminder, "nobody reacted")


# --- a payment, in three styles ------------------------------------------------------------------------

STYLES = pytest.mark.parametrize("style", [PayInSteps, pay, PayByMachine], ids=["steps", "function", "machine"])


@STYLES
def test_a_payment_is_done_when_its_provider_answers(style):
    payment = workflows.start(style, {"amount": 120})
    drain()
    [charge] = payments.charges.values()
    assert charge["amount"] == 120
    assert answer(charge["reply_to"], {"payment_id": "p-1", "amount": 120}) == 200
    drain()
    assert_done(payment, result={"payment_id": "p-1"})
    assert answer(charge["reply_to"], {"payment_id": "p-2", "amount": 120}) == 410


@STYLES
def test_a_payment_refuses_an_answer_that_is_none_and_goes_on_waiting(style):
    payment = workflows.start(style, {"amount": 120})
    drain()
    [charge] = payments.charges.values()
    assert answer(charge["reply_to"], {"payment_id": "p-1"}) == 422
    assert_awaiting(payment, "payment")
    assert answer(charge["reply_to"], {"payment_id": "p-1", "amount": 120}) == 200
    drain()
    assert_done(payment, result={"payment_id": "p-1"})


@STYLES
def test_a_payment_that_is_not_answered_within_a_day_says_so(style):
    payment = workflows.start(style, {"amount": 120})
    advance("23h")
    assert_awaiting(payment, "payment")
    advance("1h")
    assert_done(payment, result={"payment_status": "timed_out"})
    [charge] = payments.charges.values()
    assert answer(charge["reply_to"], {"payment_id": "p-1", "amount": 120}) == 410


# --- the others ------------------------------------------------------------------------------------------


def test_a_push_is_deployed_when_its_build_is_green():
    workflows.emit("git.pushed", {"commit": "c1"})
    workflows.emit("git.pushed", {"commit": "c2"})
    drain()
    first, second = Instance.objects.filter(workflow="demo.deploy").order_by("id")
    assert workflows.emit("ci.finished", {"commit": "c2", "green": True}) == 1
    assert workflows.emit("ci.finished", {"commit": "c1", "green": False}) == 1
    drain()
    assert_done(first, result={"deployed": None, "why": "the build is red"})
    assert_done(second, result={"deployed": "c2"})
    assert builds.deployed == ["c2"]


def test_a_build_that_is_quicker_than_its_deployment_counts():
    workflows.emit("git.pushed", {"commit": "c1"})
    assert workflows.emit("ci.finished", {"commit": "c1", "green": True}) == 0
    drain()
    assert builds.deployed == ["c1"]


def test_a_build_without_a_result_is_not_deployed():
    workflows.emit("git.pushed", {"commit": "c1"})
    advance("2h")
    deployment = Instance.objects.get(workflow="demo.deploy")
    assert_done(deployment, result={"deployed": None, "why": "no result of the build within two hours"})


def test_a_pack_closes_when_it_is_full():
    pack = workflows.start("demo.pack", {"size": 3})
    for item in ("cup", "plate", "bowl"):
        drain()
        assert_awaiting(pack, "item")
        workflows.signal(pack, "item", item)
    drain()
    assert_done(pack, result={"items": ["cup", "plate", "bowl"]})


def test_a_pack_closes_when_nothing_came_for_two_hours():
    pack = workflows.start("demo.pack", {"size": 3})
    advance("119m")
    workflows.signal(pack, "item", "cup")
    advance("119m")
    assert_awaiting(pack, "item")
    advance("1m")
    assert_done(pack, result={"items": ["cup"]})


def test_a_pack_for_which_nothing_came_fails():
    pack = workflows.start("demo.pack", {"size": 3})
    advance("2h")
    assert_failed(pack, "nothing came")


def find_address(instance: Instance, n: int) -> str:
    return identity.submitted[f"{instance.pk}-{n}"]


def test_a_customer_is_let_in_when_the_agency_is_content():
    ann = get_user_model().objects.create_user("ann", is_active=False)
    check = workflows.start("demo.kyc", {"customer": ann.pk})
    drain()
    assert answer(find_address(check, 1), {"status": "perhaps"}) == 422
    assert answer(find_address(check, 1), {"status": "resubmit", "note": "blurred"}) == 200
    drain()
    workflows.complete(f"papers-{ann.pk}", {"scan": 2})
    drain()
    assert answer(find_address(check, 2), {"status": "passed"}) == 200
    drain()
    assert_done(check, result={"verified": True, "rounds": 2})
    ann.refresh_from_db()
    assert ann.is_active


def test_a_customer_whom_the_agency_refuses_stays_outside():
    ann = get_user_model().objects.create_user("ann", is_active=False)
    check = workflows.start("demo.kyc", {"customer": ann.pk})
    drain()
    assert answer(find_address(check, 1), {"status": "failed", "note": "forged"}) == 200
    drain()
    assert_done(check, result={"verified": False, "why": "forged"})
    ann.refresh_from_db()
    assert not ann.is_active


@pytest.mark.parametrize(
    ("replies", "waits", "why"),
    [
        ([], ["10d"], "the agency did not answer"),
        (["resubmit"], ["30d"], "no other papers came"),
    ],
)
def test_a_check_ends_when_somebody_stays_silent(replies, waits, why):
    check = workflows.start("demo.kyc", {"customer": 1})
    drain()
    for n, status in enumerate(replies, 1):
        answer(find_address(check, n), {"status": status})
        drain()
    for wait in waits:
        advance(wait)
    assert_done(check, result={"verified": False, "why": why})


def test_a_check_that_three_rounds_do_not_settle_ends():
    check = workflows.start("demo.kyc", {"customer": 1})
    for n in (1, 2, 3):
        drain()
        answer(find_address(check, n), {"status": "resubmit"})
        drain()
        workflows.complete("papers-1", {"scan": n})
    drain()
    assert_done(check, result={"verified": False, "why": "not settled in 3 rounds"})


LINES = [
    {"article": "cup", "warehouse": "graz"},
    {"article": "desk", "warehouse": "wien"},
    {"article": "bowl", "warehouse": "graz"},
]


def test_an_order_is_settled_when_all_of_its_parcels_are_delivered():
    order = workflows.start("demo.fulfil", {"order": 7, "lines": LINES})
    drain()
    workflows.signal("parcel-7-wien", "delivered")
    drain()
    order.refresh_from_db()
    assert order.status == "awaiting_children"
    workflows.signal("parcel-7-graz", "delivered")
    drain()
    assert_done(order, result={"delivered": ["cup", "bowl", "desk"], "refund": []})


def test_a_parcel_that_is_lost_is_refunded():
    order = workflows.start("demo.fulfil", {"order": 7, "lines": LINES})
    drain()
    workflows.signal("parcel-7-graz", "delivered")
    advance("7d")
    assert_done(order, result={"delivered": ["cup", "bowl"], "refund": ["the parcel from wien is lost"]})


# --- a machine in YAML -----------------------------------------------------------------------------------


def bring_to_the_bench(price):
    """A repair whose parcel has come, and for which the bench has named its price."""
    repair = workflows.start("demo.repair", {"order": 7, "fault": "no light"})
    drain()
    assert workflows.emit("parcel.arrived", {"number": "R-8"}) == 0
    assert workflows.emit("parcel.arrived", {"number": "R-7"}) == 1
    advance("1d")
    question = asked(channel="bench")
    assert question.request == {"number": "R-7", "fault": "no light"}
    with pytest.raises(workflows.InvalidData):
        workflows.complete(question, {"price": "much"})
    workflows.complete(question, {"price": price})
    drain()
    return repair


def test_a_cheap_repair_is_done_and_followed_by_a_survey():
    repair = bring_to_the_bench(30)
    assert answer(small.parts_ordered["R-7"], {"serial": 5}) == 422
    assert answer(small.parts_ordered["R-7"], {"serial": "s-5"}) == 200
    drain()
    assert_done(repair, result={"repaired": True, "serial": "s-5"})
    assert Instance.objects.get(workflow="demo.remind").input == {"every": "7d", "times": 2}


def test_a_dear_repair_is_scrapped():
    assert_done(bring_to_the_bench(51), result={"repaired": False})
    assert small.parts_ordered == {}


def test_a_repair_without_its_part_is_scrapped():
    repair = bring_to_the_bench(50)
    advance("14d")
    assert_done(repair, result={"repaired": False})


def test_a_repair_whose_parcel_never_comes_ends():
    repair = workflows.start("demo.repair", {"order": 7, "fault": "no light"})
    advance("30d")
    assert_done(repair, result={"repaired": None})


def test_a_repair_is_not_taken_without_a_fault():
    with pytest.raises(workflows.InvalidInput):
        workflows.start("demo.repair", {"order": 7})


def test_quotes_come_from_whoever_answers_and_a_supplier_can_be_asked_again():
    asking = workflows.start("demo.quotes", {"part": "belt", "suppliers": ["Nord", "Sud", "West"]})
    drain()
    workflows.complete(f"quote.2-{asking.id}", {"price": 90})
    workflows.fail(f"quote.0-{asking.id}", "we make no belts")
    workflows.retry_item(f"quote.0-{asking.id}")
    drain()
    workflows.complete(f"quote.0-{asking.id}", {"price": 80})
    advance("3d")
    assert_done(asking, result={"best": {"supplier": "Nord", "price": 80}, "without": ["Sud"]})


def test_quotes_of_nobody_have_no_best():
    asking = workflows.start("demo.quotes", {"part": "belt", "suppliers": []})
    drain()
    assert_done(asking, result={"best": None, "without": []})


# --- the documentation ------------------------------------------------------------------------------------

SHOWN = re.compile(r"<!-- from (?P<file>examples/\S+) -->\n```python\n(?P<code>.*?)^```$", re.MULTILINE | re.DOTALL)


def test_the_guides_show_every_example_as_it_is():
    """What the guides show is also run there, so it cannot be left out of the file, nor the file changed alone."""
    shown = [
        one
        for page in ("guide", "approvals", "hooks")
        for one in SHOWN.finditer((HOME / f"docs/{page}.md").read_text())
    ]
    assert [one["file"] for one in shown if one["code"].strip() not in (HOME / one["file"]).read_text()] == []
    modules = {f"examples/{one.name}" for one in (HOME / "examples").glob("[a-z]*.py")}
    assert modules - {one["file"] for one in shown} == {f"examples/{name}.py" for name in ("admin", "apps", "models")}


def test_the_guide_shows_the_yaml_file_as_it_is():
    text = (HOME / "docs/guide.md").read_text()
    [code] = re.findall(r"^<!-- from examples/repair.yaml -->\n```yaml\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
    assert code == (HOME / "examples/repair.yaml").read_text()


def test_the_yaml_table_of_the_reference_says_the_same_twice(monkeypatch):
    """Each row is read in both languages, as a stage of a machine that has what it may lead to."""
    monkeypatch.setattr(registry, "_definitions", {})
    monkeypatch.setattr(registry, "_latest", {})
    text = (HOME / "docs/reference.md").read_text()
    rows = re.findall(r"^\|[^|]*\| `(\{[^`]*\})` \| `([^`]*)` \|$", text, re.MULTILINE)
    assert len(rows) == 15
    ways = {name: lambda ctx: None for name in ("charge", "sort", "warn", "list_lines", "add_up", "pack")}
    words = {**vars(vocabulary), "END": stages.END, **ways}
    dotted = {f"shop.work.{name}": fn for name, fn in ways.items()}
    rest = "\n  - small: {sleep: 1h}\n  - large: {sleep: 1h}\nflows: {late: [{action: shop.work.warn}]}\n"
    for n, (written, code) in enumerate(rows):
        opened = "  - open: {expand: shop.work.list_lines}\n" if "collect" in written else ""
        made = Machine.from_yaml(f"name: table{n}\nstages:\n{opened}  - first: {written}{rest}", functions=dotted)
        read, meant = (_list_branches(vars(one)) for one in (vars(made)["first"], eval(code, words)))
        schemas = {"schema": read_schema(read.get("schema"))}, {"schema": read_schema(meant.get("schema"))}
        assert read | schemas[0] | {"line": None} == meant | schemas[1], written


def _list_branches(stage: dict[str, object]) -> dict[str, object]:
    """The arguments of a stage; of `parallel` the stages of each branch as a list, without their lines."""
    branches = {
        name: [vars(one) | {"line": None} for one in (listed if isinstance(listed, list | tuple) else [listed])]
        for name, listed in stage.get("branches", {}).items()
    }
    return stage | {"branches": branches}


def test_the_readme_shows_three_styles_that_do_the_same(monkeypatch):
    monkeypatch.setattr(registry, "_definitions", {})
    monkeypatch.setattr(registry, "_latest", {})
    shown: dict[str, object] = {"__name__": "readme"}
    text = (HOME / "README.md").read_text()
    code = re.search(r"^```python\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
    exec(compile("\n" * text.count("\n", 0, code.start(1)) + code[1], "README.md", "exec"), shown)
    orders = [workflows.start(shown[name], {"order": 7}) for name in ("Ship", "ship_by_function", "ShipByMachine")]
    late = [workflows.start(shown[name], {"order": 8}) for name in ("ship_by_function", "ShipByMachine")]
    drain()
    workflows.signal(orders[0], "payment_confirmed", {"amount": 120})
    workflows.complete("payment-7", {"amount": 120})
    workflows.emit("order.paid", {"order": 7, "amount": 120})
    drain()
    assert [workflows.result(order) for order in orders[:2]] == [{"paid": {"amount": 120}}] * 2
    assert_done(orders[2], result={"paid": {"order": 7, "amount": 120}})
    advance("24h")
    assert [workflows.result(order) for order in late] == [{"paid": None}] * 2
