"""System checks of links that answer: their address, and the keys of the tokens in them.

Invariant owned: no check shows a secret, and what only matters where links leave the machine is said before a
deployment only.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from typing import Any
from urllib.parse import urlsplit

from django.conf import settings
from django.core.checks import CheckMessage, Error, Warning
from django.core.exceptions import ImproperlyConfigured
from django.db import DatabaseError, transaction
from django.db.models import Count

from workflows.conf import conf
from workflows.definitions.callback_tokens import RESUME_NAMES, RESUME_VIEW, find_path
from workflows.lifecycle import InteractionStatus
from workflows.models import Interaction
from workflows.operations.asked_database import choose_database

#: The id of the key that `conf` makes of SECRET_KEY under DEBUG.
DEBUG_KEY = "debug"
#: Instances that a hint names.
FEW_IDS = 5


def check_routes() -> Iterator[CheckMessage]:
    """Whether the addresses that callbacks hand out lead anywhere; a process without routes makes none of its own."""
    if not getattr(settings, "ROOT_URLCONF", None):
        return
    if not find_path("token", names=RESUME_NAMES, view=RESUME_VIEW):
        yield Warning(
            f'ROOT_URLCONF ({settings.ROOT_URLCONF!r}) does not include "workflows.urls": partners who answer a '
            "callback at the address that they were given are told 404.",
            hint='Add path("", include("workflows.urls")) to its urlpatterns, or "workflows.urls_resume" for these '
            "addresses alone.",
            id="holdpoint.W045",
        )


def check_links() -> Iterator[CheckMessage]:
    """What links that answer lack, or what makes one less secret than it should be.

    Only before a deployment: whether a project needs links at all shows when it makes the first, and test runs and
    a developer's site make theirs without settings.
    """
    lacking = {}
    for name in ("BASE_URL", "TOKEN_KEYS"):
        try:
            getattr(conf, name.lower())
        except ImproperlyConfigured as error:
            lacking[name] = str(error)
        except (AttributeError, TypeError, ValueError):
            continue  # reported as unreadable
    if lacking:
        names = " and ".join(f'WORKFLOWS["{name}"]' for name in lacking)
        yield Warning(
            f"{names} {'is' if len(lacking) == 1 else 'are'} not set: links for callbacks and approvals "
            "cannot be made.",
            hint=" ".join(lacking.values()),
            id="holdpoint.W032",
        )
    with contextlib.suppress(ImproperlyConfigured, AttributeError, TypeError, ValueError):  # reported above
        base = urlsplit(conf.base_url)
        if base.scheme == "http" and base.hostname not in {"localhost", "127.0.0.1", "::1"}:
            yield Warning(
                'WORKFLOWS["BASE_URL"] begins with http: resume links, which need no other key, travel in the clear.',
                hint=f'Serve the site by TLS and write "https://{base.netloc}".',
                id="holdpoint.W043",
            )
        if settings.SECRET_KEY in conf.token_keys.values():
            yield Warning(
                'WORKFLOWS["TOKEN_KEYS"] holds SECRET_KEY itself: changing the one would end the other\'s links.',
                hint="Make a secret of its own: python -c 'import secrets; print(secrets.token_urlsafe(50))'",
                id="holdpoint.W044",
            )


def check_token_keys(
    app_configs: Any = None, databases: Sequence[str] | None = None, **kwargs: Any
) -> list[CheckMessage]:
    """Whether the keys are there that tokens out there were made with; asked with `check --database` only."""
    alias = choose_database(databases)
    if alias is None:
        return []
    try:
        with transaction.atomic(using=alias):  # before the first migrate there is nothing to ask
            used = count_token_keys(alias)
    except DatabaseError:
        return []
    try:
        known = set(conf.token_keys)
    except (ImproperlyConfigured, AttributeError, TypeError, ValueError):
        known = set()
    missing = {key: count for key, count in used.items() if key not in known}
    found: list[CheckMessage] = []
    if made_here := missing.pop(DEBUG_KEY, 0):
        ids = _list_waiting(alias, DEBUG_KEY)
        found.append(
            Error(
                f"{_count(made_here, 'interaction waits', 'interactions wait')} with links that were made while DEBUG "
                f"was True. Their key, {DEBUG_KEY!r}, is made of SECRET_KEY and exists under DEBUG only: here partners "
                "who answer are told 404, and steps that read such a link again fail.",
                hint=f"Cancel their instances, and start them again where they matter: "
                f"manage.py workflows cancel {' '.join(map(str, ids[:FEW_IDS]))}"
                + (", then check again for more." if len(ids) > FEW_IDS else ""),
                id="holdpoint.E033",
            )
        )
    if missing:
        told = ", ".join(
            f"{key!r} ({_count(count, 'interaction waits', 'interactions wait')} with its tokens)"
            for key, count in sorted(missing.items())
        )
        found.append(
            Error(
                f'WORKFLOWS["TOKEN_KEYS"] lacks keys that parked work needs: {told}. Partners who answer are told 404, '
                "and steps that read such a link again fail.",
                hint="Put each key back after the newer ones, with the secret that it had, until its interactions are "
                "answered. If a secret is gone or was told to somebody, cancel their instances.",
                id="holdpoint.E033",
            )
        )
    return found


def check_webhook_secrets(
    app_configs: Any = None, databases: Sequence[str] | None = None, **kwargs: Any
) -> list[CheckMessage]:
    """Whether the secrets are there that questions wait to be signed with; asked with `check --database` only."""
    alias = choose_database(databases)
    if alias is None:
        return []
    try:
        with transaction.atomic(using=alias):
            waiting = Interaction.objects.using(alias).filter(
                status=InteractionStatus.PENDING, channel="webhook", dispatch_at__isnull=False
            )
            used = dict(waiting.values_list("config__secret").annotate(Count("pk")).order_by())
    except DatabaseError:
        return []
    missing = {name: count for name, count in used.items() if name is not None and name not in _list_secrets()}
    if not missing:
        return []
    told = ", ".join(f"{name!r} ({_count(count, 'question', 'questions')})" for name, count in sorted(missing.items()))
    return [
        Error(
            f'WORKFLOWS["WEBHOOK_SECRETS"] lacks names that questions wait to be signed with: {told}. They are tried '
            "in vain, and fail in the end.",
            hint="Put each back with its secret, or with a new one that its receiver knows; then "
            "`manage.py workflows redrive --channel webhook`.",
            id="holdpoint.E035",
        )
    ]


def _list_secrets() -> set[str]:
    try:
        return set(conf.webhook_secrets)
    except (AttributeError, TypeError, ValueError):  # reported as unreadable
        return set()


def _count(number: int, one: str, many: str) -> str:
    return f"{number} {one if number == 1 else many}"


def _list_waiting(alias: str, key: str) -> list[Any]:
    """The first instances that wait for a token of this key, and one more than are named."""
    rows = Interaction.objects.using(alias).filter(status=InteractionStatus.PENDING, token_key=key)
    return list(rows.order_by("instance_id").values_list("instance_id", flat=True).distinct()[: FEW_IDS + 1])


def count_token_keys(alias: str) -> dict[str, int]:
    """Key id -> how many pending interactions have a token made with it."""
    rows = Interaction.objects.using(alias).filter(status=InteractionStatus.PENDING, token_key__isnull=False)
    return dict(rows.values_list("token_key").annotate(Count("pk")).order_by())
