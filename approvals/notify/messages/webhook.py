"""What places outside are told: our own JSON events, and messages for chats.

Lives here: the words and shapes. Must not live here: the way there (`http_post`). Invariants owned: nothing that only
one person may have goes to a place: no one-person link, no value that nobody in particular may see; a link in a message
leads to a page that asks who is there; nothing that people wrote can command a chat (mentions, formats, links).
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from datetime import datetime
from typing import Any

from django.utils.text import capfirst
from django.utils.translation import gettext, pgettext

from approvals.access.personal_links import find_page
from approvals.cards.card import Card
from approvals.display.times import name_zone, show_at
from approvals.display.values import show_text
from approvals.models import Delivery
from approvals.notify.delivery_writer import read_data
from approvals.notify.failures import SendFailed, hide_secrets
from approvals.subjects.diff import FieldDiff
from workflows.exceptions import InvalidCall
from workflows.outbound.webhook_signature import read_secret, sign
from workflows.wording.punctuation import end_sentence

#: What each notice is called in our events.
TYPES = {
    "new": "approval.requested",
    "reminder": "approval.reminder",
    "nudge": "approval.nudged",
    "escalation": "approval.escalated",
    "edited": "approval.edited",
    "decided": "approval.decided",
    "closed": "approval.closed",
    "reopened": "approval.reopened",
    "stranded": "approval.stranded",
}
HANDED_ON = "approval.handed_on"
#: A chat is told less: who is handed something on, and whose decision was not carried out, hears it themselves.
_CHAT = frozenset({"new", "reminder", "nudge", "escalation", "decided", "closed"})
#: The most that a chat takes in a heading, a field and a message.
_HEADING, _FIELD, _FIELDS = 150, 2000, 10
_STYLES = {"positive": "primary", "negative": "danger"}


@dataclass(frozen=True, slots=True)
class Message:
    """Bytes, and what is said beside them."""

    body: bytes
    headers: Mapping[str, str]


def tells(kind: str, *, format: str, is_first: bool) -> bool:
    """Whether a place is told of such a notice; `is_first`: it is about the review, and not for certain people.

    >>> tells("new", format="slack", is_first=True), tells("question", format="json", is_first=False)
    (True, False)
    """
    if format == "slack":
        return kind in _CHAT and (is_first or kind != "new")
    return kind in TYPES


def write_event(delivery: Delivery, card: Card, now: datetime, secret: str) -> Message:
    """Our JSON event, signed as Standard Webhooks say.

    >>> sorted(write_event(delivery, card, now, secret).headers)
    ['Content-Type', 'webhook-id', 'webhook-signature', 'webhook-timestamp']
    """
    data = read_data(delivery)
    kind = HANDED_ON if delivery.kind == "new" and data.get("to") is not None else TYPES[delivery.kind]
    event = {
        "type": kind,
        "id": name_message(delivery),
        "timestamp": delivery.created_at.isoformat(),
        "data": _tell_review(card) | ({"reason": data["reason"]} if data.get("reason") else {}),
    }
    body = json.dumps(event, ensure_ascii=False, default=str).encode()
    return Message(body, _sign(name_message(delivery), now, body, secret))


def write_chat(delivery: Delivery, card: Card, *, thread: str = "", outcome: str = "") -> Message:
    """A message of text and blocks, in the thread of the first one where the place said which that is.

    >>> json.loads(write_chat(delivery, card).body)["text"]
    'Decide: Refund €1,240.00 to Acme GmbH'
    """
    is_over = delivery.kind in ("decided", "closed")
    heading = _head_chat(delivery.kind, card, outcome)
    told = [end_sentence(card.told) if is_over else card.told]
    if is_over and card.answer is not None and card.answer.reason:
        told.append(gettext("“%(reason)s”") % {"reason": card.answer.reason})
    if not is_over and card.requester:
        told.append(gettext("Asked by %(name)s") % {"name": card.requester})
    if not is_over and card.due_at is not None:
        when = {"when": f"{show_at(card.due_at, card.now)} {name_zone(card.due_at)}"}
        told.append(gettext("Due: %(when)s") % when)
    blocks: list[dict[str, Any]] = [
        {"type": "header", "text": _plain(heading, _HEADING)},
        {"type": "section", "text": _plain("\n".join(told), _FIELD)},
    ]
    if not is_over:
        if changes := (*card.diff, *(one for one in card.settings if one.before != one.after)):
            fields = [_plain(_tell_change(one), _FIELD) for one in changes[:_FIELDS]]
            blocks.append({"type": "section", "fields": fields})
        blocks.append({"type": "actions", "elements": _list_buttons(card)})
    message: dict[str, Any] = {"text": _escape(heading), "blocks": blocks}
    if thread:
        message["thread_ts"] = thread
    body = json.dumps(message, ensure_ascii=False).encode()
    return Message(body, {"Content-Type": "application/json", "webhook-id": name_message(delivery)})


def name_message(delivery: Delivery) -> str:
    """What a message is called, however often it is tried: whoever gets it twice can tell.

    >>> name_message(delivery)
    'msg_01995c0e-…'
    """
    again = read_data(delivery).get("again")
    return f"msg_{delivery.pk}" + (f".{again}" if again else "")


def read_answer(body: bytes) -> str:
    """The id that a place gave the message, where its answer tells one; `SendFailed` where it says that it refused.

    >>> read_answer(b'{"ok": true, "ts": "1752480000.000100"}'), read_answer(b"ok")
    ('1752480000.000100', '')
    """
    try:
        told = json.loads(body)
    except (ValueError, RecursionError):
        return ""
    if not isinstance(told, dict):
        return ""
    if told.get("ok") is False:
        why = told.get("error")
        raise SendFailed(f"it was refused: {show_text(hide_secrets(str(why)), 100)}")
    for name in ("ts", "id", "message_id"):
        if isinstance(found := told.get(name), str | int) and not isinstance(found, bool):
            return show_text(found, 200)
    return ""


def _sign(id: str, now: datetime, body: bytes, secret: str) -> dict[str, str]:
    try:
        keys = [read_secret(secret)] if secret else []
    except InvalidCall as error:
        raise SendFailed(f"webhooks cannot be signed: {error}", is_final=True) from None
    return {"Content-Type": "application/json", **sign(id, int(now.timestamp()), body, keys)}


def _tell_review(card: Card) -> dict[str, Any]:
    return {
        "id": str(card.id),
        "url": find_page(card.id),
        "title": card.title,
        "workflow": card.workflow,
        "step": card.step,
        "workspace": card.workspace,
        "status": card.status,
        "told": card.told,
        "requester": card.requester,
        "waits_for": card.who,
        "risk": card.risk,
        "asked_at": card.asked_at.isoformat(),
        "due_at": card.due_at.isoformat() if card.due_at else None,
        "deadline": card.deadline.isoformat() if card.deadline else None,
        "decided_at": card.decided_at.isoformat() if card.decided_at else None,
        "if_nobody_decides": card.what_then,
        "rule": card.rule,
        "votes": [asdict(one) for one in card.progress],
        "subject": card.subject.text if card.subject else None,
        "changes": [{"field": one.label, "now": one.before.text, "then": one.after.text} for one in card.diff],
        "form": [{"field": one.label, "asked": one.before.text, "now": one.after.text} for one in card.settings],
        "outcomes": [{"name": one.name, "label": one.label, "tone": one.tone} for one in card.outcomes],
        "answer": asdict(card.answer) if card.answer else None,
        "version": card.version,
    }


def _head_chat(kind: str, card: Card, outcome: str) -> str:
    given = {"title": card.title, "outcome": outcome}
    match kind:
        case "reminder" | "nudge":
            return gettext("Still waits: %(title)s") % given
        case "escalation":
            return gettext("Escalated: %(title)s") % given
        case "decided":
            return gettext("%(outcome)s: %(title)s") % given
        case "closed":
            return gettext("No longer waits: %(title)s") % given
    return pgettext("somebody is asked to", "Decide: %(title)s") % given


def _list_buttons(card: Card) -> list[dict[str, Any]]:
    page = find_page(card.id)
    buttons = [
        {
            "type": "button",
            "action_id": f"open-{one.name}",
            "text": _plain(one.label, 75),
            "url": f"{page}?outcome={one.name}",
            **({"style": _STYLES[one.tone]} if one.tone in _STYLES else {}),
        }
        for one in card.outcomes[:4]
    ]
    look = {"type": "button", "action_id": "open", "text": _plain(gettext("Look at it"), 75), "url": page}
    return [*buttons, look]


def _tell_change(one: FieldDiff) -> str:
    return f"{capfirst(one.label)}\n{one.before.text} → {one.after.text}"


def _plain(text: str, most: int) -> dict[str, Any]:
    """A text in which no mention, link or format is read."""
    return {"type": "plain_text", "text": text if len(text) <= most else f"{text[: most - 1]}…", "emoji": False}


def _escape(text: str) -> str:
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
