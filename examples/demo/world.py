"""The world of the demo: people, a past, and a day with some fifty requests.

Invariants owned: it is made once, on a database in which nothing has happened, and all or nothing; afterwards it is
left alone, whatever people have done with it.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

from django.db import transaction

from approvals.models import Absence, Review
from examples.demo.past import recall
from examples.demo.people import find_person, make_people, write_addresses
from examples.demo.play import Play, is_untouched
from examples.demo.processes import NAMES
from examples.demo.rows import file_papers
from examples.demo.today import plan_today
from workflows.clock import read_now
from workflows.models import Instance


def make_world(tell: Callable[[str], Any] = lambda told: None) -> bool:
    """Whether it was made now; people who are missing are made in any case."""
    if not is_untouched():
        make_people()
        file_papers()
        return False
    with transaction.atomic():
        # Nobody is mailed about the past: people get their addresses afterwards.
        people = make_people(addresses=False)
        file_papers()
        now = read_now()
        Absence.objects.create(
            user=people["tom"],
            substitute=people["ines"],
            since=now - timedelta(hours=20),
            until=now + timedelta(days=9),
            note="Walking in the Dolomites",
        )
        play = Play(people)
        recall(play)
        plan_today(play)
        play.perform(tell)
        write_addresses()
    return True


def count_waiting() -> int:
    """How many requests wait for Maya, as whom one logs in first."""
    return int(Review.objects.for_user(find_person("maya")).count())


def count_world() -> int:
    """How many requests there are."""
    return int(Instance.objects.filter(workflow__in=NAMES).count())
