"""Nothing happens before somebody else agrees: mixins for the admin and for an API.

    from approvals.required import ApprovalRequiredMixin              # for a ModelAdmin
    from approvals.required.api import ApprovalRequiredMixin          # for a view or viewset of the REST framework

Lives here: the name that a project's admin.py imports, lazily, because a project may have no admin. Invariants owned
by the package: what a proposal asks for was sealed by this site, so nobody starts one by hand; nobody is let past, not
even superusers; and what was approved is what is done, in the requester's name.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from approvals.required.admin import ApprovalRequiredMixin as ApprovalRequiredMixin

__all__ = ["ApprovalRequiredMixin"]


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module 'approvals.required' has no attribute {name!r}")
    from approvals.required import admin

    return getattr(admin, name)
