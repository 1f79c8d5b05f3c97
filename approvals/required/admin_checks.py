"""What a system check says about a ModelAdmin that proposes.

Invariant owned: an attribute that would quietly do nothing is reported, with what to write instead.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from django.core import checks

from approvals.exceptions import InvalidApproval
from approvals.subjects import InvalidChange, find_field

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
