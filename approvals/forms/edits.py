"""What approvers fill in: the data that is on the table, and what each vote made of it.

A form's data are on the table from the moment in which somebody votes with them; before that, what the form was asked
with. Whoever agrees, agrees to what is on the table; whoever fills in something else puts that there instead.

Lives here: comparing data, and replaying votes. Must not live here: a query, and how data read (`form_values`).
Invariants owned: data are compared by what they mean (9000 is 9000.0, the order of keys is nothing), at every door
alike; votes that say no put nothing on the table.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from approvals.models import Vote
from approvals.rules.outcomes import Outcome
from approvals.rules.rights import says_no
from approvals.subjects.diff_parts import ABSENT, same_json
from workflows.exceptions import InvalidData
from workflows.forms.form import SchemaForm
from workflows.schemas.schema import Schema
from workflows.values.json_text import MISSING


@dataclass(frozen=True, slots=True)
class Table:
    """What is on the table."""

    #: `ABSENT` where nobody has filled in anything and the form says nothing either.
    data: Any
    #: The latest vote that agrees to it; None as long as nobody does.
    vote: Vote | None = None


def read_asked(schema: Any) -> Any:
    """What a form (of this JSON Schema) is asked with: its defaults, as an untouched page sends them.

    >>> read_asked({"type": "object", "properties": {"value": {"type": "number", "default": 9600}}})
    {'value': 9600}
    """
    if schema is None:
        return ABSENT
    form = SchemaForm(schema)
    value = form.read(form.begin()).value
    return ABSENT if value is MISSING else value


def is_same(one: Any, other: Any, schema: Schema | None) -> bool:
    """Whether two people filled in the same: as JSON, or as what the schema's class makes of it.

    >>> is_same({"value": 9000, "months": 12}, {"months": 12, "value": 9000.0}, None)
    True
    """
    if same_json(one, other):
        return True
    if schema is None or schema.type_path is None or any(side is ABSENT or side is None for side in (one, other)):
        return False
    try:
        return bool(schema.cast(one) == schema.cast(other))
    except InvalidData:  # of an older class
        return False


def carries(vote: Vote, outcomes: Sequence[Outcome]) -> bool:
    """Whether it puts its data on the table: who says no does not."""
    return vote.reverses_id is None and not any(one.name == vote.outcome and says_no(one, outcomes) for one in outcomes)


def find_table(votes: Sequence[Vote], outcomes: Sequence[Outcome], asked: Any) -> Table:
    """What these votes (those that count) amount to; `asked` is what the form was asked with."""
    latest = next((vote for vote in reversed(votes) if carries(vote, outcomes)), None)
    return Table(asked) if latest is None else Table(latest.data, latest)


def find_agreed(votes: Sequence[Vote], outcome: str, outcomes: Sequence[Outcome]) -> Any:
    """What everybody who gave this answer filled in. Who says yes agrees to what is on the table; who says no may fill
    in what they like, and where they differ it is nobody's answer.

    >>> find_agreed(case.votes, "approve", case.outcomes)
    {'value': 9000}
    """
    agreeing = [vote for vote in votes if vote.outcome == outcome]
    if not agreeing:
        return None
    latest = agreeing[-1]
    if carries(latest, outcomes) or all(same_json(vote.data, latest.data) for vote in agreeing):
        return latest.data
    return None


def find_shown(votes: Sequence[Vote], version: int, asked: Any, cleared: Iterable[int] = ()) -> Any:
    """What was on the table in an earlier version; `votes` are all there ever were, and with each version in `cleared`
    none of the votes before it counted any more."""
    changes = [vote for vote in votes if vote.version is not None and vote.changed_from is not None]
    for vote in changes:
        if vote.version == version + 1:
            return load_before(vote)
    since = max((one for one in cleared if one <= version), default=0)
    earlier = [vote for vote in changes if vote.version is not None and since <= vote.version <= version]
    return earlier[-1].data if earlier else asked


def dump_before(data: Any) -> dict[str, Any]:
    """For `Vote.changed_from`."""
    return {} if data is ABSENT else {"data": data}


def load_before(vote: Vote) -> Any:
    """What a vote found on the table, where it changed it."""
    return (vote.changed_from or {}).get("data", ABSENT)
