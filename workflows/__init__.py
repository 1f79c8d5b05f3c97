"""Holdpoint's engine: durable instances that park on signals and deadlines as database rows.

Lives here: the names that authors and other Django code import, each loaded on first use (PEP 562), so
that importing the package loads no model and needs no configured Django. Nothing else.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from workflows.api import cancel as cancel
    from workflows.api import result as result
    from workflows.api import retry as retry
    from workflows.api import signal as signal
    from workflows.api import signal_many as signal_many
    from workflows.api import start as start
    from workflows.api import start_many as start_many
    from workflows.bulk import Delivery as Delivery
    from workflows.exceptions import ClaimLost as ClaimLost
    from workflows.exceptions import DuplicateKey as DuplicateKey
    from workflows.exceptions import DuplicateWorkflow as DuplicateWorkflow
    from workflows.exceptions import EngineOwned as EngineOwned
    from workflows.exceptions import InstanceCancelled as InstanceCancelled
    from workflows.exceptions import InstanceFailed as InstanceFailed
    from workflows.exceptions import InvalidCall as InvalidCall
    from workflows.exceptions import InvalidDefinition as InvalidDefinition
    from workflows.exceptions import InvalidDuration as InvalidDuration
    from workflows.exceptions import InvalidInput as InvalidInput
    from workflows.exceptions import InvalidOutcome as InvalidOutcome
    from workflows.exceptions import InvalidTarget as InvalidTarget
    from workflows.exceptions import LeftTransactionOpen as LeftTransactionOpen
    from workflows.exceptions import NoTarget as NoTarget
    from workflows.exceptions import NotCancellable as NotCancellable
    from workflows.exceptions import NotFinished as NotFinished
    from workflows.exceptions import NotRetryable as NotRetryable
    from workflows.exceptions import NotSerializable as NotSerializable
    from workflows.exceptions import StepTimedOut as StepTimedOut
    from workflows.exceptions import TooLarge as TooLarge
    from workflows.exceptions import UnknownStep as UnknownStep
    from workflows.exceptions import UnknownWorkflow as UnknownWorkflow
    from workflows.exceptions import UnknownWorkspace as UnknownWorkspace
    from workflows.exceptions import WorkflowError as WorkflowError
    from workflows.outcomes import Await as Await
    from workflows.outcomes import Child as Child
    from workflows.outcomes import Done as Done
    from workflows.outcomes import Next as Next
    from workflows.outcomes import Retry as Retry
    from workflows.outcomes import Spawn as Spawn
    from workflows.outcomes import Stop as Stop
    from workflows.scope import workspace as workspace
    from workflows.styles.steps import Workflow as Workflow
    from workflows.styles.steps import step as step

_HOMES = {
    "workflows.bulk": "Delivery",
    "workflows.api": "cancel result retry signal signal_many start start_many",
    "workflows.outcomes": "Await Child Done Next Retry Spawn Stop",
    "workflows.scope": "workspace",
    "workflows.styles.steps": "Workflow step",
    "workflows.exceptions": (
        "ClaimLost DuplicateKey DuplicateWorkflow EngineOwned InstanceCancelled InstanceFailed InvalidCall "
        "InvalidDefinition InvalidDuration InvalidInput InvalidOutcome InvalidTarget LeftTransactionOpen "
        "NoTarget NotCancellable NotFinished NotRetryable NotSerializable StepTimedOut TooLarge UnknownStep "
        "UnknownWorkflow UnknownWorkspace WorkflowError "
    ),
}
_HOME_OF = {name: module for module, names in _HOMES.items() for name in names.split()}

__all__ = sorted(_HOME_OF)


def __getattr__(name: str) -> Any:
    if name not in _HOME_OF:
        raise AttributeError(f"module 'workflows' has no attribute {name!r}")
    value = getattr(import_module(_HOME_OF[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return __all__
