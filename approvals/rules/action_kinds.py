"""The actions on a review beside deciding it, one row each: who may, and the words of the history.

Lives here: facts that several doors and pages need of an action. Must not live here: doing it (`actions`), and the
rule that forbids it (`permissions`). Invariant owned: an action that is not in the table cannot be recorded.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from django.utils.translation import gettext_lazy as _


@dataclass(frozen=True, slots=True, kw_only=True)
class ActionKind:
    """One action, by its name in `explain()` and in the ledger of refusals."""

    name: str
    #: The word in the ledger for what was done.
    event: str = ""
    #: An attempt that was refused; it follows the name of a person.
    tried: Any
    #: What was done, following the name of a person: the first message whose member of the ledger's row has a value.
    #: Empty where the history shows what was written, or nothing.
    done: tuple[tuple[str, Any], ...] = ()
    #: The permission without which nobody may.
    permission: str = ""
    #: Whether it is for the requester, or needs one.
    is_for_requester: bool = False

    def describe(self, values: Mapping[str, Any]) -> str:
        """What was done, with the values of the ledger's row as people read them; empty where nothing is to be said.

        >>> ACTION_KINDS["release"].describe({"of": "Ana Ruiz"}), ACTION_KINDS["release"].describe({"of": ""})
        ('released it from Ana Ruiz', 'released it')
        """
        return next((str(message) % values for member, message in self.done if not member or values[member]), "")


ACTION_KINDS: Mapping[str, ActionKind] = {
    kind.name: kind
    for kind in (
        ActionKind(name="undo", tried=_("tried to undo a decision")),
        ActionKind(name="claim", event="claimed", tried=_("tried to claim it"), done=(("", _("claimed it")),)),
        ActionKind(
            name="release",
            event="released",
            tried=_("tried to release it"),
            done=(("of", _("released it from %(of)s")), ("", _("released it"))),
        ),
        ActionKind(
            name="delegate",
            event="delegated",
            tried=_("tried to hand it on"),
            done=(("", _("handed it on to %(to)s")),),
        ),
        ActionKind(
            name="reassign",
            event="reassigned",
            tried=_("tried to ask others"),
            done=(("kept", _("asked %(to)s as well")), ("", _("asked %(to)s instead"))),
            permission="reassign_review",
        ),
        ActionKind(
            name="extend",
            event="extended",
            tried=_("tried to give more time"),
            done=(("due", _("gave more time: due %(due)s")), ("", _("gave more time"))),
            permission="extend_review",
        ),
        ActionKind(name="comment", event="commented", tried=_("tried to comment")),
        ActionKind(name="request_info", event="asked", tried=_("tried to ask"), is_for_requester=True),
        ActionKind(name="answer_info", event="answered", tried=_("tried to answer a question"), is_for_requester=True),
        ActionKind(name="snooze", tried=_("tried to put it aside")),
        ActionKind(
            name="nudge",
            event="nudged",
            tried=_("tried to remind those asked"),
            done=(("", _("reminded those asked")),),
            is_for_requester=True,
        ),
        ActionKind(
            name="withdraw",
            event="withdrawn",
            tried=_("tried to withdraw it"),
            done=(("", _("withdrew it")),),
            is_for_requester=True,
        ),
    )
}
EVENT_KINDS: Mapping[str, ActionKind] = {kind.event: kind for kind in ACTION_KINDS.values() if kind.event}
