"""Every way in which what is sent to the admin could write a field that takes an approval, past the mixin."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import ExitStack
from decimal import Decimal
from typing import Any

import pytest
from django import forms
from django.contrib import admin
from django.contrib.admin.models import LogEntry
from django.contrib.auth.models import Group, User
from django.core.exceptions import ImproperlyConfigured
from django.core.files.uploadedfile import SimpleUploadedFile
from django.test import Client
from django.utils import timezone

from approvals import decide
from approvals.models import Review
from workflows.models import Instance
from workflows.testing import drain

pytestmark = pytest.mark.django_db

DEAR = Decimal("1240.00")


@pytest.fixture
def ann(db: None) -> User:
    """Who approves."""
    user = User.objects.create_user("ann", first_name="Ann")
    user.groups.add(Group.objects.create(name="finance"))
    return user


@pytest.fixture
def browser(db: None) -> Client:
    client = Client()
    client.force_login(User.objects.create_superuser("ben", first_name="Ben"))
    return client


@pytest.fixture
def open_with(shop: Any, ann: User) -> Iterator[Any]:
    """The shop's orders, or another model, in an admin in which the amount takes an approval."""
    from tests.support.apps.shop.site import make_order_admin, open_site

    with ExitStack() as stack:

        def do(model: Any = None, **attributes: Any) -> Any:
            kind = make_order_admin(**{"approval_fields": ("amount",), **attributes})
            return stack.enter_context(open_site((model or shop.Order, kind), (shop.Customer, admin.ModelAdmin)))

        yield do


def page_of(row: Any, tail: str = "change/") -> str:
    return f"/backoffice/shop/{row._meta.model_name}/{row.pk}/{tail}"


def fill(**changed: Any) -> dict[str, Any]:
    """What the browser sends for the order's form."""
    shown = {"code": "A-1", "amount": "1240.00", "due": "", "customer": "", "labels": [], "note": ""}
    return {**shown, **changed}


def read_messages(response: Any) -> list[str]:
    return [str(one) for one in response.context["messages"]]


def find_proposed() -> dict[str, Any]:
    """The one change that was proposed."""
    drain()
    change: dict[str, Any] = Review.objects.get().change
    return change


# --- what the browser says -----------------------------------------------------------------------------


def test_what_the_browser_says_a_field_began_with_is_not_believed(open_with: Any, browser: Client, order: Any) -> None:
    open_with(approval_fields=("options", "numbers"), fields=("code", "options", "numbers"))
    assert "initial-options" not in browser.get(page_of(order)).text
    new = json.dumps({"limit": 1_000_000})
    sent = {"code": "A-1", "options": new, "initial-options": new, "numbers": "1,2", "initial-numbers": "1,2"}
    response = browser.post(page_of(order), sent, follow=True)
    order.refresh_from_db()
    assert (order.options, order.numbers) == ({}, [])
    assert "Proposed" in read_messages(response)[0]
    assert find_proposed() == {"options": {"limit": 1_000_000}, "numbers": [1, 2]}


def test_what_no_browser_can_send_is_no_change_and_is_kept(
    open_with: Any, browser: Client, order: Any, shop: Any
) -> None:
    placed = timezone.now().replace(microsecond=123456)
    shop.Order.objects.filter(pk=order.pk).update(note="one\ntwo", placed=placed)
    open_with(approval_fields=("note", "placed"), fields=("code", "note", "placed"))
    local = timezone.localtime(placed)
    sent = {"note": "one\r\ntwo", "placed_0": f"{local:%Y-%m-%d}", "placed_1": f"{local:%H:%M:%S}"}
    browser.post(page_of(order), {"code": "A-9", **sent})
    order.refresh_from_db()
    assert (order.code, order.note, order.placed) == ("A-9", "one\ntwo", placed)
    assert not Instance.objects.exists()


def test_a_new_file_of_the_old_ones_name_is_a_new_file(open_with: Any, browser: Client, order: Any, shop: Any) -> None:
    shop.Order.objects.filter(pk=order.pk).update(contract="deal.txt")
    open_with(approval_fields=("contract",), fields=("code", "contract"))
    sent = {"code": "A-1", "contract": SimpleUploadedFile("deal.txt", b"other terms")}
    response = browser.post(page_of(order), sent)
    assert "cannot keep a new file" in response.context["adminform"].form.errors["contract"][0]
    assert not Instance.objects.exists()


def test_the_key_of_another_row_writes_no_other_row(open_with: Any, browser: Client, shop: Any) -> None:
    mine, other = shop.Label.objects.create(name="mine"), shop.Label.objects.create(name="theirs")
    open_with(shop.Label, approval_fields=("name",), fields=("id", "name"))
    response = browser.post(page_of(mine), {"id": str(other.pk), "name": "mine"})
    assert "which object it is" in response.context["adminform"].form.errors["id"][0]
    other.refresh_from_db()
    assert (other.name, shop.Label.objects.count()) == ("theirs", 2)


