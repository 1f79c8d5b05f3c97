"""The errors of the engine: one tree, each class names a condition and words its own message.

    WorkflowError
    ├── InvalidCall (ValueError)        the caller's argument is wrong; nothing was stored
    │   ├── NotSerializable             a value that JSON in PostgreSQL cannot hold, with its path
    │   ├── TooLarge                    a payload, state, result or body above its limit
    │   ├── TooMany                     a list with more items than a unit may have
    │   ├── InvalidDuration             a timeout or delay that is zero, negative or unreadable
    │   ├── InvalidSchedule             a schedule that cannot be kept as it is written
    │   ├── InvalidInput                an input the workflow does not accept; `.errors`
    │   ├── InvalidData                 an answer or event that its schema refuses; `.errors`
    │   │   └── TooComplex              one that takes too much work to be checked
    │   ├── InvalidSchema               a schema that cannot be used as it is written
    │   ├── InvalidSignalId             a text that cannot be a signal id
    │   └── InvalidOutcome              a step returned something that is not an outcome
    │       └── UnknownStep             an outcome names a step that the workflow does not have
    ├── UnknownWorkflow                 no workflow of that name (and version) is registered
    ├── DuplicateWorkflow               two definitions claim one name and version
    ├── InvalidDefinition               a workflow class cannot work as it is written
    ├── UnknownWorkspace                no workspace has that slug
    ├── UnknownQueue                    neither the code nor a row knows a queue of that name
    ├── UnknownLimit                    no workflow has a limit of that name
    ├── NoTarget                        no live instance there to take the signal
    │   └── InvalidTarget (TypeError)   the target is not an Instance, a UUID or a str key
    ├── NoReader                        the workflow there can never read a signal
    ├── DuplicateKey                    a live instance of the workspace holds the key; `.instance`
    ├── NotForkable                     fork() cannot begin there: its state was not kept, or it still waits
    ├── UnknownPoint                    fork() names a call, step or stage that is not there
    ├── NotRetryable                    only a failed instance nobody replaced or counted can be retried
    ├── NotRedrivable                   a question that is over, or whose workflow has gone on, is not sent again
    ├── UnknownSchedule (LookupError)   no schedule of the workspace has this name
    ├── DuplicateSchedule               a schedule that is to be made is there
    ├── WorkspaceFull                   as many schedules, or limits set at run time, as a workspace may have
    ├── ScheduleBusy                    the last instance of a schedule lives, so it does not run now
    ├── NotCancellable                  the instance has already ended
    ├── NotFinished                     `result()` was asked before the end
    ├── InstanceFailed                  `result()` of a failed instance; `.instance`
    ├── InstanceCancelled               `result()` of a cancelled instance; `.instance`
    ├── SignalCollision                 another pending interaction of the workspace has the signal id
    ├── SignalTimeoutError              a wait of a function ended by its deadline
    ├── ChildFailed                     an invoked child failed; `.child`
    │   └── ChildCancelled              an invoked child was cancelled
    ├── UnitFailed                      a question was reported as failed, or one of several items was
    ├── CallRaised                      a call raised in an earlier run what cannot be raised again as it was
    ├── NonDeterministic                a replay does not match what was saved
    │   └── DuplicateCheckpoint         one run used an id twice
    ├── InteractionRefused              a completion changed nothing
    │   ├── UnknownInteraction          (404) no such interaction in the workspace
    │   ├── StaleVersion                (409) it has changed since it was shown
    │   ├── AnswerElsewhere             (409) its channel takes the answer, this door does not
    │   ├── IdempotencyConflict         (409) the idempotency key came with other data before
    │   ├── InteractionResolved         (410) it has been answered, or its time is over
    │   ├── ProjectionFailed            (422) no output could be made of what was submitted
    │   └── PolicyRefused               (403) WORKFLOWS["POLICY"] said no
    ├── DispatchFailed                  a channel could not send a question; raised by its `dispatch`
    ├── InvalidToken (LookupError)      not a token of this site, or of a key that it no longer has
    ├── LeftTransactionOpen             a step returned with a transaction of its own still open
    ├── StrictIsolation                 an event inside a transaction that could miss who waits for it
    ├── EngineOwned                     a model was written past the store
    └── ClaimLost                       a stale worker tried to commit; nothing changed

`StepTimedOut` stands outside: it is a `BaseException`, so that an author's `except Exception` cannot
keep a step alive past its limit.

A message is English and for who calls; what people can do wrong by what they type has a `.reason` besides, which
`tell()` says in their language, without the names and the values that only a program's author knows.
"""

