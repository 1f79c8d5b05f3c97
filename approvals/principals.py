"""Who somebody is, in the words that candidates are named by.

Lives here: the four kinds of names, the registered rules, and the two questions about them: which names a user
answers to, and which users answer to some names. Invariants owned: both are asked of the database at the moment they
matter, so joining or leaving a group counts at once; and both agree: whoever is listed is counted.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, TypeVar

from django.contrib.auth import get_user_model
from django.contrib.auth.models import Group, Permission
from django.core.exceptions import FieldDoesNotExist
from django.db import router
from django.db.models import Exists, OuterRef, Q, QuerySet
from django.utils.translation import gettext

from approvals.exceptions import InvalidApproval

USER, GROUP, PERMISSION, RULE = "user", "group", "permission", "rule"

#: Who is asked where an approval names nobody.
ANYBODY = "permission:holdpoint_approvals.decide_review"

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


def name_user(user: Any) -> str:
    """A user's name.

    >>> name_user(ann)
    'user:1'
    """
    return f"{USER}:{user.pk}"


def list_principals(user: Any) -> list[str]:
    """The names that a user answers to now; none for who may not log in."""
    if user is None or user.pk is None or not user.is_active:
        return []
    names = [name_user(user)]
    if has_groups():
        names += [f"{GROUP}:{pk}" for pk in user.groups.order_by("pk").values_list("pk", flat=True)]
    if hasattr(user, "get_all_permissions"):
        names += [f"{PERMISSION}:{one}" for one in sorted(user.get_all_permissions())]
    return names + [f"{RULE}:{name}" for name in _list_rules_of(user)]


def list_users(principals: Iterable[str]) -> QuerySet[Any]:
    """The users who answer to any of these names now."""
    wanted = Q(pk__in=[])
    for principal in principals:
        wanted |= _match(principal)
    return _list_active().filter(wanted)


def describe_principals(principals: Iterable[str]) -> list[str]:
    """What people call them, in the order given: names of users and groups in one query each.

    >>> describe_principals(["user:1", "group:2"])
    ['Ann Archer', 'Finance']
    """
    split = [principal.partition(":")[::2] for principal in principals]
    users = {str(one.pk): name_person(one) for one in _fetch(get_user_model(), USER, split)}
    groups = {str(one.pk): one.name for one in _fetch(Group, GROUP, split)} if has_groups() else {}
    permissions = (
        {
            f"{app}.{code}": name
            for app, code, name in Permission.objects.filter(
                codename__in=[value.partition(".")[2] for kind, value in split if kind == PERMISSION]
            ).values_list("content_type__app_label", "codename", "name")
        }
        if any(kind == PERMISSION for kind, _ in split)
        else {}
    )
    told = []
    for kind, value in split:
        if kind == USER:
            told.append(users.get(value) or gettext("a former user"))
        elif kind == GROUP:
            told.append(groups.get(value) or gettext("a former group"))
        elif kind == PERMISSION:
            told.append(gettext("whoever: %(permission)s") % {"permission": permissions.get(value, value)})
        else:
            told.append(value.replace("_", " "))
    return told


def name_person(user: Any) -> str:
    """What a user is called among people.

    >>> name_person(ann)
    'Ann Archer'
    """
    if user is None:
        return ""
    full = user.get_full_name() if hasattr(user, "get_full_name") else ""
    return str(full or user.get_username())


def has_groups() -> bool:
    """Whether the project's users can be in groups."""
    return _has_field("groups")


def _list_active() -> QuerySet[Any]:
    model = get_user_model()
    return model._default_manager.using(router.db_for_write(model)).filter(is_active=True)


def _list_rules_of(user: Any) -> list[str]:
    """The rules that name a user, asked all at once."""
    if not _rules:
        return []
    asked = {f"rule_{name}": Exists(rule().filter(pk=OuterRef("pk"))) for name, rule in _rules.items()}
    found = _list_active().filter(pk=user.pk).annotate(**asked).values(*asked).first() or {}
    return [name for name in sorted(_rules) if found.get(f"rule_{name}")]


def _fetch(model: Any, kind: str, split: Iterable[tuple[str, str]]) -> Iterable[Any]:
    keys = [value for one, value in split if one == kind]
    return model._default_manager.filter(pk__in=keys) if keys else ()


def _match(principal: str) -> Q:
    kind, _, value = principal.partition(":")
    if kind == USER:
        return Q(pk=value)
    if kind == GROUP:
        return Q(pk__in=_list_active().filter(groups=value).values("pk"))
    if kind == RULE:
        return Q(pk__in=find_rule(value)().order_by().values("pk"))
    app, _, codename = value.partition(".")
    return Q(pk__in=_list_with_permission(app, codename).values("pk"))


def _list_with_permission(app: str, codename: str) -> QuerySet[Any]:
    """Without the backends' own `with_perm`, which a user model of a project's own need not have."""
    wanted = Q(is_superuser=True) if _has_field("is_superuser") else Q(pk__in=[])
    meant = Permission.objects.filter(content_type__app_label=app, codename=codename).values("pk")
    if _has_field("user_permissions"):
        wanted |= Q(pk__in=_list_active().filter(user_permissions__in=meant).values("pk"))
    if has_groups():
        named = Group.objects.filter(permissions__in=meant).values("pk")
        wanted |= Q(pk__in=_list_active().filter(groups__in=named).values("pk"))
    return _list_active().filter(wanted)


def _has_field(name: str) -> bool:
    try:
        get_user_model()._meta.get_field(name)
    except FieldDoesNotExist:
        return False
    return True
