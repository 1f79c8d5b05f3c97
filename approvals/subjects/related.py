"""Names and links of the rows that a change points to.

Invariants owned: one statement for each related model, however many fields and rows point there; a link only to a
page that the viewer may open.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Hashable, Iterable
from typing import Any, NamedTuple

from django.apps import apps
from django.contrib.auth import get_permission_codename
from django.db import models, router
from django.urls import NoReverseMatch, reverse
from django.utils.text import capfirst
from django.utils.translation import gettext as _

from approvals.display.values import EMPTY, MAX_NAME, ShownValue, show_text
from approvals.people.person import Person
from approvals.subjects.field_values import MISREAD, AnyField, from_plain
from approvals.subjects.reference import name_object


class Target(NamedTuple):
    """The other side of a relation, and its field whose values are the keys."""

    model: type[models.Model]
    field: AnyField


class Related:
    """The rows behind the keys of some relations, fetched together and shown one by one."""

    def __init__(self, user: Person | None = None) -> None:
        self._user = user
        #: None: it is known that there is no such row.
        self._rows: dict[Target, dict[Any, models.Model | None]] = {}
        self._links: dict[type[models.Model], bool] = {}

    def fetch(self, keys: Iterable[tuple[AnyField, Any]]) -> None:
        """Read the rows of these (relation, key) pairs; what cannot be a key is left out, and nothing is read twice."""
        wanted: dict[Target, set[Any]] = defaultdict(set)
        for field, key in keys:
            target = find_target(field)
            value = _read_key(target, key)
            if value is not None:
                wanted[target].add(value)
        for target, values in wanted.items():
            known = self._rows.setdefault(target, {})
            if not (unread := values - known.keys()):
                continue
            rows = target.model._base_manager.using(router.db_for_read(target.model))
            by = "pk" if target.field.primary_key else target.field.attname
            known.update({**dict.fromkeys(unread), **rows.in_bulk(unread, field_name=by)})

    def show(self, field: AnyField, key: Any) -> ShownValue:
        """The row behind a key as its model names it, with a link; or that it is gone."""
        if key is None:
            return EMPTY
        target = find_target(field)
        row = self._rows.get(target, {}).get(_read_key(target, key))
        if row is None:
            name = show_text(f"{capfirst(str(target.model._meta.verbose_name))} {key}", MAX_NAME)
            return ShownValue(_("%(name)s (no longer there)") % {"name": name}, missing=True)
        return ShownValue(name_object(row, MAX_NAME), url=self._find_link(row))

    def _find_link(self, row: models.Model) -> str | None:
        model = type(row)
        if model not in self._links:
            self._links[model] = may_open(self._user, model)
        return _reverse(row) if self._links[model] else None


def find_link(user: Person | None, row: models.Model) -> str | None:
    """Where this user can look at the row, if anywhere.

    >>> find_link(ann, invoice)
    '/admin/shop/invoice/7/change/'
    """
    return _reverse(row) if may_open(user, type(row)) else None


def find_target(field: AnyField) -> Target:
    """What the keys of a relation stand for."""
    model: Any = field.related_model
    return Target(model, field.target_field if isinstance(field, models.ForeignKey) else model._meta.pk)


def may_open(user: Person | None, model: type[models.Model]) -> bool:
    """Whether this model has a page in the admin that the user may look at."""
    staff = getattr(user, "is_active", False) and getattr(user, "is_staff", False)
    if user is None or not staff or not hasattr(user, "has_perm") or not apps.is_installed("django.contrib.admin"):
        return False
    from django.contrib.admin import site

    meta = model._meta
    permissions = [f"{meta.app_label}.{get_permission_codename(action, meta)}" for action in ("view", "change")]
    return site.is_registered(model) and any(map(user.has_perm, permissions))


def _reverse(row: models.Model) -> str | None:
    from django.contrib.admin.utils import quote

    meta = row._meta
    try:
        return reverse(f"admin:{meta.app_label}_{meta.model_name}_change", args=[quote(row.pk)])
    except NoReverseMatch:  # the site has its admin at no address
        return None


def _read_key(target: Target, key: Any) -> Any:
    """The key as the database takes it, or None: what was asked for may be anything."""
    try:
        value = from_plain(target.field, key)
        target.field.run_validators(value)
        str(value).encode()
    except MISREAD:
        return None
    return value if isinstance(value, Hashable) and "\0" not in str(value) else None
