"""`ApprovalRequiredMixin` for the admin: Save proposes, and who approves it does it."""

from __future__ import annotations

import inspect
import json
from collections.abc import Iterator
from contextlib import contextmanager
from decimal import Decimal
from typing import Any
from uuid import uuid4

import pytest
from django.apps import apps
from django.contrib import admin
from django.contrib.admin.models import LogEntry
from django.contrib.auth.models import Group, Permission, User
from django.contrib.contenttypes.models import ContentType
from django.core.files.uploadedfile import SimpleUploadedFile
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext

import workflows
from approvals import AlreadyDecided, Approval, DecisionFailed, NotAllowed, Outcome, Stale, decide
from approvals.exceptions import InvalidApproval
from approvals.models import Review, Vote
from approvals.required.core.frozen_approval import dump_approval, load_approval
from approvals.required.core.proposal_seal import _FIRST_SALT, NotSealed, _hash, _make_signer, seal, unseal
from approvals.required.core.proposals import MAX_PENDING
from approvals.required.core.proposals import propose as propose_anything
from tests.support.api_calls import make_key
from workflows.api.instances import start_as
from workflows.lifecycle import Status
from workflows.models import Instance
from workflows.testing import advance, assert_awaiting, assert_done, assert_failed, drain
from workflows.uuid7 import make_uuid7

pytestmark = pytest.mark.django_db

HOSTILE = "<script>alert('x')</script>"


@pytest.fixture(autouse=True)
def opened(shop: Any) -> None:
    """Every test here may use the shop."""


@pytest.fixture
def finance(db: None) -> Group:
    return Group.objects.create(name="finance")


@pytest.fixture
def ann(finance: Group) -> User:
    """Who approves."""
    user = User.objects.create_user("ann", first_name="Ann", last_name="Archer")
    user.groups.add(finance)
    return user


@pytest.fixture
def ben(db: None) -> User:
    """Who asks; a superuser, who is let past no more than others."""
    return User.objects.create_superuser("ben", first_name="Ben", last_name="Okafor")


@pytest.fixture
def browser(ben: User) -> Client:
    return login(ben)


def login(user: User) -> Client:
    client = Client()
    client.force_login(user)
    return client


@pytest.fixture
def site(shop: Any, ann: User) -> Iterator[Any]:
    """Orders whose changes, additions and deletions take an approval of finance."""
    from tests.support.apps.shop.site import make_order_admin, open_site

    kind = make_order_admin(approval_for=("change", "add", "delete"))
    with open_site((shop.Order, kind), (shop.Customer, admin.ModelAdmin), (shop.Label, admin.ModelAdmin)) as opened:
        yield opened


@pytest.fixture
def with_admin(shop: Any, ann: User) -> Iterator[Any]:
    """Orders in an admin with other attributes."""
    from contextlib import ExitStack

    from tests.support.apps.shop.site import make_order_admin, open_site

    with ExitStack() as stack:

        def open_with(base: Any = None, **attributes: Any) -> Any:
            kind = make_order_admin(base, **attributes)
            return stack.enter_context(open_site((shop.Order, kind), (shop.Customer, admin.ModelAdmin)))

        yield open_with


def page_of(order: Any, tail: str = "change/") -> str:
    return f"/backoffice/shop/order/{order.pk}/{tail}"


def fill(order: Any, **changed: Any) -> dict[str, Any]:
    """What the browser sends for an order's form."""
    shown = {
        "code": order.code,
        "amount": str(order.amount),
        "due": "" if order.due is None else order.due.isoformat(),
        "customer": order.customer_id or "",
        "labels": [str(one.pk) for one in order.labels.all()] if order.pk else [],
        "note": order.note,
    }
    return {**shown, **changed}


def propose(browser: Client, order: Any, **changed: Any) -> Review:
    """Save the form, and let a worker ask."""
    before = set(Review.objects.values_list("pk", flat=True))
    response = browser.post(page_of(order), fill(order, **changed), follow=True)
    assert response.status_code == 200, response.text
    drain()
    (review,) = Review.objects.exclude(pk__in=before)
    return review


def read_messages(response: Any) -> list[str]:
    return [str(one) for one in response.context["messages"]]


def read_errors(response: Any) -> dict[str, list[str]]:
    found: dict[str, list[str]] = response.context["adminform"].form.errors
    return found


# --- a change ------------------------------------------------------------------------------------------


def test_saving_proposes_and_changes_nothing(site: Any, browser: Client, order: Any, ben: User) -> None:
    response = browser.post(page_of(order), fill(order, amount="99.50", note="cheaper"), follow=True)
    assert response.redirect_chain == [(page_of(order), 302)]
    (told,) = read_messages(response)
    assert "Proposed, and not done yet: it waits for finance." in told
    assert f'href="{page_of(order)}#holdpoint-pending"' in told
    order.refresh_from_db()
    assert (order.amount, order.note) == (Decimal("1240.00"), "")
    assert not LogEntry.objects.exists()
    drain()
    review = Review.objects.get()
    assert review.change == {"amount": "99.50", "note": "cheaper"}
    assert (review.requester_id, review.subject_label, review.risk) == (ben.pk, "Order A-1", "low")
    assert review.title == "Change order “Order A-1”: Amount, Note"
    assert [one.principal for one in review.candidates.all()] == [f"group:{Group.objects.get(name='finance').pk}"]


