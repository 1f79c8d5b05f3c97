"""Asking and deciding, for tests: people, a workflow that asks whatever a test wants, and the truth about open rows.

Lives here: what several test modules of approvals begin with, and what holds whatever they do: a refusal changes
nothing but the ledger, and what the inbox's indexes carry is true. What must not: assertions about one rule.
"""

from __future__ import annotations

import contextlib
import itertools
import threading
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from datetime import date, timedelta
from decimal import Decimal
from typing import Any

import pytest
from django.contrib.auth.models import Group, Permission, User
from django.db import IntegrityError, OperationalError, connection
from django.test.utils import CaptureQueriesContext
from psycopg import errors

import workflows
from approvals import Answer, Approval, Stale, decide
from approvals.models import Absence, Candidate, Comment, Notice, Review, Vote
from workflows import Await, Done, Next, Workflow, step
from workflows.clock import read_now
from workflows.definitions.sweeps import list_sweeps, register_sweep, unregister_sweep
from workflows.models import Instance, Interaction, LedgerEvent, Signal
from workflows.testing import drain

_numbers = itertools.count()
_options: dict[int, list[dict[str, Any]]] = {}
#: What the workflow was handed, the latest last.
answers: list[Answer | None] = []


class Asking(Workflow):
    """Asks once for each set of options that the test wrote down, each time in another step."""

    name = "approving.ask"

    @step
    def first(self, ctx: Any) -> Any:
        return _ask(ctx, 0, then="second" if len(_options[ctx.input["n"]]) > 1 else "end")

    @step
    def second(self, ctx: Any) -> Any:
        answers.append(ctx.answer)
        return _ask(ctx, 1, then="end")

    @step
    def end(self, ctx: Any) -> Any:
        answers.append(ctx.answer)
        answer = ctx.answer
        return Done({"outcome": answer.outcome, "actor": answer.actor} if answer else {"timed_out": ctx.timed_out})


class Looping(Workflow):
    """Asks in the same step until somebody approves."""

    name = "approving.loop"

    @step
    def ask(self, ctx: Any) -> Any:
        return Await(Approval("Again?", **_options[ctx.input["n"]][0]), then="look", timeout="7d")

    @step
    def look(self, ctx: Any) -> Any:
        return Done() if ctx.answer.outcome == "approve" else Next("ask")


def _ask(ctx: Any, place: int, *, then: str) -> Any:
    options = {"title": "Pay the invoice", **_options[ctx.input["n"]][place]}
    return Await(Approval(**options), then=then, timeout=ctx.input["timeout"])


def start(
    *stages: dict[str, Any],
    workflow: Any = Asking,
    timeout: str | None = "7d",
    run: Callable[[], Any] = drain,
    **options: Any,
) -> Instance:
    """An instance that asks so."""
    n = next(_numbers)
    _options[n] = list(stages)
    instance = workflows.start(workflow, {"n": n, "timeout": timeout}, **options)
    run()
    return instance


def ask(
    *, timeout: str | None = "7d", actor: Any = "", run: Callable[[], Any] = drain, key: Any = None, **options: Any
) -> Review:
    """The review of an approval with these options."""
    return find_review(start(options, timeout=timeout, actor=actor, run=run, key=key))


def ask_all(asked: Iterable[dict[str, Any]]) -> list[Review]:
    """The reviews of several approvals that are asked together, which costs a fraction of asking one by one."""
    instances = [start(options, run=lambda: None) for options in asked]
    drain()
    return [find_review(instance) for instance in instances]


def find_review(instance: Instance) -> Review:
    """The latest that an instance asked."""
    found: Review = Review.objects.filter(instance=instance).order_by("interaction").last()
    return found


def make_person(name: str, *groups: str, **values: Any) -> User:
    """Somebody called "Ann" who logs in as "ann"."""
    user = User.objects.create_user(name, first_name=name.capitalize(), **values)
    user.groups.set([Group.objects.get_or_create(name=group)[0] for group in groups])
    return user


def grant(user: User, codename: str) -> User:
    """The same person with a permission of approvals, as they are loaded next."""
    user.user_permissions.add(Permission.objects.get(codename=codename, content_type__app_label="holdpoint_approvals"))
    return User.objects.get(pk=user.pk)


def again(review: Review) -> Review:
    """The row as it is now."""
    found: Review = Review.objects.get(pk=review.pk)
    return found


def list_events(review: Review, kind: str) -> list[LedgerEvent]:
    """The history of a review's instance, of one kind."""
    return list(LedgerEvent.objects.filter(instance=review.instance_id, kind=kind).order_by("seq"))


def list_notices(review: Review, kind: str | None = None) -> list[Notice]:
    """What people are to be told."""
    found = Notice.objects.filter(review=review)
    return list(found if kind is None else found.filter(kind=kind))


def list_standing(review: Review) -> list[tuple[str, str]]:
    """Who has a vote that counts, and for what."""
    return [(vote.actor, vote.outcome) for vote in Vote.objects.filter(review=review, standing=True).order_by("at")]


def tell_rows(*models: type) -> list[Any]:
    """Every row of these tables as it stands; xmin tells even an update that wrote the same values."""
    found: list[Any] = []
    with connection.cursor() as cursor:
        for model in models:
            cursor.execute(f"SELECT t.xmin::text, t::text FROM {model._meta.db_table} t ORDER BY t::text")  # type: ignore[attr-defined]
            found += cursor.fetchall()
    return found


TABLES = (Instance, Interaction, Signal, Review, Candidate, Vote, Comment, Notice, User)


