"""Who did something, in people's words: the accounts and API keys behind actor texts.

Invariant owned: one statement for all users and one for all keys of a page, and none where there are none.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from django.apps import apps
from django.conf import settings
from django.core.exceptions import ValidationError
from django.db.models import Field
from django.http import HttpRequest
from django.urls import reverse
from django.utils.html import format_html
from django.utils.safestring import SafeString

from workflows.admin.markup import show_text
from workflows.admin.tenancy import keep_own
from workflows.models import ApiKey


def find_actors(actors: Iterable[str], request: HttpRequest, site: str) -> dict[str, SafeString]:
    """The names behind "user:7" and "key:7"; a key's name leads to its page for those who may open that."""
    wanted = set(actors)
    model = apps.get_model(settings.AUTH_USER_MODEL)
    names: dict[str, SafeString] = {}
    if users := _read_ids(wanted, "user", model._meta.pk):
        for user in model._default_manager.filter(pk__in=users):
            actor = users[user.pk]
            names[actor] = show_text(f"{user.get_username()} ({actor})")
    if keys := _read_ids(wanted, "key", ApiKey._meta.pk):
        linked = request.user.has_perm("holdpoint.view_apikey") or request.user.has_perm("holdpoint.change_apikey")
        for pk, name in keep_own(ApiKey.objects.filter(pk__in=keys), request).values_list("pk", "name"):
            names[keys[pk]] = _show_key(pk, name, keys[pk], site if linked else None)
    return names


def show_actor(actor: str, names: Mapping[str, SafeString]) -> SafeString:
    """A name with the account or key behind it, or the actor as it was given."""
    return names.get(actor) or show_text(actor)


def _show_key(pk: int, name: str, actor: str, site: str | None) -> SafeString:
    shown = show_text(name, 40)
    if site is not None:
        url = reverse("admin:holdpoint_apikey_change", args=[pk], current_app=site)
        shown = format_html('<a href="{}">{}</a>', url, shown)
    return format_html('{} <span class="hp-quiet">({})</span>', shown, actor)


def _read_ids(actors: Iterable[str], kind: str, field: Field[Any, Any]) -> dict[Any, str]:
    """The primary keys in the texts of one kind; a text that only looks like one is left out."""
    found: dict[Any, str] = {}
    for actor in actors:
        prefix, _colon, key = actor.partition(":")
        try:
            if prefix == kind:
                pk = field.to_python(key)
                field.run_validators(pk)
                found[pk] = actor
        except (ValidationError, ValueError, OverflowError):
            continue
    return found
