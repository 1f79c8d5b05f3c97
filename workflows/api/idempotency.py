"""Calls that may come again: how they are recognised.

Invariants owned: a call is known by its workspace, method, path and key together, and its body by its bytes as they
were sent; so no key of one address or tenant can meet an answer of another. What a caller may see is no part of it, or
a caller whose rights change between a call and its repetition would make it twice; it decides who is told.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

from workflows.exceptions import IdempotencyConflict
from workflows.store import Once, Told
from workflows.values.json_text import check_text

LONGEST_KEY = 255


def make_once(method: str, path: str, key: str, *, body: bytes, within: Sequence[str] | None = None) -> Once:
    """What tells this call from every other of its workspace; `within`, where keys are one person's, are who.

    >>> make_once("POST", "/v1/events", "evt_1", body=b"{}").digest.hex()[:8]
    '051bcb6c'
    """
    check_text(key, "the idempotency key", limit=LONGEST_KEY)
    # A method holds no NUL and a key neither, so only the path between them may, and nothing runs together.
    limits = [] if within is None else ["", *sorted(within)]
    named = "\0".join((method, path, key, *limits)).encode(errors="surrogatepass")
    return Once(hashlib.sha256(named).digest(), hashlib.sha256(body).digest(), key)


def may_hear(told: Told, workflows: Sequence[str] | None) -> bool:
    """Whether a caller who sees these workflows only (None: all) may be told it again."""
    return workflows is None or told.workflow in workflows


def check_told(once: Once, told: Told) -> None:
    """That the key came with the same body the first time."""
    if told.body_hash != once.body_hash:
        raise IdempotencyConflict(once.key)
