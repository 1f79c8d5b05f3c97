"""System checks that look at rows: what open reviews need of this code, and who is asked but is not there.

Asked with `check --database default` only, and before each `migrate`. Invariant owned: each question is one pass over
the open reviews, however many there are, and nothing is written.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import timedelta
from typing import Any

from django.apps import apps
from django.contrib.auth import get_user_model
from django.contrib.auth.models import Group, Permission
from django.core.checks import CheckMessage, Error, Warning
from django.db import DatabaseError, transaction
from django.db.models import BooleanField, Count, F, Func, Max, Q, TextField, Value
from django.db.models.functions import Cast

from approvals.exceptions import InvalidApproval
from approvals.models import Candidate, Review
from approvals.operations.checks import LAST_HINT, list_declared
from approvals.people.principals import GROUP, PERMISSION, RULE, USER, find_rule
from approvals.rules import find_last_concern, load_outcomes, load_quorum
from approvals.rules.escalation import Ladder, Step, list_concerns, load_rungs
from workflows.definitions.question import find_projector
from workflows.operations.asked_database import choose_database

#: Groups of reviews that are named; there may be many kinds.
MOST_TOLD = 20
_BACK = "Put it back, or where it was moved leave its old name behind, until those reviews are decided."


def check_reviews(app_configs: Any = None, databases: Sequence[str] | None = None, **kwargs: Any) -> list[CheckMessage]:
    """What open reviews need and this code does not have."""
    lost = (_find_lost_rules, _find_lost_functions, _find_lost_models, _find_lost_principals)
    return _ask(databases, (*lost, _find_concerns, _find_last_concerns))


def check_names(app_configs: Any = None, databases: Sequence[str] | None = None, **kwargs: Any) -> list[CheckMessage]:
    """Whether the groups and users are there that machines ask by name."""
    return _ask(databases, (_find_unknown_names,))


def _ask(
    databases: Sequence[str] | None, questions: Sequence[Callable[[str], Iterator[CheckMessage]]]
) -> list[CheckMessage]:
    alias = choose_database(databases)
    if alias is None:
        return []
    try:
        with transaction.atomic(using=alias):  # before the first migrate there is nothing to ask
            return [message for question in questions for message in question(alias)]
    except DatabaseError:
        return []


def _find_lost_rules(alias: str) -> Iterator[CheckMessage]:
    for name, count in _count_principals(alias, RULE).items():
        try:
            find_rule(name)
        except InvalidApproval:
            yield Error(
                f"{_count(count)} for whoever the rule {name!r} names, which is not registered: nobody can decide "
                "there, and lists of the others fail.",
                hint=f'Register it again with @candidates("{name}") in a module that every process imports, such as an '
                "app's workflows.py; or reassign those reviews.",
                id="holdpoint_approvals.E030",
            )


def _find_lost_functions(alias: str) -> Iterator[CheckMessage]:
    for path, count in _count_by(alias, "on_decision").items():
        try:
            find_projector(path)
        except Exception as error:  # whatever the project's module does when it is imported
            yield Error(
                f"{_count(count)} with the function {path!r} to be called on a decision, which cannot be imported "
                f"({type(error).__name__}: {error}): every decision there is refused.",
                hint=_BACK,
                id="holdpoint_approvals.E031",
            )


def _find_lost_models(alias: str) -> Iterator[CheckMessage]:
    for label, count in _count_by(alias, "subject_model").items():
        try:
            apps.get_model(label)
        except (LookupError, ValueError):
            yield Error(
                f"{_count(count, 'is', 'are')} about rows of the model {label!r}, which is not there: nobody can see "
                "what changes, so nobody can decide.",
                hint=_BACK,
                id="holdpoint_approvals.E032",
            )


def _find_lost_principals(alias: str) -> Iterator[CheckMessage]:
    """Not wrong for sure, since others may be asked too; but nobody will ever answer to them."""
    groups = _count_principals(alias, GROUP)
    there = set(map(str, Group.objects.filter(pk__in=list(groups)).values_list("pk", flat=True))) if groups else set()
    for key in sorted(groups.keys() - there):
        yield Warning(
            f"{_count(groups[key])} for a group that was deleted (its id was {key}).",
            hint="Reassign them: select them in the admin, or call approvals.reassign().",
            id="holdpoint_approvals.W033",
        )
    permissions = _count_principals(alias, PERMISSION)
    for name, count in permissions.items():
        app, _, codename = name.partition(".")
        if not Permission.objects.filter(content_type__app_label=app, codename=codename).exists():
            yield Warning(
                f"{_count(count)} for whoever has the permission {name!r}, which does not exist: only superusers can "
                "decide.",
                hint='It is written "app_label.codename". Put it right where it is asked, and reassign those reviews.',
                id="holdpoint_approvals.W033",
            )


def _find_concerns(alias: str) -> Iterator[CheckMessage]:
    """What happens by itself with reviews whose authors wrote their ladder in a step or a function."""
    waiting = Review.objects.using(alias).filter(open=True, rungs__isnull=False)
    answer = Func(F("rungs"), Value('$[*] ? (@.do == "outcome").outcome'), function="jsonb_path_query_first")
    answers = Q(rungs__contains=[{"do": "outcome"}])
    endless = Q(interaction__deadline__isnull=True, effective_at__isnull=True, instance__status="awaiting")
    kinds = waiting.filter(answers | endless).annotate(answer=Cast(answer, TextField()))
    found = kinds.values("workflow", "step", "answer").annotate(count=Count("pk"), one=Max(Cast("pk", TextField())))
    for kind in found.order_by("-count", "workflow", "step")[:MOST_TOLD]:
        review = Review.objects.using(alias).get(pk=kind["one"])
        for concern in list_concerns(_read_ladder(review), load_outcomes(review.outcomes)):
            yield Warning(
                f"{_count(kind['count'])} in step {review.step!r} of workflow {review.workflow!r}: {concern}.",
                hint="If it is meant so, silence this check: SILENCED_SYSTEM_CHECKS = ['holdpoint_approvals.W034'].",
                id="holdpoint_approvals.W034",
            )


def _find_last_concerns(alias: str) -> Iterator[CheckMessage]:
    """Whose lost vote would say yes."""
    yes = Value('$[last] ? (@.tone == "positive" || @.name == "approve")')
    says_yes = Func(F("outcomes"), yes, function="jsonb_path_exists", output_field=BooleanField())
    waiting = Review.objects.using(alias).filter(open=True).alias(says_yes=says_yes).filter(says_yes=True)
    kinds = waiting.values("workflow", "step", "outcomes", "quorum__rule").annotate(count=Count("pk"))
    for kind in kinds.order_by("-count", "workflow", "step")[:MOST_TOLD]:
        concern = find_last_concern(load_outcomes(kind["outcomes"]), load_quorum(kind["quorum__rule"]))
        if concern:
            yield Warning(
                f"{_count(kind['count'])} in step {kind['step']!r} of workflow {kind['workflow']!r}: {concern}.",
                hint=f"{LAST_HINT} Those that wait keep theirs: withdraw and ask again where it matters.",
                id="holdpoint_approvals.W036",
            )


def _find_unknown_names(alias: str) -> Iterator[CheckMessage]:
    users: Any = get_user_model()
    for where, approval, _ in list_declared():
        groups = [*approval.groups, *(step.action.group for step in approval.ladder.steps if step.action.group)]
        known = set(Group.objects.filter(name__in=groups).values_list("name", flat=True))
        missing = [f"group {name!r}" for name in dict.fromkeys(groups) if name not in known]
        names = [one for one in approval.assignees if isinstance(one, str)]
        names += [step.action.user for step in approval.ladder.steps if step.action.user]
        people = set(
            users._default_manager.filter(**{f"{users.USERNAME_FIELD}__in": names}).values_list(
                users.USERNAME_FIELD, flat=True
            )
        )
        missing += [f"{USER} {name!r}" for name in dict.fromkeys(names) if name not in people]
        if missing:
            yield Warning(
                f"{where} asks {', '.join(missing)}, and there is none of this name here: it would fail there.",
                hint="Create it in the admin, or write the name that it has.",
                id="holdpoint_approvals.W035",
            )


def _read_ladder(review: Review) -> Ladder:
    """As it was written, as far as moments tell."""
    rungs = load_rungs(review.rungs or [])[review.rung :]
    return Ladder(tuple(Step(_tell_span(rung.at - review.created_at), rung.action) for rung in rungs))


def _tell_span(span: timedelta) -> str:
    hours = round(span.total_seconds() / 3600)
    return f"{hours // 24} days" if hours >= 48 else f"{max(hours, 1)} h"


def _count_principals(alias: str, kind: str) -> dict[str, int]:
    """Name -> how many open reviews ask it."""
    rows = Candidate.objects.using(alias).filter(open=True, principal__startswith=f"{kind}:")
    counted: Mapping[str, int] = dict(rows.values_list("principal").annotate(Count("pk")).order_by("principal"))
    return {principal.partition(":")[2]: count for principal, count in counted.items()}


def _count_by(alias: str, column: str) -> dict[str, int]:
    """Value -> how many open reviews have it."""
    rows = Review.objects.using(alias).filter(open=True).exclude(**{column: ""})
    return dict(rows.values_list(column).annotate(Count("pk")).order_by(column))


def _count(number: int, one: str = "waits", many: str = "wait") -> str:
    return f"{number} open review {one}" if number == 1 else f"{number} open reviews {many}"
