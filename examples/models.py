"""What the examples' people decide about: rows as any project has them, kept small."""

from __future__ import annotations

from typing import ClassVar

from django.contrib.staticfiles.storage import staticfiles_storage
from django.core.files.storage import Storage
from django.db import models


class Invoice(models.Model):
    """Something that a customer has paid."""

    class Status(models.TextChoices):
        PAID = "paid", "Paid"
        REFUNDED = "refunded", "Refunded"

    number = models.CharField(max_length=20, unique=True)
    customer = models.CharField(max_length=100)
    amount = models.DecimalField(max_digits=12, decimal_places=2)
    amount_currency = models.CharField("currency", max_length=3, default="EUR")
    refunded = models.DecimalField(max_digits=12, decimal_places=2, default=0)
    refunded_currency = models.CharField("currency of the refund", max_length=3, default="EUR")
    status = models.CharField(max_length=10, choices=Status, default=Status.PAID)

    def __str__(self) -> str:
        return f"Invoice {self.number}"


class Supplier(models.Model):
    """A company that would like to sell us something."""

    class Status(models.TextChoices):
        CANDIDATE = "candidate", "Candidate"
        ACTIVE = "active", "Active"
        DECLINED = "declined", "Declined"

    name = models.CharField(max_length=100)
    country = models.CharField(max_length=50)
    rating = models.CharField(max_length=10, blank=True)
    payment_days = models.PositiveIntegerField("days until payment", default=30)
    bank = models.CharField("bank", max_length=50, blank=True)
    account = models.CharField("bank account", max_length=40, blank=True)
    status = models.CharField(max_length=10, choices=Status, default=Status.CANDIDATE)

    def __str__(self) -> str:
        return self.name


class Article(models.Model):
    """A text, and whether the world may read it."""

    title = models.CharField(max_length=200)
    body = models.TextField()
    is_published = models.BooleanField("published", default=False)

    def __str__(self) -> str:
        return self.title


class Contract(models.Model):
    """What we would sign, and with whom."""

    party = models.CharField("with", max_length=100)
    title = models.CharField(max_length=200)
    value = models.DecimalField(max_digits=12, decimal_places=2)
    value_currency = models.CharField("currency", max_length=3, default="EUR")
    months = models.PositiveIntegerField("runs for months")
    is_signed = models.BooleanField("signed", default=False)

    def __str__(self) -> str:
        return f"{self.title}, {self.party}"


class Service(models.Model):
    """Something that runs on our servers, as it runs there now."""

    name = models.CharField(max_length=50, unique=True)
    version = models.CharField(max_length=20)
    replicas = models.PositiveIntegerField(default=2)
    released_on = models.DateField("released on", null=True)

    def __str__(self) -> str:
        return self.name


class Access(models.Model):
    """What somebody may do in one of our systems, and until when."""

    class Level(models.TextChoices):
        NONE = "none", "None"
        READ = "read", "Read"
        WRITE = "write", "Read and write"

    person = models.CharField(max_length=100)
    system = models.CharField(max_length=50)
    level = models.CharField(max_length=10, choices=Level, default=Level.NONE)
    areas = models.CharField(max_length=200, blank=True)
    until = models.DateField(null=True)

    class Meta:
        verbose_name_plural = "access"

    def __str__(self) -> str:
        return f"{self.system} for {self.person}"


def choose_storage() -> Storage:
    """Papers are static files here: they are really served, and nobody uploads any."""
    return staticfiles_storage


class BookedPayment(models.Model):
    """A payment of a file that was booked."""

    file = models.TextField()
    reference = models.CharField(max_length=20)
    status = models.CharField(max_length=10)

    class Meta:
        constraints: ClassVar = [models.UniqueConstraint(fields=["file", "reference"], name="holdpoint_example_booked")]

    def __str__(self) -> str:
        return f"{self.reference} {self.status}"


class Paper(models.Model):
    """A file that people should look at before they decide."""

    label = models.CharField(max_length=100)
    file = models.FileField(storage=choose_storage, unique=True)

    def __str__(self) -> str:
        return self.label