# First, to report a package of somebody else before anything fails.
import workflows.importing.foreign_packages  # noqa: F401
from workflows.exceptions.base import WorkflowError as WorkflowError
from workflows.exceptions.base import describe_error as describe_error
from workflows.exceptions.base import show as show
from workflows.exceptions.base import to_one_line as to_one_line
from workflows.exceptions.invalid_values import InvalidCall as InvalidCall
from workflows.exceptions.invalid_values import InvalidData as InvalidData
from workflows.exceptions.invalid_values import InvalidDuration as InvalidDuration
from workflows.exceptions.invalid_values import InvalidInput as InvalidInput
from workflows.exceptions.invalid_values import InvalidOutcome as InvalidOutcome
from workflows.exceptions.invalid_values import InvalidSchedule as InvalidSchedule
from workflows.exceptions.invalid_values import InvalidSchema as InvalidSchema
from workflows.exceptions.invalid_values import InvalidSignalId as InvalidSignalId
from workflows.exceptions.invalid_values import NotSerializable as NotSerializable
from workflows.exceptions.invalid_values import TooComplex as TooComplex
from workflows.exceptions.invalid_values import TooLarge as TooLarge
from workflows.exceptions.invalid_values import TooMany as TooMany
from workflows.exceptions.invalid_values import UnknownStep as UnknownStep
from workflows.exceptions.question_errors import AnswerElsewhere as AnswerElsewhere
from workflows.exceptions.question_errors import DispatchFailed as DispatchFailed
from workflows.exceptions.question_errors import IdempotencyConflict as IdempotencyConflict
from workflows.exceptions.question_errors import InteractionRefused as InteractionRefused
from workflows.exceptions.question_errors import InteractionResolved as InteractionResolved
from workflows.exceptions.question_errors import InvalidToken as InvalidToken
from workflows.exceptions.question_errors import PolicyRefused as PolicyRefused
from workflows.exceptions.question_errors import ProjectionFailed as ProjectionFailed
from workflows.exceptions.question_errors import StaleVersion as StaleVersion
from workflows.exceptions.question_errors import UnknownInteraction as UnknownInteraction
from workflows.exceptions.run_errors import CallRaised as CallRaised
from workflows.exceptions.run_errors import ChildCancelled as ChildCancelled
from workflows.exceptions.run_errors import ChildFailed as ChildFailed
from workflows.exceptions.run_errors import ClaimLost as ClaimLost
from workflows.exceptions.run_errors import DuplicateCheckpoint as DuplicateCheckpoint
from workflows.exceptions.run_errors import EngineOwned as EngineOwned
from workflows.exceptions.run_errors import LeftTransactionOpen as LeftTransactionOpen
from workflows.exceptions.run_errors import NonDeterministic as NonDeterministic
from workflows.exceptions.run_errors import SignalCollision as SignalCollision
from workflows.exceptions.run_errors import SignalTimeoutError as SignalTimeoutError
from workflows.exceptions.run_errors import StepTimedOut as StepTimedOut
from workflows.exceptions.run_errors import StrictIsolation as StrictIsolation
from workflows.exceptions.run_errors import UnitFailed as UnitFailed
from workflows.exceptions.workflow_errors import NO_WORKER as NO_WORKER
from workflows.exceptions.workflow_errors import UNSERVED as UNSERVED
from workflows.exceptions.workflow_errors import DuplicateKey as DuplicateKey
from workflows.exceptions.workflow_errors import DuplicateSchedule as DuplicateSchedule
from workflows.exceptions.workflow_errors import DuplicateWorkflow as DuplicateWorkflow
from workflows.exceptions.workflow_errors import InstanceCancelled as InstanceCancelled
from workflows.exceptions.workflow_errors import InstanceFailed as InstanceFailed
from workflows.exceptions.workflow_errors import InvalidDefinition as InvalidDefinition
from workflows.exceptions.workflow_errors import InvalidTarget as InvalidTarget
from workflows.exceptions.workflow_errors import NoReader as NoReader
from workflows.exceptions.workflow_errors import NoTarget as NoTarget
from workflows.exceptions.workflow_errors import NotCancellable as NotCancellable
from workflows.exceptions.workflow_errors import NotFinished as NotFinished
from workflows.exceptions.workflow_errors import NotForkable as NotForkable
from workflows.exceptions.workflow_errors import NotRedrivable as NotRedrivable
from workflows.exceptions.workflow_errors import NotRetryable as NotRetryable
from workflows.exceptions.workflow_errors import ScheduleBusy as ScheduleBusy
from workflows.exceptions.workflow_errors import UnknownLimit as UnknownLimit
from workflows.exceptions.workflow_errors import UnknownPoint as UnknownPoint
from workflows.exceptions.workflow_errors import UnknownQueue as UnknownQueue
from workflows.exceptions.workflow_errors import UnknownSchedule as UnknownSchedule
from workflows.exceptions.workflow_errors import UnknownWorkflow as UnknownWorkflow
from workflows.exceptions.workflow_errors import UnknownWorkspace as UnknownWorkspace
from workflows.exceptions.workflow_errors import WorkspaceFull as WorkspaceFull

# Rows (a call's error in a checkpoint), pickles and tracebacks name a class by its module: the package, always.
for _value in [value for value in vars().values() if isinstance(value, type)]:
    _value.__module__ = __name__
del _value