def test_who_approves_makes_the_change_in_the_deciding_transaction(
    site: Any, browser: Client, order: Any, ann: User, ben: User
) -> None:
    review = propose(browser, order, amount="99.50")
    decide(review, "approve", actor=ann)
    order.refresh_from_db()
    assert order.amount == Decimal("99.50")
    entry = LogEntry.objects.get()
    assert (entry.user_id, entry.object_id, entry.action_flag) == (ben.pk, str(order.pk), 2)
    assert entry.change_message == "Changed Amount; approved by Ann Archer."
    drain()
    assert_done(review.instance, {"outcome": "approve", "reason": "", "by": [f"user:{ann.pk}"]})


def test_who_rejects_leaves_it_as_it_is(site: Any, browser: Client, order: Any, ann: User) -> None:
    review = propose(browser, order, amount="99.50")
    decide(review, "reject", actor=ann, reason="too cheap")
    drain()
    order.refresh_from_db()
    assert order.amount == Decimal("1240.00")
    assert not LogEntry.objects.exists()
    assert_done(review.instance, {"outcome": "reject", "reason": "too cheap", "by": [f"user:{ann.pk}"]})


def test_nobody_is_let_past_a_superuser_who_may_approve_neither(
    site: Any, browser: Client, order: Any, ben: User, finance: Group
) -> None:
    ben.groups.add(finance)
    review = propose(browser, order, amount="99.50")
    with pytest.raises(NotAllowed, match="you asked for this") as refused:
        decide(review, "approve", actor=ben)
    assert refused.value.obstacle.rule == "requester"
    with pytest.raises(NotAllowed):
        decide(review, "approve", actor=ben, reason="I am the boss", override=True)


def test_relations_to_one_and_to_many_are_proposed(
    site: Any, browser: Client, order: Any, ann: User, shop: Any
) -> None:
    acme = shop.Customer.objects.create(name="Acme GmbH", code="acme")
    red, blue = shop.Label.objects.create(name="red"), shop.Label.objects.create(name="blue")
    order.labels.add(red)
    review = propose(browser, order, customer=str(acme.pk), labels=[str(blue.pk)])
    assert review.change == {"customer": acme.pk, "labels": [str(blue.pk)]}
    assert list(order.labels.all()) == [red]
    decide(review, "approve", actor=ann)
    order.refresh_from_db()
    assert (order.customer, list(order.labels.all())) == (acme, [blue])


def test_a_form_in_which_nothing_was_changed_says_so(site: Any, browser: Client, order: Any) -> None:
    response = browser.post(page_of(order), fill(order), follow=True)
    assert read_messages(response) == ["Nothing was changed, so there is nothing to approve."]
    assert not Instance.objects.exists()


def test_the_line_ends_of_a_browser_are_no_change(site: Any, browser: Client, order: Any, shop: Any) -> None:
    shop.Order.objects.filter(pk=order.pk).update(note="one\ntwo")
    order.refresh_from_db()
    review = propose(browser, order, note="one\r\ntwo", amount="99.50")
    assert review.change == {"amount": "99.50"}
    review = propose(browser, order, note="one\r\nthree")
    assert review.change == {"note": "one\nthree"}


def test_what_the_form_refuses_is_not_proposed(site: Any, browser: Client, order: Any) -> None:
    response = browser.post(page_of(order), fill(order, amount="much", urgent="on"))
    assert set(read_errors(response)) == {"amount", "__all__"}
    response = browser.post(page_of(order), fill(order, urgent="on"))
    assert "an urgent order needs a date" in str(read_errors(response))
    assert not Instance.objects.exists()


def test_a_secret_cannot_be_proposed_and_its_field_says_so(with_admin: Any, browser: Client, order: Any) -> None:
    with_admin(fields=("code", "amount", "iban"))
    response = browser.post(page_of(order), {"code": "A-1", "amount": "5", "iban": "another-canary"})
    (told,) = read_errors(response)["iban"]
    assert "It is secret, and a change is kept and shown" in told
    assert not Instance.objects.exists()
    response = browser.post(page_of(order), {"code": "A-1", "amount": "5", "iban": "canary-iban"}, follow=True)
    assert "Proposed" in read_messages(response)[0]
    drain()
    assert Review.objects.get().change == {"amount": "5.00"}
    assert "canary" not in str(Instance.objects.get().input)


def test_a_new_file_cannot_be_proposed(with_admin: Any, browser: Client, order: Any) -> None:
    with_admin(fields=("code", "contract"))
    given = {"code": "A-1", "contract": SimpleUploadedFile("deal.txt", b"sign here")}
    (told,) = read_errors(browser.post(page_of(order), given))["contract"]
    assert "cannot keep a new file" in told
    assert not Instance.objects.exists()


