"""What a class says about its approvals: the attributes and hooks that both mixins share.

Invariant owned: an attribute that names nobody asks whoever has the permission to decide what names nobody; it never
means that nobody has to agree.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from approvals.asking.approval import Approval
from workflows.access.memberships import list_workspaces


class GateOptions:
    """Who has to agree, by which rule, and how long it may take.

    >>> class InvoiceAdmin(ApprovalRequiredMixin, admin.ModelAdmin):
    ...     approval_groups = ["finance"]
    ...     approval_quorum = 2
    """

    #: Names of groups, or groups.
    approval_groups: Iterable[Any] = ()
    #: "app.codename": whoever has it.
    approval_permission: str | None = None
    #: Usernames, or users.
    approval_assignees: Iterable[Any] = ()
    #: As `quorum` of an `Approval`: a number, "50%", "all", {"finance": 2}, Veto(2).
    approval_quorum: Any = 1
    approval_risk: str = "low"
    #: How long it waits, such as "30d"; then nothing is done. None: until somebody decides.
    approval_timeout: Any = None
    #: The slug of the workspace; None: the requester's where there is one, else the default one.
    approval_workspace: str | None = None

    def make_approval(self, title: str, **options: Any) -> Approval:
        """An `Approval` with what the attributes say; for `get_approval`.

        >>> self.make_approval("Change the price", subject=invoice, risk="high").risk
        'high'
        """
        given: dict[str, Any] = {
            "groups": self.approval_groups,
            "permission": self.approval_permission,
            "assignees": self.approval_assignees,
            "quorum": self.approval_quorum,
            "risk": self.approval_risk,
        }
        return Approval(title, **(given | options))

    def get_approval_workspace(self, request: Any, obj: Any) -> str | None:
        """The slug of the workspace in which it is asked; None for the default one."""
        if self.approval_workspace is not None:
            return self.approval_workspace
        mine = list_workspaces(request.user)
        return mine[0][1] if len(mine) == 1 else None
