"""Who somebody is, in the words that candidates are named by.

Lives here: the four kinds of names, the registered rules, and the two questions about them: which names a user
answers to, and which users answer to some names. Invariants owned: both are asked of the database at the moment they
matter, so joining or leaving a group counts at once; and both agree: whoever is listed is counted.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Container, Iterable, Mapping
from copy import copy
from functools import cache
from typing import Any, TypeVar

from django.contrib.auth import get_user_model
from django.contrib.auth.models import Group, Permission
from django.contrib.postgres.expressions import ArraySubquery
from django.core.exceptions import FieldDoesNotExist, ValidationError
from django.db import router
from django.db.models import Exists, F, OuterRef, Q, QuerySet, TextField, Value
from django.db.models.functions import Cast, Concat
from django.utils.translation import gettext

from approvals.exceptions import InvalidApproval
from approvals.people.person import Person

USER, GROUP, PERMISSION, RULE = KINDS = ("user", "group", "permission", "rule")

#: Who is asked where an approval names nobody.
ANYBODY = "permission:holdpoint_approvals.decide_review"

logger = logging.getLogger("approvals")

Rule = TypeVar("Rule", bound=Callable[[], "QuerySet[Any]"])

_rules: dict[str, Callable[[], QuerySet[Any]]] = {}


def candidates(name: str) -> Callable[[Rule], Rule]:
    """Register a rule: a function that returns the users who may decide, asked anew each time.

    >>> @candidates("on_call")
    ... def on_call():
    ...     return User.objects.filter(groups__name="on call")
    """
    if not name.isidentifier():
        raise InvalidApproval("candidates", name, "a rule's name is a word such as on_call")

    def register(rule: Rule) -> Rule:
        _rules[name] = rule
        return rule

    return register


def find_rule(name: str) -> Callable[[], QuerySet[Any]]:
    """The function that was registered under this name."""
    try:
        return _rules[name]
    except KeyError:
        known = ", ".join(sorted(_rules)) or "none"
        raise InvalidApproval(
            "candidates",
            name,
            f"there is no such rule (registered: {known}). Register it with @candidates in a module that every process "
            "imports, such as the app's workflows.py",
        ) from None


def name_user(user: Person) -> str:
    """A user's name.

    >>> name_user(ann)
    'user:1'
    """
    return f"{USER}:{user.pk}"


def load_user(key: Any) -> Any | None:
    """The account as it is now, where accounts are written; None when it is gone.

    >>> load_user(ann.pk) == ann
    True
    """
    model = get_user_model()
    return model._default_manager.using(router.db_for_write(model)).filter(pk__in=[key]).first()


def list_principals(user: Person | None, kinds: Container[str] = KINDS) -> list[str]:
    """The names that a user answers to now; none for who may not log in.

    Groups and rules cost one statement together, permissions those of Django's backends.
    """
    return name_all(user, kinds, read_memberships(user, kinds))


def read_memberships(user: Person | None, kinds: Container[str] = KINDS, **beside: Any) -> dict[str, Any]:
    """The keys of a user's groups, under "groups", and the rules that name them, under "rules": in one statement.

    `beside` are expressions about the account to be read in the same one, under their names.
    """
    if user is None or user.pk is None or not user.is_active:
        return {}
    asked = dict(beside)
    if GROUP in kinds and has_groups():
        mine = list_active().filter(pk=OuterRef("pk"), groups__isnull=False).order_by("groups")
        asked["groups"] = ArraySubquery(mine.values("groups"))
    rules = _ask_rules() if RULE in kinds else {}
    asked |= {f"rule_{name}": found for name, found in rules.items()}
    if not asked:
        return {}
    # Under names of ours: those of a project's user model, such as `groups`, are taken.
    ours = {f"read_{name}": expression for name, expression in asked.items()}
    row = list_active().filter(pk=user.pk).values(**ours).first() or {}
    told = {name: row.get(f"read_{name}") for name in asked}
    return {**told, "rules": [name for name in rules if told[f"rule_{name}"]]}


def name_all(user: Person | None, kinds: Container[str], memberships: Mapping[str, Any]) -> list[str]:
    """The names of these kinds that a user answers to, given what `read_memberships` has read."""
    if user is None or user.pk is None or not user.is_active:
        return []
    names = [name_user(user)]
    if GROUP in kinds:
        names += [f"{GROUP}:{pk}" for pk in memberships.get("groups") or ()]
    if PERMISSION in kinds and hasattr(user, "get_all_permissions"):
        names += [f"{PERMISSION}:{one}" for one in sorted(user.get_all_permissions())]
    return names + ([f"{RULE}:{name}" for name in memberships.get("rules", ())] if RULE in kinds else [])


def forget_permissions(user: Person | None) -> Any:
    """The same person without what Django's backends remember at the object: asked anew, what was given or taken
    meanwhile counts.

    >>> forget_permissions(ann).has_perm("shop.approve_order")
    True
    """
    fresh = copy(user)
    for name in [name for name in vars(fresh) if name.endswith("_perm_cache")]:
        del fresh.__dict__[name]
    return fresh


def list_active() -> QuerySet[Any]:
    """The users who may log in.

    >>> list_active().filter(pk=ann.pk).exists()
    True
    """
    model = get_user_model()
    rows = model._default_manager.using(router.db_for_write(model))
    return rows.filter(is_active=True) if _has_field(model, "is_active") else rows.all()


def list_users(principals: Iterable[str]) -> QuerySet[Any]:
    """The users who answer to any of these names now."""
    wanted = Q(pk__in=[])
    for principal in principals:
        wanted |= _match(principal)
    return list_active().filter(wanted)


def describe_principals(principals: Iterable[str], people: dict[str, Any] | None = None) -> list[str]:
    """What people call them, in the order given: users in one query, groups and permissions in another.

    The accounts that were read for it are put into `people`, under their names.

    >>> describe_principals(["user:1", "group:2"])
    ['Ann Archer', 'Finance']
    """
    split = [principal.partition(":")[::2] for principal in principals]
    found = list(_fetch_users(split))
    users = {str(one.pk): name_person(one) for one in found}
    if people is not None:
        people.update({name_user(one): one for one in found})
    named = _read_names(split)
    told = []
    for kind, value in split:
        if kind == USER:
            told.append(users.get(value) or gettext("a former user"))
        elif kind == GROUP:
            told.append(named.get((GROUP, value)) or gettext("a former group"))
        elif kind == PERMISSION:
            told.append(gettext("whoever: %(permission)s") % {"permission": named.get((PERMISSION, value), value)})
        else:
            told.append(value.replace("_", " "))
    return told


def name_person(user: Person | None) -> str:
    """What a user is called among people.

    >>> name_person(ann)
    'Ann Archer'
    """
    if user is None:
        return ""
    full = user.get_full_name() if hasattr(user, "get_full_name") else ""
    return str(full or user.get_username())


def has_groups() -> bool:
    """Whether the project's users can be in groups, of Django's own kind."""
    return _find_related(get_user_model(), "groups") is Group


def has_permissions() -> bool:
    """Whether the project's users can tell which permissions they have."""
    return hasattr(get_user_model(), "get_all_permissions")