def test_a_field_that_is_none_of_the_models_is_refused_and_not_lost(
    with_admin: Any, browser: Client, order: Any
) -> None:
    from django import forms

    class WithMore(forms.ModelForm):
        coupon = forms.CharField(required=False)

        class Meta:
            fields = ("code", "amount")

    with_admin(form=WithMore, fields=("code", "amount", "coupon"))
    response = browser.post(page_of(order), {"code": "A-1", "amount": "5", "coupon": "SAVE10"})
    assert "no field of the object" in read_errors(response)["coupon"][0]
    browser.post(page_of(order), {"code": "A-1", "amount": "5", "coupon": ""})
    assert Instance.objects.count() == 1


def test_only_named_fields_take_an_approval_and_then_all_that_was_changed(
    with_admin: Any, browser: Client, order: Any
) -> None:
    with_admin(approval_fields=("amount",))
    browser.post(page_of(order), fill(order, note="by hand"))
    order.refresh_from_db()
    assert order.note == "by hand"
    assert not Instance.objects.exists()
    review = propose(browser, order, note="together", amount="7")
    assert review.change == {"note": "together", "amount": "7.00"}
    order.refresh_from_db()
    assert order.note == "by hand"


def test_a_save_model_of_the_project_that_saves_by_itself_gets_nothing_past(
    with_admin: Any, browser: Client, order: Any
) -> None:
    def save_model(self: Any, request: Any, obj: Any, form: Any, change: bool) -> None:
        obj.save()

    with_admin(save_model=save_model)
    browser.post(page_of(order), fill(order, amount="1"))
    order.refresh_from_db()
    assert order.amount == Decimal("1240.00")
    assert Instance.objects.count() == 1


def test_what_the_model_refuses_by_then_refuses_the_decision_and_nothing_is_recorded(
    site: Any, browser: Client, order: Any, ann: User, shop: Any
) -> None:
    review = propose(browser, order, code="B-2")
    shop.Order.objects.create(code="B-2")
    with pytest.raises(DecisionFailed, match="code"):
        decide(review, "approve", actor=ann)
    review.refresh_from_db()
    assert review.open
    assert not Vote.objects.exists()
    assert not LogEntry.objects.exists()
    decide(review, "reject", actor=ann)


def test_an_order_that_changed_meanwhile_makes_the_proposal_stale(
    site: Any, browser: Client, order: Any, ann: User, shop: Any
) -> None:
    review = propose(browser, order, amount="99.50")
    shop.Order.objects.filter(pk=order.pk).update(note="changed by hand")
    with pytest.raises(Stale) as refused:
        decide(review, "approve", actor=ann)
    assert "Note" in refused.value.difference
    decide(review, "approve", actor=ann)
    order.refresh_from_db()
    assert (order.amount, order.note) == (Decimal("99.50"), "changed by hand")


def test_an_order_that_is_gone_cannot_be_changed(site: Any, browser: Client, order: Any, ann: User) -> None:
    review = propose(browser, order, amount="99.50")
    order.delete()
    with pytest.raises(Stale):
        decide(review, "approve", actor=ann)
    assert not LogEntry.objects.exists()


# --- a rolling deploy ----------------------------------------------------------------------------------


@contextmanager
def older_code(model: Any) -> Iterator[None]:
    """This process as one that was started before the model was deployed."""
    known = apps.all_models[model._meta.app_label]
    found = known.pop(model._meta.model_name)
    try:
        yield
    finally:
        known[model._meta.model_name] = found


@pytest.mark.parametrize("do", ["change", "add", "delete"])
def test_a_proposal_that_an_older_worker_takes_is_put_back_for_one_that_knows_the_model(
    site: Any, browser: Client, order: Any, do: str
) -> None:
    if do == "change":
        browser.post(page_of(order), fill(order, amount="99.50"), follow=True)
    else:
        about = order if do == "delete" else None
        values = {} if about else {"number": "A-9", "amount": "1.00"}
        asked = Approval("Do it", groups=["finance"])
        propose_anything(asked, do, type(order), about, values, requester=User.objects.get(username="ben"))
    instance = Instance.objects.get()
    with older_code(type(order)):
        drain()
    instance.refresh_from_db()
    assert instance.status == Status.SLEEPING
    assert "put back" in (instance.error or "")
    assert type(order)._meta.label_lower in (instance.error or "")
    assert not Review.objects.exists()
    advance("10m")
    assert Review.objects.get().open
    assert assert_awaiting(instance).attempt == 0


