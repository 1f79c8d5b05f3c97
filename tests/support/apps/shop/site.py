"""The shop in an admin of its own, whose changes take an approval; and the routes to it.

Lives here: registrations and routes; import it once the shop is installed. The site is not the default one, so whatever
loses its way into that one finds nothing.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from types import ModuleType
from typing import Any

from django.conf import settings
from django.contrib import admin
from django.contrib.auth.admin import GroupAdmin, UserAdmin
from django.contrib.auth.models import Group, User
from django.contrib.contenttypes.models import ContentType
from django.test import override_settings
from django.urls import clear_url_caches, include, path

from approvals.required import ApprovalRequiredMixin


def make_order_admin(base: type[Any] | None = None, **attributes: Any) -> type[Any]:
    """An admin of orders that proposes, with these attributes on top."""
    given = {
        "approval_groups": ["finance"],
        "fields": ("code", "amount", "urgent", "due", "customer", "labels", "note"),
    }
    return type("OrderAdmin", (ApprovalRequiredMixin, base or admin.ModelAdmin), {**given, **attributes})


@contextmanager
def open_site(*registered: tuple[Any, Any], routes: Any = ()) -> Iterator[admin.AdminSite]:
    """A site with these models beside the users, under /backoffice/."""
    site = admin.AdminSite(name="backoffice")
    site.register(User, UserAdmin)
    site.register(Group, GroupAdmin)
    for model, kind in registered:
        site.register(model, kind)
    module = ModuleType("tests.shop_routes")
    module.urlpatterns = [  # type: ignore[attr-defined]
        path("backoffice/", site.urls),
        path("admin/", admin.site.urls),
        path("approvals/", include("approvals.urls")),
        *routes,
        path("", include("workflows.urls")),
    ]
    sys.modules[module.__name__] = module
    ContentType.objects.clear_cache()  # the rows of the shop's went with the test that looked at them first
    try:
        with override_settings(ROOT_URLCONF=module.__name__):
            clear_url_caches()
            yield site
    finally:
        del sys.modules[module.__name__]
        clear_url_caches()
        assert module.__name__ != settings.ROOT_URLCONF
