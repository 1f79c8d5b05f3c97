"""The tables: columns, constraints, indexes and read querysets. Nothing here writes.

Invariant owned: a row that contradicts itself cannot be committed (check constraints), and a status
cannot change along an edge that `lifecycle` does not have (a trigger, see the first migration).

Row widths matter: a million parked instances should fit in memory. So statuses are small integers,
the state is NULL while it equals the input, and signal and ledger rows are keyed by (instance, n), a
number taken from the instance under its lock, instead of carrying an identity of their own.
"""

from workflows.models.access_key import ApiKey as ApiKey
from workflows.models.base import EngineModel as EngineModel
from workflows.models.base import InstanceQuerySet as InstanceQuerySet
from workflows.models.base import ReadQuerySet as ReadQuerySet
from workflows.models.dispatch import Dispatch as Dispatch
from workflows.models.flow_limits import Limit as Limit
from workflows.models.flow_limits import PausedWorkflow as PausedWorkflow
from workflows.models.flow_limits import Queue as Queue
from workflows.models.flow_limits import TokenBucket as TokenBucket
from workflows.models.hook_receipt import HookReceipt as HookReceipt
from workflows.models.instance import Instance as Instance
from workflows.models.instance import KeptState as KeptState
from workflows.models.instance import Signal as Signal
from workflows.models.instance import Workspace as Workspace
from workflows.models.interaction import AwaitUnit as AwaitUnit
from workflows.models.interaction import Checkpoint as Checkpoint
from workflows.models.interaction import EventWait as EventWait
from workflows.models.interaction import Interaction as Interaction
from workflows.models.interaction import NamedEvent as NamedEvent
from workflows.models.ledger_event import LedgerEvent as LedgerEvent
from workflows.models.ledger_event import LedgerSeal as LedgerSeal
from workflows.models.ledger_event import Renewal as Renewal
from workflows.models.ledger_event import Worker as Worker
from workflows.models.parked_answer import ParkedAnswer as ParkedAnswer
from workflows.models.schedule_tables import Schedule as Schedule
from workflows.models.schedule_tables import ScheduleTick as ScheduleTick
from workflows.models.stored_answer import StoredAnswer as StoredAnswer
from workflows.models.stored_answer import Tally as Tally
