"""What belongs to an instance: its questions, event waits, inbox, saved calls, children and history, read for showing.

Invariant owned: a bounded number of rows, and of characters unless whole values are asked for; secrets (the hashes of
tokens and of idempotency keys) are not read into anything that is printed.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from django.db.models import QuerySet, TextField
from django.db.models.functions import Cast, Left

from workflows.definitions.awaited_event import EVENT
from workflows.definitions.awaited_kinds import ASKED, END
from workflows.definitions.question import UNIT
from workflows.models import Instance, Interaction

#: Names that the engine gave; an excerpt may end in the middle of one.
_OURS = re.compile(f"({UNIT}|{EVENT}|{END}|{ASKED})([0-9a-f-]*)")


@dataclass(frozen=True, slots=True)
class OwnedRows:
    """Rows of one kind, the newest first, and their column that may have half a megabyte."""

    title: str
    found: QuerySet[Any]
    heavy: str | None = None
    #: Columns that only a whole record has.
    spare: tuple[str, ...] = ()

    def read(self, rows: int, *, excerpt: int | None = None, whole: bool = False) -> tuple[list[Any], bool]:
        """The last so many, oldest first, and whether there are more.

        The heavy column comes as it is with `whole`, else as a text, `excerpt`: its beginning, or all of it.
        """
        found = self.found if whole else self.found.defer(*self.spare)
        if self.heavy is not None and not whole:
            text: Any = Cast(self.heavy, TextField())
            found = found.defer(self.heavy).annotate(excerpt=text if excerpt is None else Left(text, excerpt))
        some = list(found[: rows + 1])
        return some[:rows][::-1], len(some) > rows


def list_parts(instance: Instance) -> Iterator[OwnedRows]:
    """In the order in which they are shown."""
    related: Any = instance
    # Found by their units, which have an index on the instance.
    asked = Interaction.objects.using(instance._state.db).filter(unit__in=instance.units.values("pk"))
    secret = ("token_hash",)
    yield OwnedRows(
        "Questions", asked.select_related("unit").defer(*secret).order_by("-id"), None, ("request", "schema", "output")
    )
    yield OwnedRows("Event waits", related.event_waits.order_by("-id"), None, ("schema",))
    yield OwnedRows("Inbox", related.signals.order_by("-n"), "payload")
    yield OwnedRows("Saved calls", related.checkpoints.order_by("-position"), "value")
    yield OwnedRows("Children", related.children.order_by("-id").defer("input", "stored_state", "result", "error"))
    yield OwnedRows("History", related.events.order_by("-seq"), "data")


def word_names(instance: Instance, texts: Iterable[object]) -> Callable[[object], str]:
    """A function that says a text with the engine's names in people's words; `texts` are all it will be given."""
    meant: dict[str, set[UUID]] = {UNIT: set(), EVENT: set(), END: set(), ASKED: set()}
    for text in texts:
        for prefix, id in _OURS.findall(str(text or "")):
            if len(id) == 36:
                meant[prefix].add(UUID(id))
    words: dict[str, str] = {}
    if ids := meant[UNIT]:
        units = instance.units.filter(pk__in=ids).values_list("pk", "step")
        words |= {f"{UNIT}{id}": f"answer to {step}" for id, step in units}
    if ids := meant[EVENT]:
        waits = instance.event_waits.filter(pk__in=ids).values_list("pk", "event")
        words |= {f"{EVENT}{id}": f"event {event}" for id, event in waits}
    words |= {f"{END}{id}": f"end of instance {id}" for id in meant[END]}

    def say(text: object) -> str:
        return _OURS.sub(lambda one: words.get(one[0], _UNKNOWN[one[1]]), str(text or ""))

    return say


_UNKNOWN = {UNIT: "an answer", EVENT: "an event", END: "the end of an instance", ASKED: "several questions"}
