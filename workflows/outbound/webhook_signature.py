"""Signatures of what is posted, as Standard Webhooks describe them.

Invariant owned: a secret is read here and shown nowhere; what is wrong with one is said without it.
"""

from __future__ import annotations

import base64
import binascii
import hmac
from collections.abc import Sequence

from workflows.exceptions import InvalidCall

#: What a secret may have before it.
PREFIX = "whsec_"
#: Bytes that a key has: fewer can be guessed, and HMAC gains nothing by more.
LEAST_BYTES, MOST_BYTES = 24, 64


def read_secret(secret: str) -> bytes:
    """The key that a text means: base64, with or without "whsec_" before it.

    >>> read_secret("whsec_C2FVsBQIhrscChlQIMV+b5sSYspob7oD")[:4]
    b'\\x0baU\\xb0'
    """
    try:
        key = base64.b64decode(secret.removeprefix(PREFIX), validate=True)
    except (binascii.Error, ValueError):
        raise InvalidCall("the secret is not base64: make one with `openssl rand -base64 32`") from None
    return key


def sign(id: str, seconds: int, body: bytes, keys: Sequence[bytes]) -> dict[str, str]:
    """The headers of a message: one signature for each key, so that a receiver may know the old or the new one.

    >>> sorted(sign("msg_1", 1700000000, b"{}", [b"key"]))
    ['webhook-id', 'webhook-signature', 'webhook-timestamp']
    """
    signed = f"{id}.{seconds}.".encode() + body
    headers = {"webhook-id": id, "webhook-timestamp": str(seconds)}
    if keys:
        macs = (base64.b64encode(hmac.digest(key, signed, "sha256")).decode() for key in keys)
        headers["webhook-signature"] = " ".join(f"v1,{mac}" for mac in macs)
    return headers
