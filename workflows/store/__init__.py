"""The only writer of the engine's tables, and the home of all SQL.

Each module holds the statements of one moment in an instance's life; every statement is a constant with
a comment that names the race it closes or the plan it takes. What callers need is imported from here.
Nothing here knows a user, a page or an author's code. Lock order everywhere: instance rows by ascending
id, `FOR NO KEY UPDATE`, before anything else; then interactions, then units.
"""

from workflows.store.address import Address as Address
from workflows.store.address import resolve_workspaces as resolve_workspaces
from workflows.store.address import workspace_exists as workspace_exists
from workflows.store.answers import KEEP_DAYS as KEEP_DAYS
from workflows.store.answers import Once as Once
from workflows.store.answers import Told as Told
from workflows.store.answers import keep_answer as keep_answer
from workflows.store.answers import prune_answers as prune_answers
from workflows.store.answers import reserve_answer as reserve_answer
from workflows.store.ask import FoundQuestion as FoundQuestion
from workflows.store.ask import NewQuestion as NewQuestion
from workflows.store.ask import arm_question as arm_question
from workflows.store.ask import close_questions as close_questions
from workflows.store.ask import find_question as find_question
from workflows.store.ask import open_question as open_question
from workflows.store.checkpoints import Saved as Saved
from workflows.store.checkpoints import blame_checkpoint as blame_checkpoint
from workflows.store.checkpoints import forget_checkpoints as forget_checkpoints
from workflows.store.checkpoints import read_checkpoints as read_checkpoints
from workflows.store.checkpoints import save_checkpoint as save_checkpoint
from workflows.store.claim import LEASE_SECONDS as LEASE_SECONDS
from workflows.store.claim import Claim as Claim
from workflows.store.claim import claim as claim
from workflows.store.claim import read_numbers as read_numbers
from workflows.store.claim import read_signals as read_signals
from workflows.store.claim import reclaim as reclaim
from workflows.store.claim import release as release
from workflows.store.claim import renew as renew
from workflows.store.commit import Commit as Commit
from workflows.store.commit import Kind as Kind
from workflows.store.commit import commit as commit
from workflows.store.commit import commit_free as commit_free
from workflows.store.commit import commit_locked as commit_locked
from workflows.store.commit import ended_here as ended_here
from workflows.store.commit import lock_claim as lock_claim
from workflows.store.complete import Addressed as Addressed
from workflows.store.complete import complete_interaction as complete_interaction
from workflows.store.complete import find_by_token as find_by_token
from workflows.store.complete import find_interaction as find_interaction
from workflows.store.complete import record_refusal as record_refusal
from workflows.store.deliver import Delivered as Delivered
from workflows.store.deliver import Line as Line
from workflows.store.deliver import deliver as deliver
from workflows.store.deliver import deliver_many as deliver_many
from workflows.store.deliver import find_holders as find_holders
from workflows.store.due import expire_due as expire_due
from workflows.store.due import seconds_to_next as seconds_to_next
from workflows.store.erase import prune_rows as prune_rows
from workflows.store.events import accepts_event as accepts_event
from workflows.store.events import deliver_event as deliver_event
from workflows.store.events import find_waits as find_waits
from workflows.store.events import insert_event as insert_event
from workflows.store.events import lock_event as lock_event
from workflows.store.events import park_on_event as park_on_event
from workflows.store.events import prune_events as prune_events
from workflows.store.keys import find_key as find_key
from workflows.store.sql import CHANNEL as CHANNEL
from workflows.store.sql import atomic as atomic
from workflows.store.sql import fetch as fetch
from workflows.store.sql import in_transaction as in_transaction
from workflows.store.sql import read_clock as read_clock
from workflows.store.sql import retrying as retrying
from workflows.store.sql import wait_for_locks as wait_for_locks
from workflows.store.start import NewInstance as NewInstance
from workflows.store.start import find_holder as find_holder
from workflows.store.start import insert_instances as insert_instances
from workflows.store.state import State as State
from workflows.store.state import read_state as read_state
from workflows.store.tree import cancel_tree as cancel_tree
from workflows.store.tree import find_ended as find_ended
from workflows.store.tree import find_instance as find_instance
from workflows.store.tree import reopen as reopen
from workflows.store.workers import ask as ask
from workflows.store.workers import beat as beat
from workflows.store.workers import forget_silent as forget_silent
from workflows.store.workers import is_void as is_void
from workflows.store.workers import leave as leave
from workflows.store.workers import list_alive as list_alive
from workflows.store.workers import silence as silence
from workflows.store.workers import suspect as suspect
