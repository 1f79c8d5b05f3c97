"""API keys: made, found, changed, replaced, revoked.

Invariants owned: the key itself exists only in the answer to whoever made it, everything else knows its SHA-256;
a key that is unknown, revoked or expired opens nothing, and nobody learns which of these it is; whatever is changed
about a key counts at once in the process that changes it, and after `REMEMBER_SECONDS` in every other.
"""

from __future__ import annotations

import hashlib
import secrets
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from django.db import connections, router, transaction
from django.utils import timezone
from django.views.decorators.debug import sensitive_variables

from workflows import store
from workflows.api.arguments import read_actor, read_many
from workflows.conf.flow_settings import parse_rate
from workflows.exceptions import InvalidCall, show
from workflows.models import ApiKey, Workspace
from workflows.values.durations import parse_delay
from workflows.values.json_text import check_text

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


@sensitive_variables("key")
def create_key(
    name: str,
    *,
    workspace: Workspace,
    scopes: Iterable[str] = SCOPES,
    workflows: Sequence[str] | None = None,
    expires_at: datetime | None = None,
    rate: str = "",
    actor: object = "",
) -> tuple[ApiKey, str]:
    """Make a key: its row, and the key itself, which nothing can show again.

    >>> row, key = create_key("billing", workspace=default_workspace, scopes=["signal"])
    >>> key.startswith("hp_"), row.scopes
    (True, ['signal'])
    """
    columns = _read_columns(
        {"name": name, "scopes": scopes, "workflows": workflows, "expires_at": expires_at, "rate": rate}
    )
    key = PREFIX + secrets.token_urlsafe(32)
    row = ApiKey.objects.create(
        workspace=workspace, prefix=key[:SHOWN], hash=hash_key(key), created_by=read_actor(actor), **columns
    )
    return row, key


def change_key(row: ApiKey, **changes: Any) -> None:
    """Give a key another name, scopes, workflows, expires_at or rate; what is not named stays, whoever changes it.

    >>> change_key(row, scopes=["read"], rate="600/m")
    """
    columns = _read_columns(changes)
    if columns and not ApiKey.objects.filter(pk=row.pk, revoked_at=None).update(**columns):
        raise InvalidCall(f"key {row} is revoked, and stays as it was; make a new one")
    for column, value in columns.items():
        setattr(row, column, value)
    forget_keys()


def revoke_key(row: ApiKey) -> bool:
    """End a key for good; what it did stays told. False for one that was revoked before."""
    now = timezone.now()
    ended = bool(ApiKey.objects.filter(pk=row.pk, revoked_at=None).update(revoked_at=now))
    if ended:
        row.revoked_at = now
    forget_keys()
    return ended


class _Unsaid:
    """The type of UNSAID."""


UNSAID = _Unsaid()


def rotate_key(
    row: ApiKey, *, grace: object = "24h", expires_at: datetime | _Unsaid | None = UNSAID, actor: object = ""
) -> tuple[ApiKey, str]:
    """A new key that may do the same; the old one ends after `grace`, so that callers can change over.

    When the new one is to end has to be said (`expires_at`, None for never) where the old one has an end: it may be
    about to pass, or be the grace of an earlier rotation, and so is nothing to go by.

    >>> row, key = rotate_key(old_key, grace="1h")
    >>> row.name == old_key.name
    True
    """
    until = timezone.now() + timedelta(seconds=parse_delay(grace))
    if isinstance(expires_at, _Unsaid):
        if row.expires_at is not None:
            raise InvalidCall(
                f"key {row} ends at {row.expires_at:%Y-%m-%d %H:%M:%S %Z}: say when the new one is to end "
                "(expires_at, None for never)"
            )
        expires_at = None
    with transaction.atomic(using=router.db_for_write(ApiKey)):
        old = ApiKey.objects.select_for_update().filter(pk=row.pk).first()
        if old is None or not old.is_usable():
            raise InvalidCall(f"key {row} opens nothing any more; make a new one")
        made = create_key(
            old.name,
            workspace=old.workspace,
            scopes=old.scopes,
            workflows=old.workflows,
            expires_at=expires_at,
            rate=old.rate,
            actor=actor,
        )
        row.expires_at = until if old.expires_at is None else min(old.expires_at, until)
        ApiKey.objects.filter(pk=old.pk).update(expires_at=row.expires_at)
        forget_keys()
    return made