def test_an_older_server_refuses_to_decide_and_says_what_it_lacks(site: Any, order: Any, ann: User, ben: User) -> None:
    """Of what is to be added there is nothing yet that could be gone."""
    values = {"number": "A-9", "amount": "1.00"}
    propose_anything(Approval("Add it", groups=["finance"]), "add", type(order), None, values, requester=ben)
    drain()
    review = Review.objects.get()
    with older_code(type(order)), pytest.raises(DecisionFailed, match="does not know such objects"):
        decide(review, "approve", actor=ann)
    review.refresh_from_db()
    assert (review.open, review.outcome) == (True, "")


# --- what waits already --------------------------------------------------------------------------------


def test_the_page_shows_what_waits_before_and_after_a_worker_has_asked(site: Any, browser: Client, order: Any) -> None:
    assert "Saving proposes: the change is made once somebody else approves it." in browser.get(page_of(order)).text
    browser.post(page_of(order), fill(order, amount="99.50", note=HOSTILE))
    for _ in range(2):
        page = browser.get(page_of(order)).text
        panel = page.partition('id="holdpoint-pending"')[2].partition("</section>")[0]
        assert "Ben Okafor has proposed this change: waiting for finance." in panel
        assert "€1,240.00" in panel
        assert "€99.50" in panel
        assert "<script>" not in panel
        assert "&lt;script&gt;" in panel
        drain()
    assert f"/admin/holdpoint_approvals/review/{Review.objects.get().pk}/change/" not in page


def test_the_page_costs_the_same_for_eight_proposals_as_for_four(
    site: Any, browser: Client, order: Any, shop: Any
) -> None:
    costs = []
    for amounts in (range(1, 5), range(5, 9)):
        for amount in amounts:
            propose(browser, order, amount=str(amount))
        with CaptureQueriesContext(connection) as seen:
            page = browser.get(page_of(order)).text
        costs.append(len(seen))
    assert "5 more wait." in page
    assert costs[0] == costs[1]


def test_a_second_proposal_that_is_in_the_way_of_another_is_told(site: Any, browser: Client, order: Any) -> None:
    propose(browser, order, amount="99.50")
    cid = login(User.objects.create_superuser("cid"))
    response = cid.post(page_of(order), fill(order, amount="98", note="x"), follow=True)
    assert any("Ben Okafor has proposed a change of Amount as well." in one for one in read_messages(response))
    response = cid.post(page_of(order), fill(order, due="2026-12-01"), follow=True)
    assert len(read_messages(response)) == 1


def test_once_one_of_two_is_approved_the_other_is_stale_and_shows_the_difference(
    site: Any, browser: Client, order: Any, ann: User
) -> None:
    first, second = propose(browser, order, amount="99.50"), propose(browser, order, note="x")
    decide(first, "approve", actor=ann)
    with pytest.raises(Stale) as refused:
        decide(second, "approve", actor=ann)
    assert list(refused.value.difference) == ["Amount"]
    decide(second, "approve", actor=ann)
    order.refresh_from_db()
    assert (order.amount, order.note) == (Decimal("99.50"), "x")


def test_a_form_that_is_sent_twice_proposes_once(site: Any, browser: Client, order: Any) -> None:
    browser.post(page_of(order), fill(order, amount="99.50"), follow=True)
    response = browser.post(page_of(order), fill(order, amount="99.50"), follow=True)
    assert read_messages(response) == ["You have proposed this already, and it still waits."]
    assert Instance.objects.count() == 1


def test_there_is_an_end_to_what_may_wait_about_one_object(site: Any, browser: Client, order: Any) -> None:
    for amount in range(MAX_PENDING):
        browser.post(page_of(order), fill(order, amount=str(amount + 1)))
    response = browser.post(page_of(order), fill(order, amount="50"), follow=True)
    assert "10 proposals about this wait already: have one of them decided first." in read_messages(response)
    assert Instance.objects.count() == MAX_PENDING


def test_where_nobody_else_could_approve_it_one_is_warned(site: Any, browser: Client, order: Any, ann: User) -> None:
    ann.is_active = False
    ann.save()
    response = browser.post(page_of(order), fill(order, amount="99.50"), follow=True)
    assert any("Nobody can approve it at the moment" in one for one in read_messages(response))


# --- adding and deleting -------------------------------------------------------------------------------


def test_an_addition_is_proposed_and_made_once_approved(
    site: Any, browser: Client, ann: User, ben: User, shop: Any
) -> None:
    red = shop.Label.objects.create(name="red")
    acme = shop.Customer.objects.create(name="Acme GmbH", code="acme")
    given = {"code": "N-1", "amount": "12", "labels": [str(red.pk)], "customer": acme.pk, "note": HOSTILE}
    response = browser.post("/backoffice/shop/order/add/", given, follow=True)
    assert "Proposed, and not done yet: it waits for finance." in read_messages(response)
    assert not shop.Order.objects.exists()
    drain()
    review = Review.objects.get()
    assert review.title == "Add order “Order N-1”"
    assert review.interaction.request["Customer"] == "Acme GmbH"
    assert review.interaction.request["Labels"] == "red"
    decide(review, "approve", actor=ann)
    made = shop.Order.objects.get()
    assert (made.code, made.amount, made.customer, list(made.labels.all())) == ("N-1", Decimal(12), acme, [red])
    entry = LogEntry.objects.get()
    assert (entry.user_id, entry.object_id, entry.action_flag) == (ben.pk, str(made.pk), 1)
    assert entry.change_message == "Added; approved by Ann Archer."


