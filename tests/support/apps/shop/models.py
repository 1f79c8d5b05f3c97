"""What the shop sells and to whom."""

from __future__ import annotations

import uuid
from decimal import Decimal

from django.contrib.postgres.fields import ArrayField, IntegerRangeField
from django.core.exceptions import ValidationError
from django.core.serializers.json import DjangoJSONEncoder
from django.core.validators import MinValueValidator
from django.db import models
from django.db.models.fields.files import FileDescriptor
from django.utils.translation import gettext_lazy as _


class Customer(models.Model):
    name = models.CharField(max_length=200)
    code = models.CharField(max_length=20, unique=True)
    blocked = models.BooleanField(default=False)

    def __str__(self):
        if self.name == "query":
            list(Customer.objects.raw("SELECT nonsense"))
        if self.name == "broken":
            raise RuntimeError("no name")
        return self.name


class Label(models.Model):
    id = models.UUIDField(primary_key=True, default=uuid.uuid4)
    name = models.CharField(max_length=50)

    def __str__(self):
        return self.name


class Status(models.TextChoices):
    DRAFT = "draft", _("Enter a number.")  # texts that Django itself translates
    PAID = "paid", _("Yes")


class VaultField(models.CharField):
    secret = True


class Order(models.Model):
    code = models.CharField("order code", max_length=40, unique=True)
    amount = models.DecimalField(max_digits=12, decimal_places=2, default=Decimal("1240.00"))
    amount_currency = models.CharField(max_length=3, default="EUR")
    total = models.DecimalField(max_digits=12, decimal_places=3, null=True, blank=True)
    unit = models.CharField(max_length=3, blank=True)
    quantity = models.IntegerField(default=1, validators=[MinValueValidator(1)])
    weight = models.FloatField(null=True, blank=True)
    status = models.CharField(_("Time"), max_length=10, choices=Status, default=Status.DRAFT)
    level = models.SmallIntegerField(choices=[("low", [(1, "One"), (2, "Two")]), (3, "Three")], null=True, blank=True)
    urgent = models.BooleanField(default=False)
    checked = models.BooleanField(null=True, blank=True)
    due = models.DateField(null=True, blank=True)
    opens = models.TimeField(null=True, blank=True)
    placed = models.DateTimeField(null=True, blank=True)
    lead = models.DurationField(null=True, blank=True)
    reference = models.UUIDField(null=True, blank=True)
    address = models.GenericIPAddressField(null=True, blank=True)
    options = models.JSONField(default=dict, blank=True, encoder=DjangoJSONEncoder)
    note = models.TextField(blank=True)
    nickname = models.CharField(max_length=400, null=True, blank=True)
    numbers = ArrayField(models.IntegerField(), default=list, blank=True)
    span = IntegerRangeField(null=True, blank=True)
    customer = models.ForeignKey(Customer, models.PROTECT, related_name="orders", null=True, blank=True)
    payer = models.ForeignKey(Customer, models.PROTECT, related_name="+", null=True, blank=True)
    referrer = models.ForeignKey(
        Customer,
        models.PROTECT,
        to_field="code",
        related_name="+",
        null=True,
        blank=True,
        limit_choices_to={"blocked": False},
    )
    labels = models.ManyToManyField(Label, blank=True)
    contacts = models.ManyToManyField(Customer, blank=True, related_name="+", limit_choices_to={"blocked": False})
    contract = models.FileField(max_length=60, blank=True)
    scan = models.BinaryField(editable=True, default=b"")
    api_token = models.CharField(max_length=60, blank=True)
    iban = models.CharField(max_length=40, blank=True)
    vault = VaultField(max_length=40, blank=True)
    inner = models.CharField(max_length=10, editable=False, default="x")
    created = models.DateTimeField(auto_now_add=True)
    updated = models.DateTimeField(auto_now=True)
    doubled = models.GeneratedField(
        expression=models.F("quantity") * 2, output_field=models.IntegerField(), db_persist=True
    )

    approval_secrets = ("iban",)

    class Meta:
        constraints = [
            models.CheckConstraint(
                condition=~models.Q(urgent=True, due=None),
                name="shop_urgent_has_due",
                violation_error_message="an urgent order needs a date",
            ),
            models.UniqueConstraint(fields=["customer", "reference"], name="shop_one_reference"),
        ]

    def __str__(self):
        return f"Order {self.code}"

    def clean(self):
        self.unit = self.unit.upper()
        if self.nickname == "nobody":
            raise ValidationError("nobody may be called so")
        if self.nickname == "note":
            raise ValidationError({"note": "a note is missing"})


class Invoice(models.Model):
    """The one in the examples of docstrings."""

    number = models.CharField(max_length=20)
    amount = models.DecimalField(max_digits=12, decimal_places=2)
    amount_currency = models.CharField(max_length=3, default="EUR")
    due = models.DateField()
    customer = models.ForeignKey(Customer, models.PROTECT, related_name="+")
    watchers = models.ManyToManyField(Customer, related_name="+")
    api_token = models.CharField(max_length=20, blank=True)

    def __str__(self):
        return f"Invoice {self.number}"


class OrderProxy(Order):
    approval_secrets = ("note",)

    class Meta:
        proxy = True

    def __str__(self):
        return f"Proxy {self.code}"


class RushOrder(Order):
    hours = models.IntegerField("hours left", default=4)


class PictureFile(FileDescriptor):
    """Reads the file when it is set, as an image's does for its size."""

    def __set__(self, instance, value):
        super().__set__(instance, value)
        if value and str(value) == "missing.png":
            raise FileNotFoundError(str(value))


class PictureField(models.FileField):
    descriptor_class = PictureFile


class Line(models.Model):
    pk = models.CompositePrimaryKey("order_code", "position")
    order_code = models.CharField(max_length=40)
    position = models.IntegerField()
    text = models.CharField(max_length=40, blank=True)
    stamp = models.DateTimeField(null=True, blank=True)
    picture = PictureField(blank=True)

    def __str__(self):
        return f"{self.order_code}/{self.position}"

    def save(self, *args, **options):
        if self.text == "refuse":
            raise ValidationError({"text": "refused when it is saved"})
        super().save(*args, **options)


class Handled(models.Model):
    """Points to a row whose key is itself a relation, and hides some of its own rows."""

    class Visible(models.Manager):
        def get_queryset(self):
            return super().get_queryset().filter(hidden=False)

    rush = models.ForeignKey(RushOrder, models.CASCADE, related_name="+", null=True, blank=True)
    proxy = models.ForeignKey(OrderProxy, models.CASCADE, related_name="+", null=True, blank=True)
    hidden = models.BooleanField(default=False)

    objects = Visible()

    def __str__(self):
        return "handled"
