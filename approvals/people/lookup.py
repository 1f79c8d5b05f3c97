"""Users and groups by what authors and reviewers call them: the row itself, or its name.

Invariant owned: whoever is found has a row; a name that no row can have is a name that is not there.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from django.contrib.auth import get_user_model
from django.contrib.auth.models import Group
from django.db import router

from approvals.exceptions import InvalidApproval
from approvals.people.principals import has_groups
from workflows.exceptions import InvalidCall
from workflows.values.json_text import check_text
from workflows.wording.messages import Reason
from workflows.wording.messages import gettext_noop as _


def find_user(given: Any, option: str) -> Any:
    """A user that is given as an object or by username."""
    return find_users([given], option)[0]


def find_users(given: Sequence[Any], option: str) -> list[Any]:
    """The same of several, in their order; those that are named in one query."""
    known: dict[str, Any] = {}
    if wanted := {one for one in given if isinstance(one, str) and _is_storable(one)}:
        model: Any = get_user_model()
        rows = model._default_manager.using(router.db_for_write(model))
        for user in rows.filter(**{f"{model.USERNAME_FIELD}__in": wanted}):
            known[user.get_username()] = user
            for one in wanted:  # a project's own column may take "Ann" and "ann" for the same
                if one.casefold() == user.get_username().casefold():
                    known.setdefault(one, user)
    found = [known.get(one) if isinstance(one, str) else one for one in given]
    for one, user in zip(given, found, strict=True):
        if not _is_user(user):
            raise refuse_user(one, option)
    return found


def refuse_user(given: Any, option: str) -> InvalidApproval:
    """The same words for a name that nobody has, and for one that is none of the asker's business."""
    reason = Reason(_("There is no user %(names)s."), {"names": given}) if isinstance(given, str) else ""
    return InvalidApproval(option, given, "there is no such user", reason=reason)


def find_group(given: Any, option: str) -> Group:
    """A group that is given as an object or by its name."""
    found: Any = given
    if isinstance(given, str):
        found = Group.objects.filter(name=given).first() if _is_storable(given) else None
    if not isinstance(found, Group) or not found.pk or not has_groups():
        raise InvalidApproval(option, given, _tell_groupless() or Reason(_("there is no such group")))
    return found


def find_groups(names: Iterable[str]) -> dict[str, int]:
    """Name -> key of the groups that are named, in one query."""
    wanted = list(dict.fromkeys(names))
    if wanted and (told := _tell_groupless()):
        raise InvalidApproval("groups", wanted, told)
    found = dict(Group.objects.filter(name__in=wanted).values_list("name", "pk")) if wanted else {}
    for name in wanted:
        if name not in found:
            raise InvalidApproval("groups", name, Reason(_("there is no group of this name")))
    return found


def _is_user(given: Any) -> bool:
    model: Any = get_user_model()
    return isinstance(given, model) and given.pk is not None and not given._state.adding


def _is_storable(name: str) -> bool:
    """Whether the database can be asked for it."""
    try:
        return bool(check_text(name, "a name"))
    except InvalidCall:
        return False


def _tell_groupless() -> str:
    told = Reason(_("users of this project are in no groups: ask users, a permission or a rule"))
    return "" if has_groups() else told
