"""What a page of many requests sends.

Pure. Invariant owned: whatever was sent is read; what says nothing that is understood stands for nothing, and a request
that does not say how it was shown is bound to nothing that there is.
"""

from __future__ import annotations

from dataclasses import dataclass
from uuid import UUID

from django.http import QueryDict
from django.utils.translation import gettext

from approvals.models.vote import MAX_TEXT
from approvals.web.bulk.bulk_page import MOST
from approvals.web.bulk.bulk_run import Pick
from workflows.exceptions import InvalidCall
from workflows.pages.posted_form import read_ids, read_number
from workflows.values.json_text import check_text

#: Characters of what names an answer, or a version.
_MAX_WORD = 200


@dataclass(frozen=True, slots=True)
class BulkPost:
    """What was on the page when it was sent."""

    ticked: tuple[UUID, ...]
    #: All that it showed.
    shown: tuple[UUID, ...]
    picks: tuple[Pick, ...]
    outcome: str
    #: The ready reason of the button, with what was typed.
    reason: str
    typed: str
    undoing: tuple[UUID, ...]
    #: Whether more came than one page has.
    is_too_much: bool


def read_sent(data: QueryDict) -> BulkPost:
    """What a page sent; what is no id is not there."""
    ticked = tuple(read_ids(data.getlist("pick")))
    versions = [name.removeprefix("version-") for name in data if name.startswith("version-")]
    shown = tuple(dict.fromkeys((*read_ids(versions), *ticked)))
    outcome, _, ready = data.get("outcome", "").partition(":")
    typed = data.get("reason", "")
    return BulkPost(
        ticked=ticked,
        shown=shown[:MOST],
        picks=tuple(_read_pick(data, id) for id in ticked),
        outcome=outcome[:_MAX_WORD],
        reason="\n".join(part for part in (ready.strip(), typed.strip()) if part),
        typed=typed,
        undoing=tuple(read_ids(data.getlist("undo"))),
        is_too_much=len(shown) > MOST,
    )


def _read_pick(data: QueryDict, id: UUID) -> Pick:
    version, _, undone = data.get(f"version-{id}", "").partition(".")
    return Pick(id, read_number(version), data.get(f"seen-{id}", "")[:_MAX_WORD] or None, read_number(undone))


def find_reason_error(sent: BulkPost, *, is_needed: bool) -> str:
    """What is wrong with the reason, before anything is tried."""
    if is_needed and not sent.reason:
        return gettext("Write why, or choose a reason.")
    try:
        check_text(sent.reason, "a reason", limit=MAX_TEXT, blank=True)
    except InvalidCall as refused:
        return refused.tell()
    return ""
