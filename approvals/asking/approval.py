"""`Approval`: asking people, as a channel for all three styles; and `Answer`, what comes back.

Lives here: reading what authors write. Invariant owned: an `Approval` that was made can be opened, but for names of
people and rows that are not there: those are looked up when it is.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any, Generic, Literal, TypeAlias, TypedDict, Unpack, get_args, overload

from django.db import models
from django.db.models import QuerySet

from approvals.exceptions import InvalidApproval
from approvals.rules import All, Count, Outcome, Percent, Quorum, read_outcomes, read_quorum
from approvals.rules.calendar import Calendar
from approvals.rules.escalation import read_ladder
from approvals.rules.quorum import name_group
from approvals.subjects.evidence import read_evidence
from workflows.definitions.channel import Channel
from workflows.definitions.decision import Answer, Data, Decision
from workflows.definitions.question import name_projector
from workflows.exceptions import InvalidCall, show
from workflows.schemas.schema import Schema, read_schema
from workflows.values.json_text import check_text
from workflows.values.types_of_signatures import Duration, SchemaValue, T, Validating
from workflows.wording.messages import gettext_noop

if TYPE_CHECKING:
    from workflows.models import Instance, Interaction

#: Characters of the sentence that says what will happen, and of the reason for it.
MAX_TITLE = 300
MAX_WHY = 2_000

Risk: TypeAlias = Literal["low", "medium", "high"]
RISKS: tuple[str, ...] = get_args(Risk)

#: One or several people or groups: as rows, or by name.
Named: TypeAlias = str | models.Model | Iterable[str | models.Model]

#: Equal votes that decide: 2, "50%", "all", {"finance": 1, "legal": "all"}, Veto(2).
QuorumValue: TypeAlias = int | str | Mapping[Any, int | str | Count | Percent | All] | Quorum


class ApprovalOptions(TypedDict, total=False):
    """All options of an `Approval` but its schema, which types the answer. For type checkers."""

    subject: models.Model | None
    change: Mapping[str, Any] | None
    request: Any
    outcomes: Iterable[str | Outcome]
    assignees: Named
    groups: Named
    permission: str | None
    candidates: str | QuerySet[Any] | Iterable[str | models.Model] | None
    quorum: QuorumValue
    four_eyes: bool
    requester: str | models.Model | None
    risk: Risk
    evidence: Iterable[Any]
    on_decision: Callable[[Answer[Any], Instance], object] | None
    calendar: str | Calendar | None
    due: Duration | datetime | None
    remind: Iterable[Duration | tuple[Duration, Any]] | None
    escalate: Iterable[tuple[Duration, Any]] | None
    why: str


class Approval(Channel[Answer[Data]], Generic[Data]):
    """Ask people to decide.

    >>> def check(self, ctx):
    ...     return Await(Approval("Refund €1,240.00 to Acme GmbH", groups=["finance"]), then="pay", timeout="7d")
    """

    name = "approval"
    owns_answers = True
    door = gettext_noop("in the inbox, or by POST /v1/approvals/{id}/decide")

    @overload
    def __init__(
        self: Approval[dict[str, Any] | None],
        title: str,
        *,
        schema: type[Validating],
        **options: Unpack[ApprovalOptions],
    ) -> None: ...
    @overload
    def __init__(
        self: Approval[T | None], title: str, *, schema: type[T], **options: Unpack[ApprovalOptions]
    ) -> None: ...
    @overload
    def __init__(
        self: Approval[Any], title: str, *, schema: SchemaValue | None = None, **options: Unpack[ApprovalOptions]
    ) -> None: ...
    def __init__(
        self,
        title: str,
        *,
        subject: models.Model | None = None,
        change: Mapping[str, Any] | None = None,
        request: Any = None,
        schema: Any = None,
        outcomes: Iterable[str | Outcome] = ("approve", "reject"),
        assignees: Any = (),
        groups: Any = (),
        permission: str | None = None,
        candidates: Any = None,
        quorum: Any = 1,
        four_eyes: bool = True,
        requester: Any = None,
        risk: str = "low",
        evidence: Iterable[Any] = (),
        on_decision: Any = None,
        calendar: str | Calendar | None = None,
        due: Any = None,
        remind: Iterable[Any] | None = None,
        escalate: Iterable[Any] | None = None,
        why: str = "",
    ) -> None:
        self.title = _read_title(title)
        self.subject = _read_subject(subject, change)
        self.change = None if change is None else {**change}
        self.request = request
        self.schema: Schema | None = read_schema(schema)
        self.outcomes = read_outcomes(outcomes)
        self.assignees = _list_people("assignees", assignees)
        self.groups = [_name_group(one) for one in list_given("groups", groups)]
        self.permission = _read_permission(permission)
        self.candidates = _read_candidates(candidates)
        self.quorum: Quorum = read_quorum(quorum, self.outcomes)
        self.four_eyes = _read_flag("four_eyes", four_eyes)
        self.requester = requester
        if risk not in RISKS:
            raise InvalidApproval("risk", risk, f"choose one of {', '.join(RISKS)}")
        self.risk = risk
        self.evidence = read_evidence(evidence)
        self.why = _read_why(why)
        self.on_decision = _name_function(on_decision)
        self.ladder = read_ladder(remind=remind, escalate=escalate, due=due, calendar=calendar, outcomes=self.outcomes)
        self.assignee = _name_only(self.assignees)
        # Whom a rule counts, it also asks.
        self.groups = list(dict.fromkeys([*self.groups, *self.quorum.groups]))
        self.group = self.groups[0] if len(self.groups) == 1 else None

    def open(self, interactions: Sequence[Interaction]) -> None:
        """Write the reviews, in the transaction that opens their interactions."""
        from approvals.asking.opening import open_review

        for interaction in interactions:
            open_review(self, interaction)

    @classmethod
    def read_answer(cls, answer: Any, schema: Schema | None) -> Answer[Any]:
        """The stored answer as the author is handed it."""
        data = _cast(answer["data"], schema)
        return Answer(
            outcome=answer["outcome"],
            data=data,
            reason=answer["reason"],
            actor=answer["actor"],
            decisions=tuple(_read_decision(one, data, schema) for one in answer["decisions"]),
        )


def _cast(data: Any, schema: Schema | None) -> Any:
    return schema.cast(data) if schema is not None and data is not None else data


def _read_decision(stored: Mapping[str, Any], answered: Any, schema: Schema | None) -> Decision:
    told = dict(stored)
    at, is_same = told.pop("at"), told.pop("as_answered", False)
    data = answered if is_same else _cast(told.pop("data", None), schema)
    return Decision(**told, at=None if at is None else datetime.fromisoformat(at), data=data)


def _read_title(given: object) -> str:
    if not isinstance(given, str) or not given.strip():
        raise InvalidApproval("title", given, "write the sentence that says what will happen")
    try:
        # In one line: it is the subject of messages too.
        return check_text(" ".join(given.split()), "the title of an approval", limit=MAX_TITLE)
    except InvalidCall as error:
        raise InvalidApproval("title", given, str(error), reason=error.reason) from error


def _read_why(given: object) -> str:
    try:
        return check_text(given, "why", limit=MAX_WHY, blank=True).strip()
    except InvalidCall as error:
        raise InvalidApproval("why", given, str(error), reason=error.reason) from error


def _read_subject(given: Any, change: Any) -> models.Model | None:
    if given is not None and not isinstance(given, models.Model):
        raise InvalidApproval("subject", given, "it is the row that the decision is about: an instance of a model")
    if change is not None and not isinstance(change, Mapping):
        raise InvalidApproval("change", change, "write {field: new value}")
    if change is not None and given is None:
        raise InvalidApproval("change", change, "it changes a row: say which, with subject=")
    return given


def list_given(option: str, given: Any) -> list[Any]:
    """Who is named: one or several, as rows or by name; a lone one is a list of one.

    >>> list_given("groups", "finance")
    ['finance']
    """
    if given is None:
        return []
    if isinstance(given, str | models.Model):
        given = [given]
    if isinstance(given, Mapping | bytes) or not isinstance(given, Iterable):
        raise InvalidApproval(option, given, 'write a list of names or rows, such as ["ann", "ben"]')
    return [_read_named(option, one) for one in given]


def _read_named(option: str, given: Any) -> Any:
    if isinstance(given, models.Model):
        return given
    if not isinstance(given, str):
        raise InvalidApproval(option, given, "name it, or give the row itself")
    try:
        return check_text(given, f"a name in {option}=")
    except InvalidCall as error:
        raise InvalidApproval(option, given, str(error)) from error


def _list_people(option: str, given: Any) -> list[Any]:
    people = list_given(option, given)
    for one in people:
        if not isinstance(one, str) and not hasattr(one, "get_username"):
            raise InvalidApproval(option, one, "a user is given as an object, or by the username")
    return people


def _name_group(given: Any) -> str:
    if not isinstance(given, str) and given._meta.label_lower != "auth.group":
        raise InvalidApproval("groups", given, "a group is given as an object, or by its name")
    return name_group(given, "groups")


def _read_permission(given: Any) -> str | None:
    if given is None:
        return None
    told = 'write app label and codename, such as "shop.approve_order"'
    try:
        app, _, codename = check_text(given, "permission=").partition(".")
    except InvalidCall as error:
        raise InvalidApproval("permission", given, told) from error
    if not (app.isidentifier() and codename):
        raise InvalidApproval("permission", given, told)
    return str(given)


def _read_candidates(given: Any) -> str | QuerySet[Any] | list[Any] | None:
    """The name of a rule, or users."""
    if given is None or isinstance(given, QuerySet):
        return given
    if isinstance(given, str):
        if not given.isidentifier():
            raise InvalidApproval("candidates", given, "it is the name of a rule (@candidates), or users")
        return given
    return _list_people("candidates", given)


def _read_flag(option: str, given: Any) -> bool:
    if not isinstance(given, bool):
        raise InvalidApproval(option, given, "write True or False")
    return given


def _name_function(given: Any) -> str:
    """Where `on_decision` is found: whoever decides runs it, in whatever process."""
    try:
        return name_projector(given) or ""
    except InvalidCall as error:
        told = f"it is a function (answer, instance) at the top of a module, not {show(given)}"
        raise InvalidApproval("on_decision", given, told) from error


def _name_only(assignees: Sequence[Any]) -> str | None:
    if len(assignees) != 1:
        return None
    one = assignees[0]
    return one if isinstance(one, str) else str(one.get_username())
