"""Where a request is now: for whoever asked, while people decide it in another browser.

Lives here: reading an instance, its reviews and its history. Must not live here: doing anything about them.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from hashlib import sha256
from typing import Any

from django.contrib.auth import get_user_model
from django.utils.text import capfirst
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from approvals.cards.status import describe_status, find_status, measure_progress, tell_decision
from approvals.display.values import MAX_BLOCK, show_text
from approvals.models import Review
from approvals.people.principals import name_person
from approvals.reviews.case import Case
from examples.demo.offers import find_offer
from workflows.lifecycle import Status
from workflows.models import Instance
from workflows.wording.punctuation import end_sentence, join_clauses

#: What the engine did, in words; what is not here concerns nobody who watches.
_DEEDS = {
    "started": gettext_lazy("Started: one row"),
    "asked": gettext_lazy("Asked people"),
    "suspended": gettext_lazy("Parked: no process, no thread, only the row"),
    "parked": gettext_lazy("Parked: no process, no thread, only the row"),
    "voted": gettext_lazy("A vote came"),
    "reversed": gettext_lazy("A vote was taken back"),
    "answered": gettext_lazy("The last vote came: woken, with the change, in one transaction"),
    "signalled": gettext_lazy("A signal came"),
    "woke": gettext_lazy("Woke up"),
    "timed_out": gettext_lazy("The time was over"),
    "advanced": gettext_lazy("Went on from the last committed step"),
    "done": gettext_lazy("Done"),
    "failed": gettext_lazy("Failed"),
    "cancelled": gettext_lazy("Cancelled"),
}
#: How a review stands while it can be decided, or is being.
OPEN = ("open", "grace")
#: Rows of the history that are shown.
MOST = 60


@dataclass(frozen=True, slots=True)
class Stage:
    """One place of the hold line: "past", "now" or "ahead"."""

    kind: str
    what: str
    when: str
    note: str = ""
    at: datetime | None = None


@dataclass(frozen=True, slots=True)
class Track:
    """Everything that the page of a request shows."""

    title: str
    told: str
    tone: str
    stages: tuple[Stage, ...]
    #: To be decided now.
    review: Review | None
    who: str
    events: tuple[tuple[datetime, str, str], ...]
    #: Whether nothing more will happen.
    is_over: bool
    #: Whether it waits for whoever asked, with a new text.
    wants_text: str | None
    status: str

    @property
    def stamp(self) -> str:
        """Changes when anything of it does."""
        return sha256(repr(self).encode()).hexdigest()[:16]


def follow(instance: Instance, user: Any) -> Track:
    """Read it as it is now."""
    reviews = list(Review.objects.filter(instance_id=instance.pk).select_related("interaction").order_by("pk"))
    cases = [Case(one) for one in reviews]
    last = cases[-1] if cases else None
    is_open = last is not None and find_status(last) in OPEN
    offer = find_offer(workflow=instance.workflow)
    title = show_text(last.review.title, MAX_BLOCK) if last else str(offer.title if offer else instance.workflow)
    result = instance.result if isinstance(instance.result, dict) else {}
    return Track(
        title=title,
        told=_tell(instance, last, user),
        tone="good" if result.get("ok") else "",
        stages=tuple(_list_stages(instance, cases, str(offer.then) if offer else "")),
        review=last.review if last is not None and find_status(last) == "open" else None,
        who=last.who if last is not None and is_open else "",
        events=tuple(_list_events(instance, user)),
        is_over=instance.ended,
        wants_text=_find_text(instance, last) if not is_open else None,
        status=str(instance.status),
    )


def _tell(instance: Instance, case: Case | None, user: Any) -> str:
    """The sentence below the title: what is the case now."""
    if case is not None and find_status(case) in OPEN:
        return end_sentence(describe_status(case.review, user, case=case))
    if instance.ended:
        result = instance.result if isinstance(instance.result, dict) else {}
        return show_text(str(result.get("told") or instance.error or _("It has ended.")), MAX_BLOCK)
    if instance.status == Status.SLEEPING:
        return _("Granted. It sleeps until the day on which the access is taken away.")
    if _find_text(instance, case) is not None:
        return _("Changes were asked for. It waits for the new text.")
    return _("On its way …")


def _list_stages(instance: Instance, cases: list[Case], then: str) -> Iterator[Stage]:
    asked_by = _name(instance.started_by, {})
    yield Stage("past", _("Asked"), asked_by or _("by the system"), at=instance.created_at)
    for case in cases:
        yield _tell_review(case)
    if instance.ended:
        told = _("Done") if instance.status == Status.DONE else _("Ended")
        yield Stage("past", told, _("Nothing is left to do"), at=instance.finished_at)
    elif not any(find_status(case) in OPEN for case in cases):
        if instance.status == Status.SLEEPING:
            yield Stage("now", _("Sleeps until"), "", at=instance.due_at)
        elif _find_text(instance, cases[-1] if cases else None) is not None:
            yield Stage("now", _("Waits for"), asked_by, _("and the new text"))
        else:
            yield Stage("now", _("Goes on"), _("now"))
    if not instance.ended:
        yield Stage("ahead", _("Then"), then)


def _tell_review(case: Case) -> Stage:
    review = case.review
    match find_status(case):
        case "open":
            votes = join_clauses(one.text for one in measure_progress(case) if one.needed > 1 or one.votes)
            return Stage("now", _("Waits for"), case.who, votes, at=review.created_at)
        case "grace":
            note = _("can be undone for a few seconds")
            return Stage("now", capfirst(tell_decision(case, review.outcome)), case.name(review.decided_by_id), note)
        case "decided":
            by = case.name(review.decided_by_id) or _("time")
            outcome = tell_decision(case, review.outcome)
            return Stage(
                "past",
                _("Decided"),
                capfirst(_("%(outcome)s by %(by)s") % {"outcome": outcome, "by": by}),
                at=review.decided_at,
            )
    return Stage("past", _("Asked"), _("closed without a decision"))


def _list_events(instance: Instance, user: Any) -> Iterator[tuple[datetime, str, str]]:
    names: dict[str, str] = {}
    for event in instance.events.order_by("seq")[:MOST]:
        if (told := _DEEDS.get(str(event.kind))) is not None:
            yield event.at, str(told), _name(event.actor, names)


def _name(actor: str, names: dict[str, str]) -> str:
    """Who it was, where it was somebody."""
    if not actor.startswith("user:"):
        return ""
    if actor not in names:
        found = get_user_model()._default_manager.filter(pk=actor.partition(":")[2]).first()
        names[actor] = name_person(found) if found else ""
    return names[actor]


def _find_text(instance: Instance, last: Case | None) -> str | None:
    """The text that was sent back."""
    if instance.status != Status.AWAITING or last is None or last.review.outcome != "request_changes":
        return None
    return str((last.review.change or {}).get("body", ""))
