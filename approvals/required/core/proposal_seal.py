"""The seal of what was asked for: only this site's own mixins can have written it.

Invariant owned: whoever may start workflows, by the API or otherwise, can start neither a change of any row nor a call
in somebody's name: what has no seal of this site is refused before anybody is asked, and again before it is done. A
seal is good for one instance, and so for one workspace and one time: copied into another one, it is none.
The keys are those of links (`TOKEN_KEYS`), which rotate: what was proposed under an older one stays good as long as
that is listed.
"""

from __future__ import annotations

from collections.abc import Mapping
from hashlib import sha256
from typing import Any
from uuid import UUID

from django.core import signing

from approvals.exceptions import ApprovalError
from approvals.subjects.field_values import write_canonical
from workflows.conf import conf
from workflows.models import Instance

_SALT = "approvals.required.instance"
#: What was proposed before instances were sealed with their id: rows of the first version of the workflows, none of
#: which can be started any more. Such a seal could be copied, so it holds only where its requester started the row.
_FIRST_SALT = "approvals.required"
FIRST_VERSION = 1


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


def seal(asked: Mapping[str, Any], id: UUID) -> dict[str, Any]:
    """The input of the instance that is to have this id.

    >>> sorted(seal({"do": "change"}, id))
    ['asked', 'seal']
    """
    return {"asked": {**asked}, "seal": _make_signer(_SALT).sign(_hash({"asked": asked, "instance": str(id)}))}


def unseal(instance: Instance) -> dict[str, Any]:
    """What was sealed for this instance; raises `NotSealed`.

    >>> unseal(instance)
    {'do': 'change'}
    """
    try:
        asked, sealed = instance.input["asked"], instance.input["seal"]
        if instance.version > FIRST_VERSION:
            good = _make_signer(_SALT).unsign(sealed) == _hash({"asked": asked, "instance": str(instance.pk)})
        else:
            good = _make_signer(_FIRST_SALT).unsign(sealed) == _hash(asked)
            good = good and instance.started_by == f"user:{asked['requester']}"
        if good:
            return dict(asked)
    except (KeyError, TypeError, ValueError, signing.BadSignature):
        pass
    raise NotSealed


def _make_signer(salt: str) -> signing.Signer:
    newest, *older = conf.token_keys.values()
    return signing.Signer(key=newest, fallback_keys=[*older], salt=salt)


def _hash(asked: Mapping[str, Any]) -> str:
    """The same before and after a stay in jsonb."""
    return sha256(write_canonical(asked).encode()).hexdigest()
