"""The seal of what was asked for: only this site's own mixins can have written it.

Invariant owned: whoever may start workflows, by the API or otherwise, can start neither a change of any row nor a call
in somebody's name: what has no seal of this site is refused before anybody is asked, and again before it is done.
The keys are those of links (`TOKEN_KEYS`), which rotate: what was proposed under an older one stays good as long as
that is listed.
"""

from __future__ import annotations

from collections.abc import Mapping
from hashlib import sha256
from typing import Any

from django.core import signing

from approvals.exceptions import ApprovalError
from approvals.plain_values import write_canonical
from workflows.conf import conf

_SALT = "approvals.required"


class NotSealed(ApprovalError):
    """Somebody wrote this input by hand, or the key that sealed it is no longer among the site's TOKEN_KEYS.

    >>> print(NotSealed())
    this was not asked for through ApprovalRequiredMixin of this site, so nothing is done: propose it there (again)
    """

    def __init__(self) -> None:
        super().__init__(
            "this was not asked for through ApprovalRequiredMixin of this site, so nothing is done: propose it there "
            "(again)"
        )


def seal(asked: Mapping[str, Any]) -> dict[str, Any]:
    """The input of an instance.

    >>> sorted(seal({"do": "change"}))
    ['asked', 'seal']
    """
    return {"asked": {**asked}, "seal": _make_signer().sign(_hash(asked))}


def unseal(input: Any) -> dict[str, Any]:
    """What was sealed; raises `NotSealed`.

    >>> unseal(seal({"do": "change"}))
    {'do': 'change'}
    """
    try:
        asked = input["asked"]
        if _make_signer().unsign(input["seal"]) == _hash(asked):
            return dict(asked)
    except (KeyError, TypeError, ValueError, signing.BadSignature):
        pass
    raise NotSealed


def _make_signer() -> signing.Signer:
    newest, *older = conf.token_keys.values()
    return signing.Signer(key=newest, fallback_keys=[*older], salt=_SALT)


def _hash(asked: Mapping[str, Any]) -> str:
    """The same before and after a stay in jsonb."""
    return sha256(write_canonical(asked).encode()).hexdigest()
