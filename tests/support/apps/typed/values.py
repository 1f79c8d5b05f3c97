"""What the app asks for: a dataclass, a form and a serializer."""

from dataclasses import dataclass

from django import forms
from pydantic import BaseModel


@dataclass
class Payment:
    cents: int
    reference: str = ""


class Order(BaseModel):
    number: int


class RefundForm(forms.Form):
    cents = forms.IntegerField()
