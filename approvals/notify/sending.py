"""Messages on their way: each claimed, looked at once more, sent outside of any transaction, and recorded.

Must not live here: what a message says (`mail`, `webhook`). Invariants owned: what was claimed is sent at least once,
under the same id each time; what is decided meanwhile is asked of nobody; one place that fails delays no other; and of
a failure only words of ours are kept.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import datetime, timedelta
from functools import partial
from typing import Any

from django.conf import settings
from django.db import DatabaseError
from django.utils import timezone, translation
from django.utils.text import capfirst
from django.utils.translation import gettext

from approvals.cards.card import build_card
from approvals.cards.edit_summary import list_changes, tell_change
from approvals.cards.refusal_message import tell_problem
from approvals.cards.status import tell_decision
from approvals.conf import conf
from approvals.display.values import MAX_BLOCK, MAX_NAME, show_text
from approvals.models import Comment, Delivery, Review, Snooze
from approvals.notify import delivery_writer
from approvals.notify.failures import Dropped, PutOff, SendFailed, describe_error, describe_place
from approvals.notify.messages.http_post import name_host, post
from approvals.notify.messages.mail import name_mail, write_mail
from approvals.notify.messages.mail_subjects import Occasion
from approvals.notify.messages.smtp import Postman
from approvals.notify.messages.webhook import read_answer, write_chat, write_event
from approvals.notify.preferences import ReaderPreferences, read_readers, speaking_to
from approvals.notify.recipients import ASKS, read_key
from approvals.notify.schedule import REST, find_next_try
from approvals.people.principals import USER, list_users, load_user, name_person
from approvals.reviews.case import Case
from approvals.reviews.electorate import is_stranded
from approvals.rules import find_obstacle
from workflows.api.completions import owned_answers
from workflows.clock import Now, read_now

logger = logging.getLogger("approvals")

#: While somebody's decision can still be undone, nobody is asked; a little later it is looked at again.
AFTER_GRACE = timedelta(seconds=1)
#: A closing message waits so long for the message that it closes, when that is on its way.
BEHIND = timedelta(seconds=15)


def send_messages(most: int, postman: Postman) -> int:
    """Send what is due by itself; how much was done."""
    done = 0
    while done < most and (delivery := delivery_writer.claim_message()) is not None:
        settle([delivery], partial(_send, delivery, postman))
        done += 1
    return done


def settle(deliveries: list[Delivery], send: Callable[[], tuple[str, str] | None]) -> None:
    """Do it, and write down what became of it. `send` gives the id outside and the address; None: all is recorded."""
    try:
        sent = send()
    except Dropped as why:
        for one in deliveries:
            delivery_writer.record_dropped(one, str(why))
    except PutOff as later:
        for one in deliveries:
            delivery_writer.put_off(one, later.until)
    except DatabaseError:
        raise  # trouble of our own server: the lease ends, and it is tried again
    except Exception as error:
        _record_failure(deliveries, error)
    else:
        if sent is not None:
            for one in deliveries:
                delivery_writer.record_sent(one, external_id=sent[0], address=sent[1])


def _record_failure(deliveries: list[Delivery], error: Exception) -> None:
    first, now = deliveries[0], read_now()
    is_final = isinstance(error, SendFailed) and error.is_final
    due_at = None if is_final else find_next_try(first.attempts, now)
    told = describe_error(error)
    again = gettext("never") if due_at is None else due_at.isoformat(timespec="seconds")
    logger.warning(
        "%s %s of review %s was not sent (try %d, next: %s): %s%s",
        *(first.channel, first.pk, first.review_id, first.attempts, again, told),
        # What is not ours to expect is a mistake somewhere: say where.
        "" if isinstance(error, SendFailed) else f"\n{describe_place(error)}",
    )
    for one in deliveries:
        delivery_writer.record_failure(one, told, due_at=due_at)
    if isinstance(error, SendFailed) and error.is_place:
        delivery_writer.put_off_place(first.channel, now + REST)


def _send(delivery: Delivery, postman: Postman) -> tuple[str, str]:
    review = Review.objects.using(owned_answers.reach().alias).filter(pk=delivery.review_id).first()
    if review is None:
        raise Dropped("its review is gone")
    if delivery.channel == delivery_writer.EMAIL:
        return _send_mail(delivery, review, postman)
    return _send_to_place(delivery, review)


# --- people -----------------------------------------------------------------------------------------------


def _send_mail(delivery: Delivery, review: Review, postman: Postman) -> tuple[str, str]:
    reader = find_reader(delivery)
    case = Case(review)
    if delivery.kind in ASKS:
        _check_ask(delivery, case, reader)
    elif delivery.kind == "stranded":
        _check_stranded(case)
    if not case.is_member(reader.user):
        raise Dropped(gettext("They are no member of the workspace."))
    first_id = _find_first(delivery, review)
    with speaking_to(reader):
        card = build_card(review, reader.user, case=case)
        mail = write_mail(delivery, _find_occasion(delivery, case), card, review, reader, first_id=first_id)
    postman.send(mail)
    return name_mail(delivery), reader.address


def find_reader(delivery: Delivery) -> ReaderPreferences:
    """Whom a mail is for, if they still get any."""
    reader = next(iter(read_readers(list_users([f"{USER}:{delivery.user_id}"])).values()), None)
    if reader is None:
        raise Dropped(gettext("They can no longer log in."))
    if not conf.email:
        raise Dropped(gettext("This site sends no mail about approvals."))
    if reader.email == "none":
        raise Dropped(gettext("They want no mail."))
    if not reader.address:
        raise Dropped(gettext("They have no e-mail address."))
    return reader


def _check_ask(delivery: Delivery, case: Case, reader: ReaderPreferences) -> None:
    """Nobody is asked for what they cannot decide any more."""
    review = case.review
    check_waits(review, case.now)
    facts = case.find_facts(reader.user)
    if delivery.kind in ("new", "escalation", "edited"):
        facts = replace(facts, claimed_by_other=False)  # whoever has it may give it back
    if (obstacle := find_obstacle(replace(case.rules, who="", requester=""), facts)) is not None:
        raise Dropped(show_text(obstacle.message))
    if delivery.kind == "reminder":
        aside = Snooze.objects.using(owned_answers.reach().alias).filter(review_id=review.pk, user_id=reader.user.pk)
        if aside.filter(until__gt=Now()).exists():
            raise Dropped(gettext("They have put it aside."))


def _check_stranded(case: Case) -> None:
    """Who asked need not do anything where somebody is there again."""
    check_waits(case.review, case.now)
    if not is_stranded(case):
        raise Dropped(gettext("Somebody can decide it again."))


def check_waits(review: Review, now: datetime) -> None:
    """That there is something to decide."""
    if not review.open:
        raise Dropped(gettext("It was decided before this was sent."))
    if review.effective_at is not None:
        raise PutOff(max(review.effective_at, now) + AFTER_GRACE)


def _find_occasion(delivery: Delivery, case: Case) -> Occasion:
    data = delivery_writer.read_data(delivery)
    said = None
    if data.get("comment"):
        said = Comment.objects.using(owned_answers.reach().alias).filter(pk=data["comment"]).first()
    by = None if said is None else said.user_id
    if said is None and delivery.kind == "nudge":
        by = case.review.requester_id
    elif said is None:
        by = read_key(data.get("by"))
    text = said.text if said is not None else tell_problem(data, case.review)
    if delivery.kind == "edited":
        text = _tell_edit(data, case)
    return Occasion(
        kind=delivery.kind,
        by=_name(by, gettext("Somebody")) if by is not None or delivery.kind in ("question", "answer", "nudge") else "",
        stands_in_for=_name(data.get("for"), "") if data.get("for") else "",
        text=show_text(text, MAX_BLOCK, lines=True) if text else "",
        outcome=_tell_outcome(case),
    )


def _tell_edit(data: Mapping[str, Any], case: Case) -> str:
    """What somebody filled in instead of what the reader had approved, and why."""
    vote = next((one for one in case.all_votes if str(one.pk) == data.get("vote")), None)
    if vote is None:
        return ""
    return "\n".join([*map(tell_change, list_changes(case, vote)), *([vote.reason] if vote.reason else [])])


def _tell_outcome(case: Case) -> str:
    return capfirst(tell_decision(case, case.review.outcome)) if case.review.outcome else ""


def _name(key: Any, otherwise: str) -> str:
    user = load_user(key) if key is not None else None
    return show_text(name_person(user), MAX_NAME) if user is not None else otherwise


def _find_first(delivery: Delivery, review: Review) -> str:
    """The mail that this one continues: mail programs show both together."""
    assert delivery.user_id is not None
    earlier = delivery_writer.list_messages(review, channel=delivery_writer.EMAIL).filter(
        user_id=delivery.user_id, pk__lt=delivery.pk
    )
    return earlier.exclude(external_id="").values_list("external_id", flat=True).first() or ""


# --- places -----------------------------------------------------------------------------------------------


def _send_to_place(delivery: Delivery, review: Review) -> tuple[str, str]:
    place = conf.webhooks.get(delivery.channel)
    if place is None:
        raise Dropped('this webhook is no longer in APPROVALS["WEBHOOKS"]')
    url, is_chat = str(place["url"]), place.get("format", "json") == "slack"
    now = read_now()
    is_end = delivery.kind in ("decided", "closed")
    if delivery.kind in ASKS or delivery.kind == "stranded":
        check_waits(review, now)
    thread = _find_thread(delivery, review, now, is_end=is_end) if is_chat else ""
    with translation.override(settings.LANGUAGE_CODE), timezone.override(timezone.get_default_timezone()):
        case = Case(review)
        card = build_card(review, None, case=case)
        if is_chat:
            message = write_chat(delivery, card, thread=thread, outcome=_tell_outcome(case))
        else:
            message = write_event(delivery, card, now, str(place.get("secret") or ""))
    posted = post(url, message.body, message.headers, allow_private=conf.webhooks_private)
    external_id = read_answer(posted.body)
    if is_end:
        delivery_writer.close_places(review, delivery.channel, now)
    return external_id, name_host(url)


def _find_thread(delivery: Delivery, review: Review, now: datetime, *, is_end: bool) -> str:
    """What a chat said about the review so far. Where it said nothing, it need not hear that it is over."""
    earlier = delivery_writer.list_messages(review, channel=delivery.channel).filter(pk__lt=delivery.pk)
    said = list(earlier.filter(status="sent").values_list("external_id", flat=True))
    if is_end and not said:
        if earlier.filter(status="waiting", attempts__gt=0).exists():
            raise PutOff(now + BEHIND)
        raise Dropped(gettext("Nothing was said there that could be closed."))
    return next((one for one in said if one), "")