def test_an_addition_that_is_sent_twice_is_proposed_once(site: Any, browser: Client) -> None:
    for _ in range(2):
        response = browser.post("/backoffice/shop/order/add/", {"code": "N-1", "amount": "12"}, follow=True)
    assert read_messages(response) == ["You have proposed this already, and it still waits."]
    assert Instance.objects.count() == 1


def test_an_addition_that_cannot_be_made_by_then_refuses_the_decision(
    site: Any, browser: Client, ann: User, shop: Any
) -> None:
    browser.post("/backoffice/shop/order/add/", {"code": "N-1", "amount": "12"})
    drain()
    shop.Order.objects.create(code="N-1")
    with pytest.raises(DecisionFailed, match="already exists"):
        decide(Review.objects.get(), "approve", actor=ann)
    assert shop.Order.objects.count() == 1


def test_a_secret_of_an_addition_is_refused(with_admin: Any, browser: Client) -> None:
    with_admin(approval_for=("add",), fields=("code", "amount", "api_token"))
    response = browser.post("/backoffice/shop/order/add/", {"code": "N-1", "amount": "1", "api_token": "canary"})
    assert "It is secret" in read_errors(response)["api_token"][0]
    browser.post("/backoffice/shop/order/add/", {"code": "N-1", "amount": "1", "api_token": ""})
    assert Instance.objects.count() == 1


def test_a_deletion_is_proposed_and_done_once_approved(
    site: Any, browser: Client, order: Any, ann: User, ben: User, shop: Any
) -> None:
    response = browser.post(page_of(order, "delete/"), {"post": "yes"}, follow=True)
    assert "Proposed, and not done yet" in read_messages(response)[0]
    assert "Ben Okafor has proposed to delete it" not in response.text.partition("<form")[0].partition("messagelist")[0]
    assert shop.Order.objects.filter(pk=order.pk).exists()
    assert not LogEntry.objects.exists()
    drain()
    review = Review.objects.get()
    assert review.title == "Delete order “Order A-1”"
    decide(review, "approve", actor=ann)
    assert not shop.Order.objects.filter(pk=order.pk).exists()
    entry = LogEntry.objects.get()
    assert (entry.user_id, entry.object_id, entry.action_flag) == (ben.pk, str(order.pk), 3)
    assert entry.change_message == "Deleted; approved by Ann Archer."


def test_the_action_of_the_list_proposes_each_deletion(site: Any, browser: Client, order: Any, shop: Any) -> None:
    other = shop.Order.objects.create(code="A-2")
    ticked = {"action": "delete_selected", "_selected_action": [order.pk, other.pk], "post": "yes"}
    response = browser.post("/backoffice/shop/order/", ticked, follow=True)
    assert len([one for one in read_messages(response) if "Proposed" in one]) == 2
    assert shop.Order.objects.count() == 2
    assert not LogEntry.objects.exists()


def test_a_deletion_that_something_forbids_by_then_refuses_the_decision(shop: Any, browser: Client, ann: User) -> None:
    from tests.support.apps.shop.site import make_order_admin, open_site

    acme = shop.Customer.objects.create(name="Acme", code="acme")
    kind = make_order_admin(approval_for=("delete",), fields=("name",))
    with open_site((shop.Customer, kind)):
        browser.post(f"/backoffice/shop/customer/{acme.pk}/delete/", {"post": "yes"})
        drain()
        shop.Order.objects.create(code="A-3", customer=acme)
        with pytest.raises(DecisionFailed, match="other objects still need it"):
            decide(Review.objects.get(), "approve", actor=ann)
    assert shop.Customer.objects.filter(pk=acme.pk).exists()


def test_what_is_not_named_in_approval_for_is_done_at_once(
    with_admin: Any, browser: Client, order: Any, shop: Any
) -> None:
    with_admin()
    browser.post("/backoffice/shop/order/add/", {"code": "N-1", "amount": "12"})
    browser.post(page_of(order, "delete/"), {"post": "yes"})
    assert [one.code for one in shop.Order.objects.all()] == ["N-1"]
    assert not Instance.objects.exists()


def test_without_the_admins_own_permission_nothing_can_be_proposed(site: Any, order: Any) -> None:
    user = User.objects.create_user("dan", is_staff=True)
    assert login(user).post(page_of(order), fill(order, amount="1")).status_code == 403
    kind = ContentType.objects.get_for_model(type(order))
    looks, changes = (
        Permission.objects.create(codename=f"{one}_order", name=one, content_type=kind) for one in ("view", "change")
    )
    user.user_permissions.add(looks)
    assert login(user).post(page_of(order), fill(order, amount="1")).status_code == 403
    assert not Instance.objects.exists()
    user.user_permissions.add(changes)
    assert login(user).post(page_of(order), fill(order, amount="1")).status_code == 302
    assert Instance.objects.count() == 1


