"""API keys: made, found, revoked, replaced.

Invariants owned: the key itself exists only in the answer to whoever made it, everything else knows its SHA-256;
a key that is unknown, revoked or expired opens nothing, and nobody learns which of these it is; a process goes on
taking a revoked key for `REMEMBER_SECONDS` at most.
"""

from __future__ import annotations

import hashlib
import secrets
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from django.db import connections, router, transaction
from django.utils import timezone

from workflows import store
from workflows.durations import parse_delay
from workflows.exceptions import InvalidCall
from workflows.jsontext import check_text
from workflows.models import ApiKey, Workspace

#: What a key may do. `admin` may do all of it.
SCOPES = ("read", "start", "signal", "complete", "operate", "admin")

PREFIX = "hp_"
SHOWN = len(PREFIX) + 8
#: Longer texts are no key of ours, and are not hashed.
LONGEST = 100

REMEMBER_SECONDS = 2.0
REMEMBER_KEYS = 10_000


@dataclass(frozen=True, slots=True)
class Access:
    """What a key opens, as it was a moment ago."""

    id: int
    workspace: int
    slug: str
    scopes: frozenset[str]
    #: None: all of them.
    workflows: tuple[str, ...] | None
    rate: str
    expires_at: datetime | None

    @property
    def actor(self) -> str:
        """Who acted, as the ledger keeps it: names may repeat."""
        return f"key:{self.id}"


def create_key(
    name: str,
    *,
    workspace: Workspace,
    scopes: Iterable[str] = SCOPES,
    workflows: Sequence[str] | None = None,
    expires_at: datetime | None = None,
    rate: str = "",
    actor: str = "",
) -> tuple[ApiKey, str]:
    """Make a key: its row, and the key itself, which nothing can show again.

    >>> row, key = create_key("billing", workspace=default_workspace, scopes=["signal"])
    >>> key.startswith("hp_"), row.scopes
    (True, ['signal'])
    """
    wanted = check_scopes(scopes)
    key = PREFIX + secrets.token_urlsafe(32)
    row = ApiKey.objects.create(
        workspace=workspace,
        name=check_text(name, "a key's name"),
        prefix=key[:SHOWN],
        hash=hash_key(key),
        scopes=wanted,
        workflows=None if workflows is None else list(workflows),
        rate=rate,
        expires_at=expires_at,
        created_by=actor,
    )
    return row, key


def revoke_key(row: ApiKey) -> None:
    """End a key for good; what it did stays told."""
    ApiKey.objects.filter(pk=row.pk, revoked_at=None).update(revoked_at=timezone.now())
    _remembered.clear()


def rotate_key(row: ApiKey, *, grace: object = "24h", actor: str = "") -> tuple[ApiKey, str]:
    """A new key that may do the same; the old one ends after `grace`, so that callers can change over.

    >>> row, key = rotate_key(old_key, grace="1h")
    >>> row.name == old_key.name
    True
    """
    until = timezone.now() + timedelta(seconds=parse_delay(grace))
    with transaction.atomic(using=router.db_for_write(ApiKey)):
        old = ApiKey.objects.select_for_update().get(pk=row.pk)
        if not old.is_usable():
            raise InvalidCall(f"key {old} opens nothing any more; make a new one")
        made = create_key(
            old.name,
            workspace=old.workspace,
            scopes=old.scopes,
            workflows=old.workflows,
            expires_at=old.expires_at,
            rate=old.rate,
            actor=actor,
        )
        if old.expires_at is None or old.expires_at > until:
            ApiKey.objects.filter(pk=old.pk).update(expires_at=until)
    _remembered.clear()
    return made


def check_scopes(scopes: Iterable[str]) -> list[str]:
    """Known scopes, in their order; at least one."""
    wanted = set(scopes)
    if unknown := sorted(wanted - set(SCOPES)):
        raise InvalidCall(f"there is no scope {unknown[0]!r}; there are {', '.join(SCOPES)}")
    if not wanted:
        raise InvalidCall(f"a key without a scope opens nothing; there are {', '.join(SCOPES)}")
    return [scope for scope in SCOPES if scope in wanted]


def hash_key(key: str) -> bytes:
    """What is kept of a key: 256 random bits need no salt and no slow hash.

    >>> len(hash_key("hp_secret"))
    32
    """
    return hashlib.sha256(key.encode()).digest()


#: Hash -> (until when it counts, what it opens). Replacing an entry is one step, so threads need no lock.
_remembered: dict[bytes, tuple[float, Access]] = {}


def find_access(key: str) -> Access | None:
    """What a key opens now; None for whatever is no usable key. At most one statement, and mostly none."""
    if not key.startswith(PREFIX) or len(key) > LONGEST:
        return None
    hashed, now = hash_key(key), time.monotonic()
    if (known := _remembered.get(hashed)) is not None and known[0] > now:
        access = known[1]
        return access if access.expires_at is None or access.expires_at > timezone.now() else None
    row = store.find_key(connections[router.db_for_write(ApiKey)], hashed)
    if row is None:
        _remembered.pop(hashed, None)
        return None
    id, workspace, slug, scopes, workflows, rate, expires_at = row
    access = Access(
        id, workspace, slug, frozenset(scopes), None if workflows is None else tuple(workflows), rate, expires_at
    )
    if len(_remembered) >= REMEMBER_KEYS:
        _remembered.clear()
    _remembered[hashed] = (now + REMEMBER_SECONDS, access)
    return access
