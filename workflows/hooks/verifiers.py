"""Verifiers: whether a request was sent by the provider, by the signature over the bytes of its body.

Lives here: three published schemes, each with several secrets. Must not live here: parsing a body. Invariants owned:
signatures are compared in constant time; an empty or missing secret verifies nothing; no message of an error, and no
`repr`, holds a secret; secrets that a function returns are asked for anew at every request.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, TypeAlias
from uuid import uuid4

from workflows.exceptions import InvalidDefinition, WorkflowError
from workflows.outbound.webhook_signature import sign

if TYPE_CHECKING:
    from django.http import HttpRequest

    from workflows.hooks.message import HookMessage

Secret: TypeAlias = str | bytes
#: One or several, the newest first, or a function that returns them.
Secrets: TypeAlias = Secret | Iterable[Secret] | Callable[[], Secret | Iterable[Secret] | None]

#: Seconds between the moment in a signature and this server's clock.
TOLERANCE = 300
#: What no clock shows is no moment, and is not computed with.
_MOST_DIGITS = 15


class NotVerified(WorkflowError):
    """A request to a hook was not sent by its provider; the message is told to whoever sent it."""

    def __init__(self, reason: str = "the request is not signed as this hook wants it") -> None:
        super().__init__(reason)


class NoSecret(WorkflowError):
    """A verifier has no secret, or one that cannot be used; nothing is verified before that is mended."""


@dataclass(frozen=True, slots=True)
class Verifier:
    """A scheme with its secrets. Called with a request it returns True, or raises `NotVerified`."""

    secrets: Secrets = field(repr=False)

    def __post_init__(self) -> None:
        if callable(self.secrets):
            return
        if not isinstance(self.secrets, str | bytes) and hasattr(self.secrets, "__iter__"):
            object.__setattr__(self, "secrets", tuple(self.secrets))  # one that can be walked through again
        try:
            self.list_keys()
        except NoSecret as error:
            raise InvalidDefinition(
                f"{type(self).__name__}: {error}; where it is known later, pass a function: lambda: settings.SECRETS"
            ) from None

    def __call__(self, request: HttpRequest) -> Literal[True]:
        raise NotImplementedError

    def find_id(self, message: HookMessage) -> Any:
        """The provider's own id of the message."""
        raise NotImplementedError

    def list_keys(self) -> list[bytes]:
        """The keys of the signatures; `NoSecret` where there is none to be used."""
        try:
            found: Any = self.secrets() if callable(self.secrets) else self.secrets
        except Exception as error:
            # Its message may hold what was read.
            raise NoSecret(f"its secret cannot be read ({type(error).__name__})") from None
        if isinstance(found, str | bytes):
            found = [found]
        listed = list(found) if isinstance(found, Iterable) else []
        if not listed or not all(isinstance(one, str | bytes) and one.strip() for one in listed):
            raise NoSecret("it has no secret, or an empty one")
        return [self.read_key(one) for one in listed]

    def read_key(self, secret: Secret) -> bytes:
        """The key of a signature, from a secret as the provider shows it."""
        return secret.encode() if isinstance(secret, str) else secret

    def check_signatures(self, signed: bytes, sent: Sequence[bytes], write: Callable[[bytes], bytes]) -> None:
        """That one of the signatures was made with one of the keys; `write` spells a MAC as the scheme does."""
        for key in self.list_keys():
            expected = write(hmac.digest(key, signed, "sha256"))
            for one in sent:
                if hmac.compare_digest(expected, one):
                    return
        raise NotVerified("no signature of the request was made with a secret of this hook")


def _write_hex(mac: bytes) -> bytes:
    return mac.hex().encode()


def _encode(header: str) -> bytes:
    """A header as bytes, whatever stands in it."""
    return header.encode("utf-8", "surrogatepass")


def _read_header(request: HttpRequest, name: str) -> str:
    found: str | None = request.headers.get(name)
    if not found:
        raise NotVerified(f"the request lacks the header {name}")
    return found


def _check_moment(text: str, tolerance: float) -> None:
    if not (text.isascii() and text.isdigit() and len(text) <= _MOST_DIGITS):
        raise NotVerified("the moment of the signature is no whole number of seconds since 1970")
    if abs(time.time() - int(text)) > tolerance:
        raise NotVerified(f"the moment of the signature is more than {tolerance:g} s away from this server's clock")


def _check_tolerance(tolerance: object) -> None:
    if isinstance(tolerance, bool) or not isinstance(tolerance, int | float) or not 0 < tolerance < float("inf"):
        raise InvalidDefinition(f"tolerance is a number of seconds above zero, not {tolerance!r:.60}")