def refused(error: type[Exception], review: Review, outcome: str = "approve", **options: Any) -> Any:
    """It is refused so: one ledger row tells of it, and no other row has changed."""
    known = {row.pk for row in LedgerEvent.objects.all()}
    before = _without_seq(tell_rows(*TABLES))
    with pytest.raises(error) as caught:
        decide(review, outcome, **options)
    assert type(caught.value) is error
    assert _without_seq(tell_rows(*TABLES)) == before
    [row] = [row for row in LedgerEvent.objects.all() if row.pk not in known]
    assert (row.kind, row.actor) == ("refused", f"user:{options['actor'].pk}")
    assert row.data["interaction"] == str(review.pk)
    assert row.data["refused"] == error.__name__
    assert row.data["outcome"] == outcome
    return caught.value


def _without_seq(rows: list[Any]) -> list[Any]:
    """The instance's row gives out the number of the ledger's."""
    ids = {str(pk) for pk in Instance.objects.values_list("pk", flat=True)}
    return [text for _, text in rows if not any(text.startswith(f"({id}") for id in ids)]


TRANSACTION = ("BEGIN", "COMMIT", "ROLLBACK", "SAVEPOINT", "RELEASE")


def count_statements(call: Any) -> list[str]:
    with CaptureQueriesContext(connection) as captured:
        call()
    return [one["sql"] for one in captured if not one["sql"].lstrip().upper().startswith(TRANSACTION)]


def check_truth() -> None:
    """What the inbox's indexes carry is what the interactions say."""
    for review in Review.objects.select_related("interaction"):
        pending = review.interaction.status == "pending"
        assert review.open is pending, f"{review.pk}: open={review.open}, interaction is {review.interaction.status}"
        if not review.open:
            assert (review.next_at, review.effective_at, review.held_deadline) == (None, None, None)
        if review.effective_at is not None:
            assert review.interaction.deadline is None
            assert review.outcome
            assert review.decided_at
        elif review.open:
            assert (review.outcome, review.decided_at, review.decided_by_id) == ("", None, None)
        for row in Candidate.objects.filter(review=review):
            assert (row.open, row.due_at, row.workspace_id) == (review.open, review.due_at, review.workspace_id)
    assert not Review.objects.filter(interaction__pk=None).exists()


@pytest.fixture(autouse=True)
def truth(request: pytest.FixtureRequest) -> Iterator[None]:
    """After every test of a module that imports this. What is to be told stays where a test can look at it."""
    answers.clear()
    _calls.clear()
    _lost.clear()
    request.getfixturevalue("_django_db_helper")
    notices = [one for one in list_sweeps() if one.name == "notices"]
    unregister_sweep("notices")
    yield
    for one in notices:
        register_sweep(one)
    if not connection.needs_rollback:
        check_truth()


# --- what projects write: found by name when a decision is carried out ----------------------------------------

_calls: list[tuple[Any, Any]] = []


def list_calls() -> list[tuple[Any, Any]]:
    """(answer, instance) of every call of `rename_actor` and the others below."""
    return _calls


def note_call(answer: Any, instance: Any) -> None:
    """Remembers what it was called with."""
    _calls.append((answer, instance))


def rename_actor(answer: Any, instance: Any) -> None:
    """A business change: who decided is called after what they decided."""
    note_call(answer, instance)
    User.objects.filter(pk=answer.actor.partition(":")[2]).update(last_name=answer.outcome)


def rename_and_raise(answer: Any, instance: Any) -> None:
    """A business change that goes wrong half-way."""
    rename_actor(answer, instance)
    raise ValueError("no such account")


def cancel_it(answer: Any, instance: Any) -> None:
    """The project's code ends the very instance that is being answered."""
    workflows.cancel(instance)


def decide_another(answer: Any, instance: Any) -> None:
    """A decision within a decision, by somebody who was not asked."""
    other = Review.objects.filter(open=True).exclude(instance=instance).get()
    decide(other, "approve", actor=User.objects.get(pk=answer.actor.partition(":")[2]))


def refuse_as_stale(answer: Any, instance: Any) -> None:
    """The project's own refusal, in the words of approvals."""
    raise Stale({"Stock": ("12", "0")})


def break_a_constraint(answer: Any, instance: Any) -> None:
    """The database refuses what the project's code does."""
    User.objects.create_user(username=User.objects.earliest("pk").username)


def swallow_a_failure(answer: Any, instance: Any) -> None:
    """The project's code does not notice that a statement of its own has failed."""
    with contextlib.suppress(IntegrityError):
        break_a_constraint(answer, instance)


def fail_once(answer: Any, instance: Any) -> None:
    """Fails as long as somebody is called "trouble"."""
    if User.objects.filter(username="trouble").exists():
        raise ValueError("trouble")
    note_call(answer, instance)


_lost = threading.Event()


def lose_the_server(answer: Any, instance: Any) -> None:
    """What has nothing to do with the decision fails, until it does not."""
    if not _lost.is_set():
        raise OperationalError("could not serialize access") from errors.SerializationFailure()


def give_the_server_back() -> None:
    """`lose_the_server` does no harm any more, in this test."""
    _lost.set()


def fail_always(answer: Any, instance: Any) -> None:
    """The project's code says no, every time."""
    raise ValueError("the books are closed")


def meet_another_server(answer: Any, instance: Any) -> None:
    """A database of the project that is away, and says where it was looked for."""
    raise OperationalError("could not connect to postgres://app:hunter2@db/prod")


@dataclass
class Payment:
    amount: Decimal
    on: date


def make_absent(user: User, substitute: User, **options: Any) -> Absence:
    made: Absence = Absence.objects.create(
        **{"user": user, "substitute": substitute, "since": read_now() - timedelta(hours=1), **options}
    )
    return made


def list_asked(review: Review) -> list[str]:
    return list(Candidate.objects.filter(review=review).order_by("pk").values_list("principal", flat=True))
