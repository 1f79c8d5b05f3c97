"""The engine in Django's admin: read everything, change nothing but through the engine's own calls.

Lives here: registration only. Invariants owned by the package: no page writes an engine table (cancel and
retry go through `workflows.cancel` and `workflows.retry`, keys through `workflows.access.api_keys`, queues and limits
through `workflows.api.flow_control`); no page issues a
statement per row, counts a whole table or loads a whole payload into a list; and whatever a stored value
holds is shown as text.
"""

from workflows.admin.flow.queue_admin import LimitAdmin, PausedWorkflowAdmin, QueueAdmin
from workflows.admin.instances.instance_admin import InstanceAdmin
from workflows.admin.keys.api_key_admin import ApiKeyAdmin
from workflows.admin.questions.hook_receipt_admin import HookReceiptAdmin
from workflows.admin.questions.interaction_admin import InteractionAdmin
from workflows.admin.questions.parked_answer_admin import ParkedAnswerAdmin
from workflows.admin.questions.unit_admin import UnitAdmin
from workflows.admin.schedule_admin import ScheduleAdmin
from workflows.admin.worker_admin import WorkerAdmin
from workflows.admin.workspace_admin import WorkspaceAdmin

__all__ = [
    "ApiKeyAdmin",
    "HookReceiptAdmin",
    "InstanceAdmin",
    "InteractionAdmin",
    "LimitAdmin",
    "ParkedAnswerAdmin",
    "PausedWorkflowAdmin",
    "QueueAdmin",
    "ScheduleAdmin",
    "UnitAdmin",
    "WorkerAdmin",
    "WorkspaceAdmin",
]