@dataclass(frozen=True, slots=True)
class StandardWebhooks(Verifier):
    """Headers `webhook-id`, `webhook-timestamp` and `webhook-signature`."""

    tolerance: float = TOLERANCE
    prefix: str = "webhook"

    def __call__(self, request: HttpRequest) -> Literal[True]:
        id, moment = _read_header(request, f"{self.prefix}-id"), _read_header(request, f"{self.prefix}-timestamp")
        signatures = _read_header(request, f"{self.prefix}-signature").split()
        sent = [_encode(one[3:]) for one in signatures if one.startswith("v1,")]
        if not id.isascii():
            raise NotVerified(f"the header {self.prefix}-id is not in ASCII")
        self.check_signatures(f"{id}.{moment}.".encode() + request.body, sent, base64.b64encode)
        _check_moment(moment, self.tolerance)
        return True

    def find_id(self, message: HookMessage) -> Any:
        """It is signed together with the body."""
        return message.headers[f"{self.prefix}-id"]

    def read_key(self, secret: Secret) -> bytes:
        """Base64, with or without "whsec_" before it and "=" behind it; bytes are the key itself."""
        if isinstance(secret, bytes):
            return secret
        text = secret.strip().removeprefix("whsec_").rstrip("=")
        try:
            key = base64.b64decode(text + "=" * (-len(text) % 4), validate=True)
        except (binascii.Error, ValueError):
            raise NoSecret('a secret of it is not base64; write it as the provider shows it, "whsec_…"') from None
        if not key:
            raise NoSecret("it has no secret, or an empty one")
        return key

    def sign(self, body: bytes, *, id: str = "", at: float | None = None) -> dict[str, str]:
        """The headers with which a provider would send this body: for tests."""
        headers = sign(id or f"msg_{uuid4().hex}", int(time.time() if at is None else at), body, self.list_keys())
        return {f"{self.prefix}{name.removeprefix('webhook')}": value for name, value in headers.items()}


@dataclass(frozen=True, slots=True)
class Stripe(Verifier):
    """The header `Stripe-Signature: t=…,v1=…`, over the moment and the body."""

    tolerance: float = TOLERANCE

    def __call__(self, request: HttpRequest) -> Literal[True]:
        parts = [part.strip().partition("=")[::2] for part in _read_header(request, "Stripe-Signature").split(",")]
        moment = next((value for name, value in parts if name == "t"), "")
        sent = [_encode(value) for name, value in parts if name == "v1"]
        self.check_signatures(_encode(moment) + b"." + request.body, sent, _write_hex)
        _check_moment(moment, self.tolerance)
        return True

    def find_id(self, message: HookMessage) -> Any:
        """It stands in the body."""
        return message.data.get("id") if isinstance(message.data, dict) else None

    def sign(self, body: bytes, *, at: float | None = None) -> dict[str, str]:
        """The headers with which the provider would send this body: for tests."""
        moment = str(int(time.time() if at is None else at))
        mac = hmac.new(self.list_keys()[0], moment.encode() + b"." + body, hashlib.sha256)
        return {"Stripe-Signature": f"t={moment},v1={mac.hexdigest()}"}


@dataclass(frozen=True, slots=True)
class GitHub(Verifier):
    """The header `X-Hub-Signature-256: sha256=…`, over the body alone."""

    def __call__(self, request: HttpRequest) -> Literal[True]:
        scheme, _, sent = _read_header(request, "X-Hub-Signature-256").partition("=")
        if scheme != "sha256":
            raise NotVerified("the header X-Hub-Signature-256 does not begin with sha256=")
        self.check_signatures(request.body, [_encode(sent)], _write_hex)
        return True

    def find_id(self, message: HookMessage) -> Any:
        """It stands in a header, which is not signed."""
        return message.headers.get("X-GitHub-Delivery")

    def sign(self, body: bytes, *, id: str = "", event: str = "push") -> dict[str, str]:
        """The headers with which the provider would send this body: for tests."""
        mac = hmac.new(self.list_keys()[0], body, hashlib.sha256)
        return {
            "X-GitHub-Event": event,
            "X-GitHub-Delivery": id or str(uuid4()),
            "X-Hub-Signature-256": f"sha256={mac.hexdigest()}",
        }


def standard_webhooks(secrets: Secrets, *, tolerance: float = TOLERANCE, prefix: str = "webhook") -> StandardWebhooks:
    """Standard Webhooks, signed with HMAC (`v1`). Some providers write `svix` in the place of `webhook`.

    >>> standard_webhooks(["whsec_bmV3IHNlY3JldA==", "whsec_b2xkIHNlY3JldA=="])
    StandardWebhooks(tolerance=300, prefix='webhook')
    """
    _check_tolerance(tolerance)
    return StandardWebhooks(secrets, tolerance, prefix)


def stripe(secrets: Secrets, *, tolerance: float = TOLERANCE) -> Stripe:
    """Stripe's own scheme.

    >>> stripe(lambda: os.environ["STRIPE_SECRET"])
    Stripe(tolerance=300)
    """
    _check_tolerance(tolerance)
    return Stripe(secrets, tolerance)


def github(secrets: Secrets) -> GitHub:
    """GitHub's own scheme, in which no moment is signed.

    >>> github(["a new secret", "the old one"])
    GitHub()
    """
    return GitHub(secrets)
