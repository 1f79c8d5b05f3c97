"""The tables: columns, constraints, indexes and read querysets. Nothing here writes.

Invariant owned: a row that contradicts itself cannot be committed (check constraints), and a status
cannot change along an edge that `lifecycle` does not have (a trigger, see the first migration).

Row widths matter: a million parked instances should fit in memory. So statuses are small integers,
the state is NULL while it equals the input, and signal and ledger rows are keyed by (instance, n), a
number taken from the instance under its lock, instead of carrying an identity of their own.
"""

from workflows.models.access import ApiKey as ApiKey
from workflows.models.answers import StoredAnswer as StoredAnswer
from workflows.models.answers import Tally as Tally
from workflows.models.base import EngineModel as EngineModel
from workflows.models.base import InstanceQuerySet as InstanceQuerySet
from workflows.models.base import ReadQuerySet as ReadQuerySet
from workflows.models.dispatches import Dispatch as Dispatch
from workflows.models.history import LedgerEvent as LedgerEvent
from workflows.models.history import LedgerSeal as LedgerSeal
from workflows.models.history import Renewal as Renewal
from workflows.models.history import Worker as Worker
from workflows.models.hooks import HookReceipt as HookReceipt
from workflows.models.instances import Instance as Instance
from workflows.models.instances import Signal as Signal
from workflows.models.instances import Workspace as Workspace
from workflows.models.parked import ParkedAnswer as ParkedAnswer
from workflows.models.waits import AwaitUnit as AwaitUnit
from workflows.models.waits import Checkpoint as Checkpoint
from workflows.models.waits import EventWait as EventWait
from workflows.models.waits import Interaction as Interaction
from workflows.models.waits import NamedEvent as NamedEvent