def _ask_rules() -> dict[str, Any]:
    """For each rule whether it names a user. One that fails names nobody, and the others' work goes on."""
    asked = {}
    for name in sorted(_rules):
        try:
            asked[name] = _names(_ask_rule(name), OuterRef("pk"))
        except Exception:
            logger.exception("the rule %r of @candidates failed: it names nobody now", name)
    return asked


def _ask_rule(name: str) -> QuerySet[Any]:
    """The users whom a rule names now."""
    users: Any = find_rule(name)()
    if not isinstance(users, QuerySet) or users.model._meta.concrete_model is not get_user_model()._meta.concrete_model:
        raise InvalidApproval("candidates", name, "its function has to return a queryset of users")
    return users


def _names(users: QuerySet[Any], key: Any) -> Any:
    """Whether a user is among these. What was sliced or combined cannot be asked about one user only."""
    if users.query.is_sliced or users.query.combinator:
        return Q(pk__in=users.values("pk"))
    return Exists(users.order_by().filter(pk=key))


def _fetch_users(split: Iterable[tuple[str, str]]) -> Iterable[Any]:
    keys = _list_keys(get_user_model(), USER, split)
    return get_user_model()._default_manager.filter(pk__in=keys) if keys else ()


def _read_names(split: Iterable[tuple[str, str]]) -> dict[tuple[str, str], str]:
    """(kind, key or permission) -> what groups and permissions are called, in one statement."""
    parts: list[QuerySet[Any, Any]] = []
    if has_groups() and (keys := _list_keys(Group, GROUP, split)):
        rows = Group.objects.filter(pk__in=keys).order_by()
        parts.append(rows.values_list(Value(GROUP), Cast("pk", TextField()), F("name")))
    if codes := [value.partition(".")[2] for kind, value in split if kind == PERMISSION]:
        code = Concat("content_type__app_label", Value("."), "codename", output_field=TextField())
        held = Permission.objects.filter(codename__in=codes).order_by()
        parts.append(held.values_list(Value(PERMISSION), code, F("name")))
    if not parts:
        return {}
    found = parts[0].union(*parts[1:], all=True) if len(parts) > 1 else parts[0]
    return {(kind, key): name for kind, key, name in found}


