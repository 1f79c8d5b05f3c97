"""A play: who asks what, and who does what about it, in the order of time.

Invariant owned: everything that happens goes through the calls that any project uses (`workflows.start`,
`approvals.decide`, `claim`, `comment` …), with the rules that they have; nothing is written into a table of theirs.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

import workflows
from approvals import decide
from approvals.models import Review
from approvals.rules.door import Door
from examples.demo.clock import start_ago
from workflows.clock import read_now
from workflows.models import Instance

#: Where people decide, most of them on the pages.
DOORS = ("page", "page", "link", "page", "api", "page", "admin")


@dataclass
class Asking:
    """One request, from being asked on. `ago` is hours before now, everywhere."""

    play: Play
    key: str
    made: list[Any] = field(default_factory=list)

    def vote(self, ago: float, who: str, outcome: str, reason: str = "", **more: Any) -> Asking:
        """Somebody decides; the form, if there is one, as it was filled in for them."""

        def act(review: Review) -> None:
            data = more.get("data")
            if data is None and review.interaction.schema is not None and outcome == "approve":
                data = fill_in(review.interaction.schema)
            door = Door(name=more.get("door") or next(self.play.doors))
            decide(review, outcome, actor=self.play.people[who], reason=reason, data=data, door=door)

        return self.then(ago, act)

    def approve(self, ago: float, who: str, reason: str = "", **more: Any) -> Asking:
        return self.vote(ago, who, "approve", reason, **more)

    def reject(self, ago: float, who: str, reason: str, **more: Any) -> Asking:
        return self.vote(ago, who, "reject", reason, **more)

    def act(self, ago: float, who: str, call: Callable[..., Any], *words: str, **more: Any) -> Asking:
        """Whatever else people do: `act(3, "ana", request_info, "Which card?")`."""
        return self.then(ago, lambda review: call(review, *words, actor=self.play.people[who], **more))

    def then(self, ago: float, act: Callable[[Review], Any]) -> Asking:
        """Something with the review that is open then."""

        def do() -> None:
            act(Review.objects.pending().select_related("interaction").get(instance_id=self.made[0].pk))

        self.play.at(ago, do)
        return self


class Play:
    """What shall happen, written down in any order."""

    def __init__(self, people: Mapping[str, Any]) -> None:
        self.people = people
        self.doors = _turn(DOORS)
        self.scenes: list[tuple[float, int, Callable[[], Any]]] = []
        self.asked = 0

    def at(self, ago: float, do: Callable[[], Any]) -> None:
        """Something that happens so many hours before now; what is long ago was not all at the same minute."""
        number = len(self.scenes)
        self.scenes.append((-ago - (number * 13 % 50 / 60 if ago > 72 else 0), number, do))

    def ask(self, ago: float, workflow: str, who: str, make: Callable[..., Any], *words: Any, **more: Any) -> Asking:
        """Somebody asks: `make(*words, **more)` is what the workflow is started with."""
        self.asked += 1
        asking = Asking(self, f"demo-{self.asked}")

        def start() -> None:
            given = make(*words, **more)
            asking.made.append(workflows.start(workflow, given, key=asking.key, actor=self.people[who]))

        self.at(ago, start)
        return asking

    def perform(self, tell: Callable[[str], Any]) -> None:
        """Let it happen, each thing at its moment."""
        now = read_now()
        scenes = sorted(self.scenes, key=lambda scene: scene[:2])
        moments = [_move_to_daytime(now - timedelta(hours=-ago), now) for ago, _order, _do in scenes]
        with start_ago(now - moments[0] + timedelta(minutes=1)) as past:
            for number, (moment, (_ago, _order, do)) in enumerate(zip(moments, scenes, strict=True)):
                past.move_to(now - moment)
                do()
                if number % 40 == 39:
                    tell(f"{number + 1} of {len(scenes)} things have happened …")


def fill_in(schema: Any) -> Any:
    """The form as it is filled in beforehand."""
    if "default" in schema:
        return schema["default"]
    return {name: fill_in(one) for name, one in schema["properties"].items() if name in schema.get("required", ())}


def is_untouched() -> bool:
    """Whether nothing has happened in this database yet: only then is there a past to make."""
    return not Instance.objects.exists()


def _move_to_daytime(moment: datetime, now: datetime) -> datetime:
    """What was some days ago was while people work; it stays on its day, and everything in its order."""
    if moment >= now.replace(hour=0, minute=0, second=0, microsecond=0) - timedelta(days=2):
        return moment
    morning = moment.replace(hour=0, minute=0, second=0, microsecond=0)
    return morning + timedelta(hours=7) + (moment - morning) * 9 / 24


def _turn(words: tuple[str, ...]) -> Any:
    while True:
        yield from words