def check_scopes(scopes: Iterable[str]) -> list[str]:
    """Known scopes, in their order; at least one."""
    wanted = read_many(scopes, "scopes")
    if unknown := [scope for scope in wanted if scope not in SCOPES]:
        raise InvalidCall(f"there is no scope {show(unknown[0])}; there are {', '.join(SCOPES)}")
    if not wanted:
        raise InvalidCall(f"a key without a scope opens nothing; there are {', '.join(SCOPES)}")
    return [scope for scope in SCOPES if scope in wanted]


def check_workflows(names: Iterable[str] | None) -> list[str] | None:
    """Names of workflows, each once, or None for all of them. They need not be registered here, or yet."""
    if names is None:
        return None
    wanted = [check_text(name, "a workflow's name") for name in read_many(names, "workflows")]
    if not wanted:
        raise InvalidCall("a key for no workflow opens nothing; name some, or pass None for all of them")
    return sorted(set(wanted))


def check_rate(rate: object) -> str:
    """A rate as it is written, or nothing for the site's own."""
    if rate == "":
        return ""
    parse_rate(rate)
    return str(rate)


def check_expiry(moment: object) -> datetime | None:
    """A moment to come, or None for never."""
    if moment is None:
        return None
    now = timezone.now()
    if not isinstance(moment, datetime):
        raise InvalidCall(f"expires_at must be a datetime, not {type(moment).__name__} ({show(moment)})")
    if timezone.is_naive(moment) is not timezone.is_naive(now):
        raise InvalidCall("expires_at must be as timezone.now() is: with a time zone if the site uses them (USE_TZ)")
    if moment <= now:
        raise InvalidCall("expires_at is in the past: to end a key now, revoke it")
    return moment


def hash_key(key: str) -> bytes:
    """What is kept of a key: 256 random bits need no salt and no slow hash.

    >>> len(hash_key("hp_secret"))
    32
    """
    return hashlib.sha256(key.encode()).digest()


class Keyring:
    """What one process remembers of the keys that it has seen.

    A key is remembered in the dictionary that stood when its look into the database began, and forgetting means a new
    one: a look that began before a revocation and ends after it leaves nothing behind. So threads need no lock.
    """

    def __init__(self, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        #: Hash -> (until when it counts, what it opens).
        self._known: dict[bytes, tuple[float, Access]] = {}

    @sensitive_variables("key")
    def find(self, key: str) -> Access | None:
        """What a key opens now; None for whatever is no usable key. At most one statement, and mostly none."""
        if not key.startswith(PREFIX) or len(key) > LONGEST or not key.isascii():
            return None
        hashed, now, known = hash_key(key), self._clock(), self._known
        until, access = known.get(hashed, (now, None))
        if access is None or until <= now:
            access = _look_up(hashed)
            if access is None:
                known.pop(hashed, None)
                return None
            if len(known) >= REMEMBER_KEYS:
                known.clear()
            known[hashed] = (now + REMEMBER_SECONDS, access)
        return access if access.expires_at is None or access.expires_at > timezone.now() else None

    def forget(self) -> None:
        """Look every key up again."""
        self._known = {}


_keyring = Keyring()


def find_access(key: str) -> Access | None:
    """What a key opens now; None for whatever is no usable key. At most one statement, and mostly none."""
    return _keyring.find(key)


def forget_keys() -> None:
    """Something about keys has changed: what this process remembers of them counts no more.

    Once more when the caller's transaction commits: until then other threads look up what was true before.
    """
    _keyring.forget()
    transaction.on_commit(_keyring.forget, using=router.db_for_write(ApiKey))


def _look_up(hashed: bytes) -> Access | None:
    row = store.find_key(connections[router.db_for_write(ApiKey)], hashed)
    if row is None:
        return None
    id, workspace, slug, scopes, workflows, rate, expires_at = row
    names = None if workflows is None else tuple(workflows)
    return Access(id, workspace, slug, frozenset(scopes), names, rate, expires_at)


_CHECKS: Mapping[str, Callable[[Any], Any]] = {
    "name": lambda name: check_text(name, "a key's name"),
    "scopes": check_scopes,
    "workflows": check_workflows,
    "rate": check_rate,
    "expires_at": check_expiry,
}


def _read_columns(given: Mapping[str, Any]) -> dict[str, Any]:
    """Whatever may be said about a key, checked."""
    if unknown := sorted(given.keys() - _CHECKS):
        raise InvalidCall(f"{unknown[0]} of a key cannot be changed; there are {', '.join(_CHECKS)}")
    return {name: _CHECKS[name](value) for name, value in given.items()}
