"""What happened to a review, in words: every deed, every refusal, the newest first."""

from __future__ import annotations

from datetime import timedelta
from zoneinfo import ZoneInfo

import pytest
from django.contrib.auth.models import Group, Permission, User
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from approvals import (
    answer_info,
    claim,
    comment,
    decide,
    delegate,
    extend,
    nudge,
    reassign,
    release,
    request_info,
    undo,
    withdraw,
)
from approvals.cards.timeline import MAX_ENTRIES, Entry, list_entries
from approvals.display.times import show_when
from approvals.exceptions import DecisionRefused
from approvals.reviews.case import Case
from approvals.rules.door import Door
from tests.support.worlds.cards import People, ask, list_told, read_again
from workflows.api.instances import cancel
from workflows.testing import advance


@pytest.fixture(autouse=True)
def berlin(own_language: None) -> None:
    """The viewer is in Berlin, also where the process is not."""
    timezone.activate(ZoneInfo("Europe/Berlin"))


@pytest.mark.django_db
def test_everything_that_was_done_is_in_the_history_the_newest_first(people: People) -> None:
    people.dee.user_permissions.set(Permission.objects.filter(codename__in=["reassign_review", "extend_review"]))
    dee = User.objects.get(pk=people.dee.pk)
    legal = Group.objects.create(name="Legal")
    legal.user_set.add(people.ben)
    eve = User.objects.create_user("eve", first_name="Eve", last_name="Ek")
    review = ask(groups=["Finance"], quorum=2, requester=people.ben, remind=["1h"], escalate=[("2h", ("add", "Legal"))])
    claim(review, actor=people.ann)
    release(review, actor=dee)
    request_info(review, "Which account?", actor=people.ann)
    answer_info(review, "4711", actor=people.ben)
    comment(review, "Thanks", actor=people.ann)
    nudge(review, actor=people.ben)
    delegate(review, to=eve, actor=people.cid, reason="I am away")
    advance("3h")
    due = review.created_at + timedelta(days=3)
    extend(review, due=due, actor=dee)
    extend(review, deadline=due, actor=dee)
    reassign(review, users=[eve], actor=dee, keep=True)
    reassign(review, groups=["Finance"], actor=dee)
    decide(review, "reject", actor=people.ann, reason="No receipt", door=Door("link"))
    undo(review, actor=people.ann)
    withdraw(review, actor=people.ben, reason="Not any more")
    told = list_told(review, people.ann)
    more_time = f"gave more time: due {show_when(due, Case(review).now)}"
    assert told == [
        ("Ben Okafor", "withdrew it", "Not any more"),
        ("You", "took back “Reject”", ""),
        ("You", "rejected", "No receipt"),
        ("Dee Dahl", "asked Finance instead", ""),
        ("Dee Dahl", "asked Eve Ek as well", ""),
        ("Dee Dahl", "gave more time", ""),
        ("Dee Dahl", more_time, ""),
        ("", "The group Legal is asked as well", ""),
        ("", "A reminder was sent", ""),
        ("Cid Campos", "handed it on to Eve Ek", "I am away"),
        ("Ben Okafor", "reminded those asked", ""),
        ("You", "commented", "Thanks"),
        ("Ben Okafor", "answered", "4711"),
        ("You", "asked", "Which account?"),
        ("Dee Dahl", "released it from you", ""),
        ("You", "claimed it", ""),
        ("Ben Okafor", "asked for this", ""),
    ]
    entries = list_entries(Case(read_again(review)), people.ann)
    assert [entry.kind for entry in entries if entry.who == ""] == ["time", "time"]
    vote = next(entry for entry in entries if entry.kind == "vote")
    assert (vote.door, vote.outcome, vote.name, vote.is_viewer) == ("link", "reject", "Ann Archer", True)
    assert [entry.at for entry in entries] == sorted((entry.at for entry in entries), reverse=True)


@pytest.mark.django_db
def test_a_refusal_is_in_the_history_in_words_for_others(people: People) -> None:
    review = ask(groups=["Finance"], requester=people.ann)
    for actor, outcome in ((people.ben, "approve"), (people.ann, "reject"), (people.cid, "aprove")):
        with pytest.raises(DecisionRefused):
            decide(review, outcome, actor=actor)
    with pytest.raises(DecisionRefused):
        nudge(review, actor=people.ben)
    assert [(who, what) for who, what, _ in list_told(review)][:-1] == [
        ("Ben Okafor", "tried to remind those asked, refused: not theirs to do"),
        ("Cid Campos", "tried “aprove”, refused: no such answer"),
        ("Ann Archer", "tried to answer “Reject”, refused: own request (four eyes)"),
        ("Ben Okafor", "tried to answer “Approve”, refused: not among those asked"),
    ]
    assert all(text == "" for _, _, text in list_told(review))


@pytest.mark.django_db
def test_votes_of_programs_of_substitutes_and_by_override_say_so(people: People) -> None:
    people.ben.user_permissions.set(Permission.objects.filter(codename="override_review"))
    review = ask(groups=["Finance"], quorum=3)
    eve = User.objects.create_user("eve")
    delegate(review, to=eve, actor=people.cid)
    decide(review, "approve", actor=eve)
    decide(review, "approve", actor=people.ann, door=Door("mcp", is_automated=True))
    decide(review, "reject", actor=User.objects.get(pk=people.ben.pk), override=True, reason="Enough")
    assert [(who, what) for who, what, _ in list_told(review)][:3] == [
        ("Ben Okafor", "overrode the rule: rejected"),
        ("Ann Archer", "approved, by a program"),
        ("eve", "approved in place of Cid Campos"),
    ]


@pytest.mark.django_db
def test_the_end_is_in_the_history_where_no_person_made_it(people: People) -> None:
    late, cancelled = ask(groups=["Finance"], timeout="1h"), ask(groups=["Finance"])
    advance("2h")
    cancel(cancelled.instance)
    assert list_told(late)[0] == ("", "The time to decide was over", "")
    assert list_told(cancelled)[0] == ("", "Cancelled", "")


@pytest.mark.django_db
def test_a_history_is_bounded_and_costs_the_same_however_long_it_is(people: People) -> None:
    review = ask(groups=["Finance"])
    for number in range(MAX_ENTRIES + 5):
        comment(review, f"Comment {number}", actor=people.ann)
    case = Case(read_again(review))
    with CaptureQueriesContext(connection) as found:
        entries = list_entries(case)
    assert len(found) <= 6
    assert len(entries) == MAX_ENTRIES + 1
    assert entries[0].text == f"Comment {MAX_ENTRIES + 4}"
    assert entries[-1].kind == "more"
    assert isinstance(entries[-1], Entry)