def _list_keys(model: Any, wanted: str, split: Iterable[tuple[str, str]]) -> list[str]:
    return [value for kind, value in split if kind == wanted and is_key(model, value)]


def is_key(model: Any, value: str) -> bool:
    """Whether it can be one: a caller's own text may begin like a name."""
    try:
        model._meta.pk.run_validators(model._meta.pk.to_python(value))
    except (ValidationError, ValueError, TypeError):
        return False
    return "\0" not in value


def _match(principal: str) -> Q:
    """Nobody, where there is no such user, group or rule (any more)."""
    kind, _, value = principal.partition(":")
    if kind == USER and is_key(get_user_model(), value):
        return Q(pk=value)
    if kind == GROUP and has_groups() and is_key(Group, value):
        return Q(pk__in=list_active().filter(groups=value).values("pk"))
    if kind == RULE and value in _rules:
        return Q(pk__in=_ask_rule(value).values("pk"))
    if kind == PERMISSION:
        app, _, codename = value.partition(".")
        return Q(pk__in=_list_with_permission(app, codename).values("pk"))
    return Q(pk__in=[])


def _list_with_permission(app: str, codename: str) -> QuerySet[Any]:
    """Without the backends' own `with_perm`, which a user model of a project's own need not have."""
    meant = Permission.objects.filter(content_type__app_label=app, codename=codename).values("pk")
    # Superusers have what there is, as `get_all_permissions` tells; not what nobody knows.
    wanted = Q(Exists(meant), is_superuser=True) if _has_field(get_user_model(), "is_superuser") else Q(pk__in=[])
    if _find_related(get_user_model(), "user_permissions") is Permission:
        wanted |= Q(pk__in=list_active().filter(user_permissions__in=meant).values("pk"))
    if has_groups():
        named = Group.objects.filter(permissions__in=meant).values("pk")
        wanted |= Q(pk__in=list_active().filter(groups__in=named).values("pk"))
    return list_active().filter(wanted)


@cache
def _has_field(model: Any, name: str) -> bool:
    try:
        model._meta.get_field(name)
    except FieldDoesNotExist:
        return False
    return True


@cache
def _find_related(model: Any, name: str) -> Any:
    return model._meta.get_field(name).related_model if _has_field(model, name) else None