def test_a_relation_to_many_that_takes_an_approval_is_proposed(
    open_with: Any, browser: Client, order: Any, shop: Any
) -> None:
    red = shop.Label.objects.create(name="red")
    open_with(approval_fields=("labels",))
    browser.post(page_of(order), fill(labels=[str(red.pk)]))
    assert list(order.labels.all()) == []
    assert find_proposed() == {"labels": [str(red.pk)]}
    browser.post(page_of(order), fill(code="A-9"))
    order.refresh_from_db()
    assert order.code == "A-9"


def test_a_secret_that_takes_an_approval_is_refused_and_one_that_takes_none_is_saved(
    open_with: Any, browser: Client, order: Any
) -> None:
    open_with(approval_fields=("iban",), fields=("code", "iban", "api_token"))
    response = browser.post(page_of(order), {"code": "A-1", "iban": "another-canary", "api_token": ""})
    assert "It is secret" in response.context["adminform"].form.errors["iban"][0]
    browser.post(page_of(order), {"code": "A-1", "iban": "canary-iban", "api_token": "new"})
    order.refresh_from_db()
    assert (order.iban, order.api_token) == ("canary-iban", "new")


def test_a_row_that_is_gone_by_then_is_not_made_again(open_with: Any, browser: Client, order: Any, shop: Any) -> None:
    class Form(forms.ModelForm):
        def clean(self) -> Any:
            shop.Order.objects.all().delete()
            return super().clean()

    open_with(form=Form)
    response = browser.post(page_of(order), fill(amount="1"))
    assert "no longer there" in str(response.context["adminform"].form.errors)
    assert not Instance.objects.exists()


# --- what the project derives --------------------------------------------------------------------------


def cheap_if_urgent(form: Any) -> Any:
    """What a form of the project's derives."""
    found = forms.ModelForm.clean(form)
    if form.cleaned_data.get("note") == "cheap":
        form.cleaned_data["amount"] = Decimal(5)
    return found


def test_what_a_forms_clean_derives_takes_the_approval(open_with: Any, browser: Client, order: Any, ann: User) -> None:
    open_with(form=type("Form", (forms.ModelForm,), {"clean": cheap_if_urgent}))
    browser.post(page_of(order), fill(note="cheap"))
    order.refresh_from_db()
    assert (order.amount, order.note) == (DEAR, "")
    assert find_proposed() == {"amount": "5.00", "note": "cheap"}
    decide(Review.objects.get(), "approve", actor=ann)
    order.refresh_from_db()
    assert (order.amount, order.note) == (Decimal(5), "cheap")


def test_what_a_form_derives_of_a_field_that_it_does_not_show_takes_the_approval(
    open_with: Any, browser: Client, order: Any
) -> None:
    def clean(form: Any) -> Any:
        form.instance.amount = Decimal(5)
        return forms.ModelForm.clean(form)

    open_with(form=type("Form", (forms.ModelForm,), {"clean": clean}), fields=("code", "note"))
    browser.post(page_of(order), {"code": "A-1", "note": "x"})
    order.refresh_from_db()
    assert order.amount == DEAR
    assert find_proposed() == {"amount": "5.00", "note": "x"}


def test_what_the_models_clean_derives_takes_the_approval(
    open_with: Any, browser: Client, order: Any, shop: Any
) -> None:
    shop.Order.objects.filter(pk=order.pk).update(unit="kg")  # the model's `clean` writes it in capitals
    open_with(approval_fields=("unit",))
    browser.post(page_of(order), fill(note="x"))
    order.refresh_from_db()
    assert (order.unit, order.note) == ("kg", "")
    assert find_proposed() == {"unit": "KG", "note": "x"}


def test_a_value_that_a_form_leaves_to_the_projects_saving_is_proposed(
    open_with: Any, browser: Client, order: Any
) -> None:
    class Form(forms.ModelForm):
        amount = forms.DecimalField()

        class Meta:
            fields = ("code", "note")

    # The admin makes a form of these, and of what the form declares by itself.
    open_with(form=Form, fields=("code", "note"))
    browser.post(page_of(order), {"code": "A-1", "amount": "7", "note": ""})
    order.refresh_from_db()
    assert order.amount == DEAR
    assert find_proposed() == {"amount": "7.00"}


def save_cheap(self: Any, request: Any, obj: Any, form: Any, change: bool) -> None:
    """A `save_model` of the project's."""
    obj.amount = Decimal(5)
    obj.save()


def save_form_cheap(self: Any, request: Any, form: Any, change: bool) -> Any:
    obj = form.save(commit=False)
    obj.amount = Decimal(5)
    return obj


