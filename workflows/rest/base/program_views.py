"""Views for machines: what a project puts around its pages is not around them."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from django.contrib.auth.decorators import login_not_required
from django.db import connections, transaction
from django.http import HttpResponse
from django.views.decorators.csrf import csrf_exempt

View = TypeVar("View", bound=Callable[..., HttpResponse])


def open_to_machines(view: View) -> View:
    """Nobody is sent to a login, no form's token is asked for, and no transaction of the project's is around it."""
    view = csrf_exempt(login_not_required(view))
    for alias in connections:
        view = transaction.non_atomic_requests(using=alias)(view)
    return view