# --- the ways around -----------------------------------------------------------------------------------


def test_rows_cannot_be_edited_in_the_list(with_admin: Any, browser: Client, order: Any) -> None:
    with_admin(list_display=("code", "amount"), list_editable=("amount",))
    page = browser.get("/backoffice/shop/order/").text
    assert 'name="form-0-amount"' not in page
    given = {
        "form-TOTAL_FORMS": "1",
        "form-INITIAL_FORMS": "1",
        "form-0-id": order.pk,
        "form-0-amount": "1",
        "_save": "Save",
    }
    browser.post("/backoffice/shop/order/", given)
    order.refresh_from_db()
    assert order.amount == Decimal("1240.00")


def test_inlines_can_be_read_and_not_changed(shop: Any, browser: Client, ann: User) -> None:
    from tests.support.apps.shop.site import make_order_admin, open_site

    class Orders(admin.TabularInline):
        model = shop.Order
        fk_name = "customer"
        fields = ("code", "note")

    acme = shop.Customer.objects.create(name="Acme", code="acme")
    order = shop.Order.objects.create(code="A-5", customer=acme, note="as it was")
    kind = make_order_admin(fields=("name", "code"), inlines=[Orders])
    with open_site((shop.Customer, kind)):
        url = f"/backoffice/shop/customer/{acme.pk}/change/"
        page = browser.get(url).text
        assert "as it was" in page
        assert 'name="orders-0-note"' not in page
        given = {
            "name": "Acme SE",
            "code": "acme",
            "orders-TOTAL_FORMS": "2",
            "orders-INITIAL_FORMS": "1",
            "orders-0-id": order.pk,
            "orders-0-note": "changed",
            "orders-0-DELETE": "on",
            "orders-1-code": "A-6",
        }
        browser.post(url, given)
    assert [(one.code, one.note) for one in shop.Order.objects.all()] == [("A-5", "as it was")]
    drain()
    assert Review.objects.get().change == {"name": "Acme SE"}


def test_a_workflow_that_somebody_starts_by_hand_does_nothing(order: Any, ann: User, ben: User, shop: Any) -> None:
    approval = dump_approval(Approval("Be harmless", assignees=[ann], four_eyes=False))
    asked = {
        "do": "change",
        "model": "shop.order",
        "subject": {"model": "shop.order", "pk": str(order.pk), "label": "x", "using": ""},
        "values": {"amount": "1.00"},
        "requester": str(ann.pk),
        "applies": "approve",
        "approval": approval,
        "principals": [],
        "timeout": None,
    }
    stolen = seal({**asked, "values": {"note": "other"}}, uuid4())["seal"]
    for input in (asked, {"asked": asked}, {"asked": asked, "seal": "x"}, {"asked": asked, "seal": stolen}):
        for name in ("holdpoint-change", "holdpoint-call"):
            instance = workflows.start(name, input)
            drain()
            assert_failed(instance, "NotSealed")
    assert not Review.objects.exists()


def test_the_seal_outlives_a_stay_in_the_database() -> None:
    asked = {"a": 1.0, "b": {"z": None, "y": ["ü", 10**20, 0.1]}, "c": "\u2028"}
    id = make_uuid7()
    kept = start_as(id, "holdpoint-change", seal(asked, id))
    kept.refresh_from_db()
    assert unseal(kept)["c"] == "\u2028"
    kept.input = {**kept.input, "asked": {**kept.input["asked"], "a": 2}}
    with pytest.raises(NotSealed):
        unseal(kept)


@pytest.mark.parametrize("before", ["waiting", "rejected", "done", "cancelled"])
@pytest.mark.parametrize("elsewhere", [False, True])
def test_a_sealed_input_is_good_for_its_own_instance_only(
    before: str, elsewhere: bool, site: Any, browser: Client, order: Any, ann: User, ben: User
) -> None:
    """Whoever may read instances reads the seals, too; whoever may start some shall not ask again in another's name."""
    review = propose(browser, order, amount="900")
    if before in ("rejected", "done"):
        decide(review, "approve" if before == "done" else "reject", actor=ann)
        drain()
    elif before == "cancelled":
        workflows.cancel(review.instance)
    sealed = Instance.objects.get(pk=review.instance_id).input
    workflows.workspace.create("acme")
    again = workflows.start("holdpoint-change", sealed, workspace="acme" if elsewhere else None, actor=ben)
    drain()
    assert_failed(again, "NotSealed")
    assert Review.objects.count() == 1