def save_related_cheap(self: Any, request: Any, form: Any, formsets: Any, change: bool) -> None:
    type(form.instance).objects.filter(pk=form.instance.pk).update(amount=5)


@pytest.mark.parametrize(
    "saving", [{"save_model": save_cheap}, {"save_form": save_form_cheap}, {"save_related": save_related_cheap}]
)
def test_what_a_saving_of_the_projects_own_derives_is_taken_back_and_proposed(
    open_with: Any, browser: Client, order: Any, ann: User, saving: dict[str, Any]
) -> None:
    open_with(**saving)
    response = browser.post(page_of(order), fill(note="x"), follow=True)
    order.refresh_from_db()
    assert (order.amount, order.note) == (DEAR, "")
    assert not LogEntry.objects.exists()
    (told,) = read_messages(response)  # and not that it was changed
    assert "Proposed, and not done yet" in told
    assert find_proposed() == {"amount": "5.00", "note": "x"}
    decide(Review.objects.get(), "approve", actor=ann)
    order.refresh_from_db()
    assert (order.amount, order.note) == (Decimal(5), "x")


def test_what_the_models_save_derives_is_taken_back_and_proposed(
    open_with: Any, browser: Client, order: Any, shop: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    def save(self: Any, **options: Any) -> None:
        self.amount = 10 * len(self.note)
        super(shop.Order, self).save(**options)

    monkeypatch.setattr(shop.Order, "save", save)
    open_with()
    browser.post(page_of(order), fill(note="four"))
    order.refresh_from_db()
    assert (order.amount, order.note) == (DEAR, "")
    assert find_proposed() == {"amount": "40.00", "note": "four"}


def test_it_is_looked_at_also_where_the_project_words_the_history_by_itself(
    open_with: Any, browser: Client, order: Any
) -> None:
    def construct_change_message(self: Any, *args: Any) -> str:
        return "changed"

    open_with(save_model=save_cheap, construct_change_message=construct_change_message)
    browser.post(page_of(order), fill(note="x"))
    order.refresh_from_db()
    assert (order.amount, order.note) == (DEAR, "")
    assert not LogEntry.objects.exists()
    assert find_proposed() == {"amount": "5.00", "note": "x"}


def test_a_derived_change_that_cannot_be_proposed_is_not_saved(open_with: Any, browser: Client, order: Any) -> None:
    def save_model(self: Any, request: Any, obj: Any, form: Any, change: bool) -> None:
        obj.iban = "another-canary"
        obj.save()

    open_with(approval_fields=("iban",), save_model=save_model)
    response = browser.post(page_of(order), fill(note="x"), follow=True)
    (told,) = read_messages(response)
    assert told.startswith("Nothing was saved")
    assert "canary" not in told
    order.refresh_from_db()
    assert (order.iban, order.note) == ("canary-iban", "")
    assert not Instance.objects.exists()


def test_a_saving_of_the_projects_own_that_derives_nothing_saves(open_with: Any, browser: Client, order: Any) -> None:
    def save_model(self: Any, request: Any, obj: Any, form: Any, change: bool) -> None:
        obj.nickname = "by hand"
        obj.save()

    open_with(save_model=save_model)
    browser.post(page_of(order), fill(note="x"))
    order.refresh_from_db()
    assert (order.note, order.nickname, LogEntry.objects.count()) == ("x", "by hand", 1)
    assert not Instance.objects.exists()


@pytest.mark.parametrize("fields", [None, ("amount",)])
def test_a_save_form_of_the_projects_own_lets_nothing_past(
    open_with: Any, browser: Client, order: Any, shop: Any, fields: Any
) -> None:
    def save_form(self: Any, request: Any, form: Any, change: bool) -> Any:
        return form.save(commit=False)

    open_with(approval_for=("change", "add"), approval_fields=fields, save_form=save_form)
    browser.post(page_of(order), fill(amount="1"))
    browser.post("/backoffice/shop/order/add/", fill(code="N-1"))
    order.refresh_from_db()
    assert (order.amount, shop.Order.objects.count()) == (DEAR, 1)
    assert Instance.objects.count() == 2


def test_a_form_that_cannot_propose_saves_nothing_and_says_what_to_do(
    open_with: Any, browser: Client, order: Any
) -> None:
    def get_form(self: Any, request: Any, obj: Any = None, change: bool = False, **options: Any) -> Any:
        return forms.modelform_factory(type(order), fields=("code", "amount"))

    open_with(get_form=get_form)
    with pytest.raises(ImproperlyConfigured, match=r"return what super\(\).get_form\(\) makes"):
        browser.post(page_of(order), {"code": "A-1", "amount": "1"})
    order.refresh_from_db()
    assert order.amount == DEAR


# --- other doors ---------------------------------------------------------------------------------------


def test_saving_as_new_proposes_an_addition_and_leaves_the_old_one(
    open_with: Any, browser: Client, order: Any, shop: Any
) -> None:
    open_with(approval_for=("change", "add"), save_as=True)
    response = browser.post(page_of(order), fill(code="N-1", amount="1", _saveasnew="1"), follow=True)
    assert "Proposed" in read_messages(response)[0]
    order.refresh_from_db()
    assert (order.amount, shop.Order.objects.count()) == (DEAR, 1)
    drain()
    assert Review.objects.get().title == "Add order “Order N-1”"


def test_saving_as_new_where_additions_take_none_writes_nothing_of_the_old_one(
    open_with: Any, browser: Client, order: Any, shop: Any
) -> None:
    def save_model(self: Any, request: Any, obj: Any, form: Any, change: bool) -> None:
        shop.Order.objects.filter(pk=order.pk).update(amount=5)
        obj.save()

    open_with(save_as=True, save_model=save_model)
    browser.post(page_of(order), fill(code="N-1", amount="1", _saveasnew="1"))
    order.refresh_from_db()
    assert (order.amount, shop.Order.objects.count()) == (DEAR, 1)
    assert find_proposed() == {"amount": "5.00"}


def log_nothing(self: Any, request: Any, rows: Any) -> None:
    """A history that a project keeps elsewhere."""


def delete_by_itself(self: Any, request: Any, obj: Any) -> None:
    obj.delete()


@pytest.mark.parametrize("deleting", [{}, {"delete_model": delete_by_itself}])
def test_a_deletion_that_is_logged_elsewhere_is_still_proposed(
    open_with: Any, browser: Client, order: Any, shop: Any, deleting: dict[str, Any]
) -> None:
    open_with(approval_for=("delete",), log_deletions=log_nothing, **deleting)
    browser.post(page_of(order, "delete/"), {"post": "yes"})
    assert (shop.Order.objects.count(), Instance.objects.count()) == (1, 1)


def test_the_action_of_the_list_too(open_with: Any, browser: Client, order: Any, shop: Any) -> None:
    open_with(approval_for=("delete",), log_deletions=log_nothing)
    ticked = {"action": "delete_selected", "_selected_action": [order.pk], "post": "yes"}
    browser.post("/backoffice/shop/order/", ticked)
    assert (shop.Order.objects.count(), Instance.objects.count()) == (1, 1)


def test_a_list_of_the_projects_own_saves_no_rows(open_with: Any, browser: Client, order: Any) -> None:
    def get_changelist_instance(self: Any, request: Any) -> Any:
        return admin.ModelAdmin.get_changelist_instance(self, request)

    open_with(
        list_display=("code", "amount"), list_editable=("amount",), get_changelist_instance=get_changelist_instance
    )
    row = {"form-TOTAL_FORMS": "1", "form-INITIAL_FORMS": "1", "form-0-id": order.pk, "form-0-amount": "1"}
    with pytest.raises(ImproperlyConfigured, match="nothing is saved"):
        browser.post("/backoffice/shop/order/", {**row, "_save": "Save"})
    order.refresh_from_db()
    assert order.amount == DEAR


def test_other_doors_of_the_same_site_are_reported(shop: Any) -> None:
    from tests.support.apps.shop.site import make_order_admin

    class Orders(admin.TabularInline):
        model = shop.Order
        fk_name = "customer"

    class ReadOrders(Orders):
        fields = readonly_fields = ("code", "amount")
        can_delete = False

    def check(*others: tuple[Any, Any]) -> list[str]:
        site = admin.AdminSite(name="other")
        for model, kind in others:
            site.register(model, kind)
        found = make_order_admin()(shop.Order, site).check()
        assert {one.id for one in found} <= {"holdpoint_approvals.W103"}
        return [one.msg.partition(" writes ")[0] for one in found]

    def customers(inline: Any, base: Any = admin.ModelAdmin) -> tuple[Any, Any]:
        return shop.Customer, type("CustomerAdmin", (base,), {"inlines": [inline]})

    assert check(customers(ReadOrders), (shop.Label, admin.ModelAdmin), (shop.OrderProxy, make_order_admin())) == []
    assert check(customers(Orders)) == ["Orders in CustomerAdmin"]
    assert check(customers(Orders, make_order_admin())) == []
    assert check(customers(Orders, make_order_admin(approval_for=("delete",)))) == ["Orders in CustomerAdmin"]
    kin = check((shop.OrderProxy, admin.ModelAdmin), (shop.RushOrder, admin.ModelAdmin))
    assert kin == ["ModelAdmin of shop.OrderProxy", "ModelAdmin of shop.RushOrder"]
