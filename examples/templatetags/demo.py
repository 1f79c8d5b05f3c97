"""Where the demo's own page is, for templates of other apps."""

from django import template
from django.conf import settings
from django.urls import reverse

register = template.Library()


@register.simple_tag
def demo_address() -> str:
    """The page that asks for something; empty without DEBUG, because then there is none.

    >>> Template("{% load demo %}{% demo_address %}").render(Context())
    ''
    """
    return reverse("demo:new") if settings.DEBUG else ""