def test_a_sealed_input_is_refused_at_the_api_s_door_likewise(
    site: Any, browser: Client, order: Any, ann: User
) -> None:
    propose(browser, order, amount="900")
    bearer = {"Authorization": f"Bearer {make_key('start', 'read')}"}
    (told,) = Client().get("/v1/instances?workflow=holdpoint-change", headers=bearer).json()["results"]
    given = {"workflow": "holdpoint-change", "input": told["input"]}
    made = Client().post("/v1/instances", given, content_type="application/json", headers=bearer)
    assert made.status_code == 201
    drain()
    assert_failed(Instance.objects.get(pk=made.json()["id"]), "NotSealed")
    assert Review.objects.count() == 1


def _write_as_before(instance: Instance, started_by: str) -> None:
    """As the version before wrote it: sealed without the instance's id."""
    asked = instance.input["asked"]
    older = _make_signer(_FIRST_SALT).sign(_hash(asked))
    with connection.cursor() as cursor:
        cursor.execute(
            "UPDATE holdpoint_instance SET version = 1, input = %s::jsonb, started_by = %s WHERE id = %s",
            [json.dumps({"asked": asked, "seal": older}), started_by, instance.pk],
        )


def test_what_was_proposed_before_the_upgrade_still_works(
    site: Any, browser: Client, order: Any, ann: User, ben: User
) -> None:
    review = propose(browser, order, amount="900")
    _write_as_before(review.instance, f"user:{ben.pk}")
    decide(review, "approve", actor=ann)
    drain()
    assert_done(review.instance)
    order.refresh_from_db()
    assert order.amount == 900


def test_what_was_copied_before_the_upgrade_is_asked_no_more(site: Any, browser: Client, order: Any, ann: User) -> None:
    browser.post(page_of(order), fill(order, amount="900"))
    instance = Instance.objects.get()
    _write_as_before(instance, "key:7")
    drain()
    assert_failed(instance, "NotSealed")
    assert not Review.objects.exists()


def test_an_older_seal_starts_nothing_new(order: Any, ann: User) -> None:
    asked = {"do": "change", "requester": str(ann.pk)}
    older = {"asked": asked, "seal": _make_signer(_FIRST_SALT).sign(_hash(asked))}
    again = workflows.start("holdpoint-change", older, actor=ann)
    drain()
    assert_failed(again, "NotSealed")


# --- the approval --------------------------------------------------------------------------------------


def test_a_hook_decides_who_is_asked_and_how(with_admin: Any, browser: Client, order: Any, ann: User) -> None:
    def get_approval(self: Any, request: Any, obj: Any, change: Any) -> Approval:
        assert obj.amount == Decimal("1240.00")  # as it stands
        return self.make_approval(
            f"Reprice {obj} to {change['amount']}",
            subject=obj,
            change=change,
            assignees=["ann"],
            groups=(),
            outcomes=(Outcome("grant", "Grant it", "positive"), "reject"),
            risk="high",
            evidence=[("Price list", "https://shop.example/prices"), ("Orders", 12)],
            remind=["1d"],
            escalate=[("3d", ("outcome", "reject"))],
            due="2d",
        )

    with_admin(get_approval=get_approval)
    review = propose(browser, order, amount="99.50")
    assert (review.title, review.risk) == ("Reprice Order A-1 to 99.50", "high")
    assert [one.principal for one in review.candidates.all()] == [f"user:{ann.pk}"]
    assert [one["label"] for one in review.evidence] == ["Price list", "Orders"]
    assert (len(review.rungs), review.due_at is not None) == (2, True)
    decide(review, "grant", actor=ann, reason="agreed")
    order.refresh_from_db()
    assert order.amount == Decimal("99.50")


def test_several_have_to_agree(with_admin: Any, browser: Client, order: Any, ann: User, finance: Group) -> None:
    with_admin(approval_quorum=2)
    cid = User.objects.create_user("cid", first_name="Cid")
    cid.groups.add(finance)
    review = propose(browser, order, amount="99.50")
    assert decide(review, "approve", actor=ann).state == "open"
    order.refresh_from_db()
    assert order.amount == Decimal("1240.00")
    decide(review, "approve", actor=cid)
    order.refresh_from_db()
    assert order.amount == Decimal("99.50")
    assert LogEntry.objects.get().change_message == "Changed Amount; approved by Ann Archer, Cid."


def test_what_nobody_decides_in_time_is_not_done(with_admin: Any, browser: Client, order: Any, ann: User) -> None:
    with_admin(approval_timeout="2d")
    review = propose(browser, order, amount="99.50")
    advance("3d")
    assert_done(review.instance, {"outcome": "expired", "reason": "", "by": []})
    with pytest.raises(AlreadyDecided):
        decide(review, "approve", actor=ann)
    order.refresh_from_db()
    assert order.amount == Decimal("1240.00")
    assert "proposed this change" not in browser.get(page_of(order)).text


@pytest.mark.parametrize(
    "attributes",
    [
        {"approval_groups": ["nobody of this name"]},
        {"approval_assignees": ["nobody"]},
        {"approval_quorum": 3, "approval_groups": (), "approval_assignees": ["ann"]},
    ],
)
def test_an_approval_that_cannot_be_asked_for_is_refused_at_once(
    with_admin: Any, browser: Client, order: Any, attributes: dict[str, Any]
) -> None:
    with_admin(**attributes)
    response = browser.post(page_of(order), fill(order, amount="99.50"), follow=True)
    (told,) = read_messages(response)
    assert told.startswith("Nobody could be asked to approve it. ")
    assert not Instance.objects.exists()


