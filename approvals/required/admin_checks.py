"""What a system check says about a ModelAdmin that proposes.

Invariant owned: an attribute that would quietly do nothing is reported, with what to write instead.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from django.core import checks

from approvals.exceptions import InvalidApproval
from approvals.subjects.reference import InvalidChange, find_field

DOES = ("change", "add", "delete")


def find_problems(admin: Any) -> Iterator[checks.CheckMessage]:
    """Errors where it cannot work as it is written, warnings where something will not be offered."""
    kind = type(admin)
    if isinstance(admin.approval_for, str) or not set(admin.approval_for) <= set(DOES) or not admin.approval_for:
        yield checks.Error(
            f"approval_for is {admin.approval_for!r}.",
            hint='Write a tuple of "change", "add" and "delete", such as ("change", "delete").',
            obj=kind,
            id="holdpoint_approvals.E101",
        )
        return
    for name in admin.approval_fields or ():
        try:
            find_field(admin.model, name)
        except InvalidChange as error:
            yield checks.Error(
                f"approval_fields names {name!r}, and {admin.model._meta.label} has no such field.",
                hint=f"{error.errors[name][0]}.",
                obj=kind,
                id="holdpoint_approvals.E102",
            )
    try:
        admin.make_approval("A check")
    except (InvalidApproval, ValueError, TypeError) as error:
        yield checks.Error(str(error), hint="See approval_… of this class.", obj=kind, id="holdpoint_approvals.E103")
    if "change" in admin.approval_for and admin.list_editable:
        yield checks.Warning(
            "list_editable is left out: rows of a list cannot propose.",
            hint="Take it out of this class; the object's own page proposes.",
            obj=kind,
            id="holdpoint_approvals.W101",
        )
    if "change" in admin.approval_for and admin.inlines:
        yield checks.Warning(
            "inlines can only be read here: a proposal is about one object.",
            hint="Give the related model an admin of its own, with ApprovalRequiredMixin where it needs it.",
            obj=kind,
            id="holdpoint_approvals.W102",
        )
    for door in _list_doors(admin):
        yield checks.Warning(
            f"{door} writes rows of {admin.model._meta.label} as well, and asks nobody.",
            hint="Put ApprovalRequiredMixin there too, or let nobody change anything there "
            "(has_change_permission); if it is meant so, silence this check.",
            obj=kind,
            id="holdpoint_approvals.W103",
        )


def _list_doors(admin: Any) -> Iterator[str]:
    """What else of the same site writes the model's table: admins of its kin, and inlines."""
    from approvals.required.admin import ApprovalRequiredMixin

    for model, other in admin.admin_site._registry.items():
        proposes = isinstance(other, ApprovalRequiredMixin)
        if _is_kin(model, admin.model) and not proposes:
            yield f"{type(other).__name__} of {model._meta.label}"
        for inline in other.inlines if not proposes or "change" not in other.approval_for else ():
            if _is_kin(inline.model, admin.model) and not _is_read(inline):
                yield f"{inline.__name__} in {type(other).__name__}"


def _is_kin(model: Any, other: Any) -> bool:
    """Whether rows of the one are, or belong to, rows of the other: itself, proxies, children and parents."""
    one, two = model._meta.concrete_model, other._meta.concrete_model
    return issubclass(one, two) or issubclass(two, one)


def _is_read(inline: Any) -> bool:
    """Whether it has nothing to write with: every field that it shows is read only."""
    shown = inline.fields or ()
    return bool(shown) and set(shown) <= set(inline.readonly_fields) and not inline.can_delete
