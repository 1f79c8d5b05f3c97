"""The engine in Django's admin: read everything, change nothing but through the engine's own calls.

Lives here: registration only. Invariants owned by the package: no page writes an engine table (cancel and
retry go through `workflows.cancel` and `workflows.retry`, keys through `workflows.access.api_keys`); no page issues a
statement per row, counts a whole table or loads a whole payload into a list; and whatever a stored value
holds is shown as text.
"""

from workflows.admin.instances import InstanceAdmin
from workflows.admin.interactions import InteractionAdmin
from workflows.admin.keys import ApiKeyAdmin
from workflows.admin.parked import ParkedAnswerAdmin
from workflows.admin.receipts import HookReceiptAdmin
from workflows.admin.units import UnitAdmin
from workflows.admin.workers import WorkerAdmin
from workflows.admin.workspaces import WorkspaceAdmin

__all__ = [
    "ApiKeyAdmin",
    "HookReceiptAdmin",
    "InstanceAdmin",
    "InteractionAdmin",
    "ParkedAnswerAdmin",
    "UnitAdmin",
    "WorkerAdmin",
    "WorkspaceAdmin",
]