def test_an_approval_is_the_same_before_and_after_it_was_kept(ann: User, finance: Group, ben: User) -> None:
    approval = Approval(
        "Change it",
        assignees=["ann"],
        groups=["finance"],
        permission="auth.change_user",
        candidates=User.objects.filter(pk=ann.pk),
        quorum="50%",
        four_eyes=False,
        risk="medium",
        evidence=[("A", 1)],
        why="The list price has changed",
        due="2d",
        remind=["4h"],
        escalate=[("1d", ("add", "finance")), ("3d", ("outcome", "reject"))],
    )
    again = load_approval(dump_approval(approval), requester=ben)
    for name in (
        "title",
        "why",
        "groups",
        "permission",
        "quorum",
        "four_eyes",
        "risk",
        "evidence",
        "ladder",
        "outcomes",
    ):
        assert getattr(again, name) == getattr(approval, name)
    assert (again.assignees, again.candidates, again.requester) == ([ann], [ann], ben)


def test_nothing_that_an_approval_can_say_is_forgotten() -> None:
    known = set(dump_approval(Approval("x"))) | {"subject", "change", "schema", "requester", "on_decision"}
    known |= {"remind", "escalate"}  # the rungs
    assert set(inspect.signature(Approval.__init__).parameters) - {"self"} <= known


def test_people_who_are_gone_leave_nobody_to_ask_and_not_everybody(ann: User, ben: User) -> None:
    kept = dump_approval(Approval("Change it", assignees=["ann"]))
    ann.delete()
    with pytest.raises(InvalidApproval, match="none of these users is there any more"):
        load_approval(kept, requester=ben)


def test_what_the_mixin_could_not_honour_is_refused(order: Any) -> None:
    with pytest.raises(InvalidApproval, match="on_decision"):
        dump_approval(Approval("x", on_decision="tests.support.apps.shop.world:shop"))
    with pytest.raises(InvalidApproval, match="nobody would read"):
        dump_approval(Approval("x", schema={"amount": int}))


def test_the_workspace_is_the_requesters_own(with_admin: Any, order: Any, ann: User, ben: User) -> None:
    workspace = workflows.workspace.create("acme")
    workspace.members.add(ben, ann)
    with_admin()
    assert propose(login(ben), order, amount="99.50").workspace_id == workspace.pk
    assert "Ben Okafor has proposed this change" in login(ben).get(page_of(order)).text


# --- how the page is made ------------------------------------------------------------------------------


def test_a_template_of_the_projects_own_stays_in_use(
    with_admin: Any, browser: Client, order: Any, settings: Any
) -> None:
    engine = {
        **settings.TEMPLATES[0],
        "APP_DIRS": False,
        "OPTIONS": {
            **settings.TEMPLATES[0]["OPTIONS"],
            "loaders": [
                (
                    "django.template.loaders.locmem.Loader",
                    {
                        "shop/own.html": '{% extends "admin/change_form.html" %}'
                        "{% block form_top %}their own words{% endblock %}"
                    },
                ),
                "django.template.loaders.filesystem.Loader",
                "django.template.loaders.app_directories.Loader",
            ],
        },
    }
    settings.TEMPLATES = [engine]
    with_admin(change_form_template="shop/own.html")
    page = browser.get(page_of(order)).text
    assert "their own words" in page
    assert "Saving proposes" in page


def test_only_what_would_quietly_do_nothing_is_reported(with_admin: Any, shop: Any) -> None:
    from tests.support.apps.shop.site import make_order_admin

    def check(**attributes: Any) -> list[str]:
        site = admin.AdminSite(name="other")
        return [one.id for one in make_order_admin(**attributes)(shop.Order, site).check()]

    class Orders(admin.TabularInline):
        model = shop.Handled

    assert check() == []
    assert check(approval_for="change") == ["holdpoint_approvals.E101"]
    assert check(approval_for=("changes",)) == ["holdpoint_approvals.E101"]
    assert check(approval_fields=("amuont",)) == ["holdpoint_approvals.E102"]
    assert check(approval_quorum=0) == ["holdpoint_approvals.E103"]
    assert check(approval_risk="none") == ["holdpoint_approvals.E103"]
    assert check(list_display=("code", "amount"), list_editable=("amount",)) == ["holdpoint_approvals.W101"]
    assert "holdpoint_approvals.W102" in check(inlines=[Orders])


def test_the_instance_is_live_and_its_own_while_it_waits(site: Any, browser: Client, order: Any) -> None:
    review = propose(browser, order, amount="99.50")
    assert review.instance.status == Status.AWAITING
    assert review.instance.key == f"holdpoint-change:shop.order:{order.pk}:0"
