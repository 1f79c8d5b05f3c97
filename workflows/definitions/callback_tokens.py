"""Tokens: what a partner holds to answer one interaction, and the address that takes it.

Lives here: making, reading and checking them. Invariants owned: a token can be derived again from what the
rows hold and a key of `TOKEN_KEYS`, so it is never stored, and whoever reads the database cannot make one; its
MAC covers key, workspace, interaction, visit and purpose, so it answers nothing else; it has one spelling only;
and no message or log line of this module contains one. Other apps make tokens of a purpose of their own, which may
say for whom ("review:7").

    base64url, without padding, of
    version 1 | length, key id | length, purpose | interaction, 16 bytes | HMAC-SHA256, 32 bytes

Workspace and visit are covered and not told: they come from the row (`check_token`).
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
from collections.abc import Iterable
from dataclasses import dataclass
from uuid import UUID

from django.conf import settings
from django.core.exceptions import ImproperlyConfigured
from django.urls import NoReverseMatch, Resolver404, get_script_prefix, resolve, reverse

from workflows.conf import conf
from workflows.exceptions import InvalidToken

RESUME = "resume"
MAX_LENGTH = 1024
#: Names and module of the view that takes answers; "resume" where its routes are included alone.
RESUME_NAMES = ("workflows:resume", "resume")
RESUME_VIEW = "workflows.callbacks.token_view"

_VERSION = 1
_MAC_BYTES = hashlib.sha256().digest_size
#: The same secret used anywhere else, for anything else, yields nothing that is good here.
_DOMAIN = b"holdpoint token 1"


def make_token(
    interaction: UUID, *, workspace: int, visit: int, purpose: str = RESUME, key_id: str | None = None
) -> tuple[str, str]:
    """The token of an interaction and the id of the key that signed it: the newest, or the one named.

    >>> token, key_id = make_token(interaction.id, workspace=1, visit=1)
    >>> make_token(interaction.id, workspace=1, visit=1, key_id=key_id)[0] == token
    True
    """
    keys = conf.token_keys
    chosen = next(iter(keys)) if key_id is None else key_id
    if chosen not in keys:
        raise ImproperlyConfigured(
            f'WORKFLOWS["TOKEN_KEYS"] has no key {chosen!r}, and a token made with it is still waited for. Put the key '
            "back, after the newer ones; `check --database default` says how many interactions need it."
        )
    names = chosen.encode(), purpose.encode()
    if any(not 0 < len(name) < 256 for name in names):
        raise ImproperlyConfigured(
            f'the id of a key in WORKFLOWS["TOKEN_KEYS"] has 1 to 255 bytes, {chosen!r:.40} has {len(names[0])}'
        )
    mac = _sign(keys[chosen], chosen, workspace, interaction, visit, purpose)
    packed = b"".join((bytes([_VERSION]), *map(_pack, names), interaction.bytes, mac))
    return _encode(packed), chosen


def hash_token(token: str) -> bytes:
    """What a row keeps of its token, and is found by."""
    return hashlib.sha256(token.encode(errors="surrogatepass")).digest()


def verify_token(token: str) -> tuple[UUID, str]:
    """Interaction and purpose that a token claims; it is genuine only once `check_token` says so.

    >>> verify_token(token)
    (UUID('01995c0e-…'), 'resume')
    """
    read = _read(token)
    return read.interaction, read.purpose


def check_token(token: str, *, workspace: int, visit: int) -> bool:
    """Whether this site made the token for this workspace and visit; compared in constant time."""
    try:
        read = _read(token)
    except InvalidToken:
        return False
    made = _sign(read.secret, read.key_id, workspace, read.interaction, visit, read.purpose)
    return hmac.compare_digest(made, read.mac)


def resume_url(token: str) -> str:
    """The address that takes the answer, the same in every process of a site.

    >>> resume_url(token)
    'https://holdpoint.example/resume/AQNkZXYG…'
    """
    path = find_path(token, names=RESUME_NAMES, view=RESUME_VIEW)
    return write_url(path or f"/resume/{token}")


def write_url(path: str) -> str:
    """The absolute address of a path of this site (without the prefix that a server may have told a request).

    >>> write_url("/approvals/")
    'https://holdpoint.example/approvals/'
    """
    # A request may run below a prefix that its server told it, a worker never does: the mount point is
    # taken from settings only, so that both give out the same address.
    base, mount = conf.base_url, (settings.FORCE_SCRIPT_NAME or "").rstrip("/")
    return f"{base}{'' if base.endswith(mount) else mount}{path}"


def find_path(token: str, *, names: Iterable[str], view: str) -> str:
    """Where this project serves the view (of this module) that takes tokens; empty where it has no such route, which
    a worker's project need not have.

    >>> find_path(token, names=("workflows:resume",), view="workflows.callbacks.token_view")
    '/resume/AQNkZXYG…'
    """
    urlconf = getattr(settings, "ROOT_URLCONF", None)
    for name in names if urlconf else ():
        try:
            path = reverse(name, urlconf=urlconf, kwargs={"token": token})
            path = path.removeprefix(get_script_prefix().rstrip("/"))
            # "resume" without our namespace may as well be somebody's curriculum vitae.
            if resolve(path, urlconf).func.__module__ == view:
                return path
        except (NoReverseMatch, Resolver404):
            continue
    return ""


@dataclass(frozen=True, slots=True)
class _Read:
    key_id: str
    secret: str
    purpose: str
    interaction: UUID
    mac: bytes


def _read(token: str) -> _Read:
    packed = _decode(token)
    try:
        if packed[0] != _VERSION:
            raise InvalidToken
        name, rest = _unpack(packed[1:])
        purpose, rest = _unpack(rest)
        if len(rest) != 16 + _MAC_BYTES:
            raise InvalidToken
        secret = conf.token_keys.get(name)
        if secret is None:
            raise InvalidToken
        return _Read(name, secret, purpose, UUID(bytes=rest[:16]), rest[16:])
    except (IndexError, UnicodeDecodeError):
        raise InvalidToken from None


def _sign(secret: str, key_id: str, workspace: int, interaction: UUID, visit: int, purpose: str) -> bytes:
    parts = key_id.encode(), str(workspace).encode(), interaction.bytes, str(visit).encode(), purpose.encode()
    # Each part with its length: no two different lists of parts give the same text.
    return hmac.digest(secret.encode(), _DOMAIN + b"".join(map(_pack, parts)), "sha256")


def _pack(part: bytes) -> bytes:
    return bytes([len(part)]) + part


def _unpack(packed: bytes) -> tuple[str, bytes]:
    end = 1 + packed[0]
    if not 1 < end <= len(packed):
        raise InvalidToken
    return packed[1:end].decode(), packed[end:]


def _encode(packed: bytes) -> str:
    return base64.urlsafe_b64encode(packed).rstrip(b"=").decode()


def _decode(token: str) -> bytes:
    if not token.isascii() or not 0 < len(token) <= MAX_LENGTH:
        raise InvalidToken
    try:
        packed = base64.urlsafe_b64decode(token + "=" * (-len(token) % 4))
    except (binascii.Error, ValueError):
        raise InvalidToken from None
    # base64 reads several spellings as the same bytes; a token has one.
    if _encode(packed) != token:
        raise InvalidToken
    return packed
