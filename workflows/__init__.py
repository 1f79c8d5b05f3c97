"""Holdpoint's engine: durable instances that park on signals and deadlines as database rows.

Lives here: the names that authors and other Django code import, each loaded on first use (PEP 562), so
that importing the package loads no model and needs no configured Django. Nothing else.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from workflows.importing import moved_modules

moved_modules.install()

#: By this `foreign_packages` knows that nobody else's package stands here.
__holdpoint__ = True

if TYPE_CHECKING:
    from workflows.api.async_calls import acancel as acancel
    from workflows.api.async_calls import acomplete as acomplete
    from workflows.api.async_calls import acomplete_many as acomplete_many
    from workflows.api.async_calls import aemit as aemit
    from workflows.api.async_calls import afork as afork
    from workflows.api.async_calls import apause as apause
    from workflows.api.async_calls import aresult as aresult
    from workflows.api.async_calls import aretry as aretry
    from workflows.api.async_calls import aschedule as aschedule
    from workflows.api.async_calls import asignal as asignal
    from workflows.api.async_calls import asignal_many as asignal_many
    from workflows.api.async_calls import astart as astart
    from workflows.api.async_calls import astart_many as astart_many
    from workflows.api.async_calls import aunpause as aunpause
    from workflows.api.async_calls import aunschedule as aunschedule
    from workflows.api.completions.batch_completion import CompletionResult as CompletionResult
    from workflows.api.completions.batch_completion import complete_many as complete_many
    from workflows.api.completions.completion import complete as complete
    from workflows.api.completions.completion_checks import Completion as Completion
    from workflows.api.completions.failing import fail as fail
    from workflows.api.completions.failing import retry_item as retry_item
    from workflows.api.events import emit as emit
    from workflows.api.flow_control import pause as pause
    from workflows.api.flow_control import unpause as unpause
    from workflows.api.instances import cancel as cancel
    from workflows.api.instances import result as result
    from workflows.api.instances import retry as retry
    from workflows.api.instances import signal as signal
    from workflows.api.instances import signal_many as signal_many
    from workflows.api.instances import start as start
    from workflows.api.instances import start_many as start_many
    from workflows.api.lineage.forking import fork as fork
    from workflows.api.redrive import redrive as redrive
    from workflows.api.schedule_calls import disable_schedule as disable_schedule
    from workflows.api.schedule_calls import enable_schedule as enable_schedule
    from workflows.api.schedule_calls import list_next_ticks as list_next_ticks
    from workflows.api.schedule_calls import run_schedule as run_schedule
    from workflows.api.schedule_calls import schedule as schedule
    from workflows.api.schedule_calls import unschedule as unschedule
    from workflows.api.signals import Delivery as Delivery
    from workflows.channels.kafka.kafka_channel import Kafka as Kafka
    from workflows.channels.webhook import Webhook as Webhook
    from workflows.definitions.awaited_event import event as event
    from workflows.definitions.awaited_kinds import all_of as all_of
    from workflows.definitions.awaited_kinds import any_of as any_of
    from workflows.definitions.awaited_kinds import callback as callback
    from workflows.definitions.awaited_kinds import child as child
    from workflows.definitions.awaited_kinds import instance as instance
    from workflows.definitions.awaited_kinds import question as question
    from workflows.definitions.awaited_kinds import received as received
    from workflows.definitions.channel import Channel as Channel
    from workflows.definitions.decision import Answer as Answer
    from workflows.definitions.flow.limits import Concurrency as Concurrency
    from workflows.definitions.flow.limits import Rate as Rate
    from workflows.definitions.outcomes import Await as Await
    from workflows.definitions.outcomes import Child as Child
    from workflows.definitions.outcomes import Done as Done
    from workflows.definitions.outcomes import Next as Next
    from workflows.definitions.outcomes import Retry as Retry
    from workflows.definitions.outcomes import Spawn as Spawn
    from workflows.definitions.outcomes import Stop as Stop
    from workflows.definitions.workspace import workspace as workspace
    from workflows.engine.context import Signal as Signal
    from workflows.engine.context import StepContext as StepContext
    from workflows.exceptions import AnswerElsewhere as AnswerElsewhere
    from workflows.exceptions import CallRaised as CallRaised
    from workflows.exceptions import ChildCancelled as ChildCancelled
    from workflows.exceptions import ChildFailed as ChildFailed
    from workflows.exceptions import ClaimLost as ClaimLost
    from workflows.exceptions import DispatchFailed as DispatchFailed
    from workflows.exceptions import DuplicateCheckpoint as DuplicateCheckpoint
    from workflows.exceptions import DuplicateKey as DuplicateKey
    from workflows.exceptions import DuplicateSchedule as DuplicateSchedule
    from workflows.exceptions import DuplicateWorkflow as DuplicateWorkflow
    from workflows.exceptions import EngineOwned as EngineOwned
    from workflows.exceptions import IdempotencyConflict as IdempotencyConflict
    from workflows.exceptions import InstanceCancelled as InstanceCancelled
    from workflows.exceptions import InstanceFailed as InstanceFailed
    from workflows.exceptions import InteractionRefused as InteractionRefused
    from workflows.exceptions import InteractionResolved as InteractionResolved
    from workflows.exceptions import InvalidCall as InvalidCall
    from workflows.exceptions import InvalidData as InvalidData
    from workflows.exceptions import InvalidDefinition as InvalidDefinition
    from workflows.exceptions import InvalidDuration as InvalidDuration
    from workflows.exceptions import InvalidInput as InvalidInput
    from workflows.exceptions import InvalidOutcome as InvalidOutcome
    from workflows.exceptions import InvalidSchedule as InvalidSchedule
    from workflows.exceptions import InvalidSchema as InvalidSchema
    from workflows.exceptions import InvalidSignalId as InvalidSignalId
    from workflows.exceptions import InvalidTarget as InvalidTarget
    from workflows.exceptions import LeftTransactionOpen as LeftTransactionOpen
    from workflows.exceptions import NonDeterministic as NonDeterministic
    from workflows.exceptions import NoReader as NoReader
    from workflows.exceptions import NoTarget as NoTarget
    from workflows.exceptions import NotCancellable as NotCancellable
    from workflows.exceptions import NotFinished as NotFinished
    from workflows.exceptions import NotForkable as NotForkable
    from workflows.exceptions import NotRedrivable as NotRedrivable
    from workflows.exceptions import NotRetryable as NotRetryable
    from workflows.exceptions import NotSerializable as NotSerializable
    from workflows.exceptions import PolicyRefused as PolicyRefused
    from workflows.exceptions import ProjectionFailed as ProjectionFailed
    from workflows.exceptions import ScheduleBusy as ScheduleBusy
    from workflows.exceptions import SignalCollision as SignalCollision
    from workflows.exceptions import SignalTimeoutError as SignalTimeoutError
    from workflows.exceptions import StaleVersion as StaleVersion
    from workflows.exceptions import StepTimedOut as StepTimedOut
    from workflows.exceptions import StrictIsolation as StrictIsolation
    from workflows.exceptions import TooComplex as TooComplex
    from workflows.exceptions import TooLarge as TooLarge
    from workflows.exceptions import TooMany as TooMany
    from workflows.exceptions import UnitFailed as UnitFailed
    from workflows.exceptions import UnknownInteraction as UnknownInteraction
    from workflows.exceptions import UnknownLimit as UnknownLimit
    from workflows.exceptions import UnknownPoint as UnknownPoint
    from workflows.exceptions import UnknownQueue as UnknownQueue
    from workflows.exceptions import UnknownSchedule as UnknownSchedule
    from workflows.exceptions import UnknownStep as UnknownStep
    from workflows.exceptions import UnknownWorkflow as UnknownWorkflow
    from workflows.exceptions import UnknownWorkspace as UnknownWorkspace
    from workflows.exceptions import WorkflowError as WorkflowError
    from workflows.exceptions import WorkspaceFull as WorkspaceFull
    from workflows.hooks.definition import hook as hook
    from workflows.styles.function.context_calls import FunctionContext as FunctionContext
    from workflows.styles.function.durable import durable as durable
    from workflows.styles.function.open_calls import Asked as Asked
    from workflows.styles.machine.machine import Machine as Machine
    from workflows.styles.machine.machine_context import MachineContext as MachineContext
    from workflows.styles.machine.stages import END as END
    from workflows.styles.machine.stages import FAIL as FAIL
    from workflows.styles.machine.vocabulary import action as action
    from workflows.styles.machine.vocabulary import branch as branch
    from workflows.styles.machine.vocabulary import collect as collect
    from workflows.styles.machine.vocabulary import expand as expand
    from workflows.styles.machine.vocabulary import flow as flow
    from workflows.styles.machine.vocabulary import launch as launch
    from workflows.styles.machine.vocabulary import parallel as parallel
    from workflows.styles.machine.vocabulary import sleep as sleep
    from workflows.styles.machine.vocabulary import wait_for as wait_for
    from workflows.styles.steps import Workflow as Workflow
    from workflows.styles.steps import step as step
    from workflows.units.await_lifecycle import LifecycleEvent as LifecycleEvent
    from workflows.units.await_lifecycle import lifecycle_events as lifecycle_events
    from workflows.units.item_results import ItemResult as ItemResult

_HOMES = {
    "workflows.api.async_calls": (
        "acancel acomplete acomplete_many aemit afork apause aresult aretry aschedule asignal asignal_many astart "
        "astart_many aunpause aunschedule"
    ),
    "workflows.definitions.decision": "Answer",
    "workflows.engine.context": "Signal StepContext",
    "workflows.styles.function.context_calls": "FunctionContext",
    "workflows.styles.machine.machine_context": "MachineContext",
    "workflows.api.signals": "Delivery",
    "workflows.api.completions.completion": "complete",
    "workflows.api.completions.completion_checks": "Completion",
    "workflows.styles.function.durable": "durable",
    "workflows.styles.function.open_calls": "Asked",
    "workflows.api.completions.batch_completion": "CompletionResult complete_many",
    "workflows.api.completions.failing": "fail retry_item",
    "workflows.units.await_lifecycle": "LifecycleEvent lifecycle_events",
    "workflows.units.item_results": "ItemResult",
    "workflows.channels.kafka.kafka_channel": "Kafka",
    "workflows.channels.webhook": "Webhook",
    "workflows.definitions.awaited_event": "event",
    "workflows.definitions.awaited_kinds": "all_of any_of callback child instance question received",
    "workflows.definitions.channel": "Channel",
    "workflows.api.instances": "cancel result retry signal signal_many start start_many",
    "workflows.api.lineage.forking": "fork",
    "workflows.api.events": "emit",
    "workflows.api.flow_control": "pause unpause",
    "workflows.definitions.flow.limits": "Concurrency Rate",
    "workflows.hooks.definition": "hook",
    "workflows.definitions.outcomes": "Await Child Done Next Retry Spawn Stop",
    "workflows.api.redrive": "redrive",
    "workflows.api.schedule_calls": (
        "disable_schedule enable_schedule list_next_ticks run_schedule schedule unschedule "
    ),
    "workflows.definitions.workspace": "workspace",
    "workflows.styles.machine.machine": "Machine",
    "workflows.styles.machine.stages": "END FAIL",
    "workflows.styles.machine.vocabulary": "action branch collect expand flow launch parallel sleep wait_for",
    "workflows.styles.steps": "Workflow step",
    "workflows.exceptions": (
        "AnswerElsewhere CallRaised ChildCancelled ChildFailed ClaimLost DuplicateCheckpoint DuplicateKey "
        "DuplicateWorkflow EngineOwned IdempotencyConflict InstanceCancelled InstanceFailed InteractionRefused "
        "InteractionResolved InvalidCall InvalidData InvalidDefinition InvalidDuration InvalidInput InvalidOutcome "
        "InvalidSchema InvalidSignalId InvalidTarget LeftTransactionOpen NoReader NoTarget NonDeterministic "
        "NotCancellable NotFinished NotRetryable NotSerializable PolicyRefused ProjectionFailed SignalCollision "
        "SignalTimeoutError StaleVersion StepTimedOut StrictIsolation TooComplex TooLarge TooMany UnitFailed "
        "UnknownInteraction UnknownStep UnknownWorkflow UnknownWorkspace WorkflowError DispatchFailed NotRedrivable "
        "UnknownLimit UnknownQueue NotForkable UnknownPoint "
        "DuplicateSchedule InvalidSchedule ScheduleBusy UnknownSchedule WorkspaceFull "
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
