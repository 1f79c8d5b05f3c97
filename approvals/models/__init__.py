"""The tables of approvals: columns, constraints, indexes and read querysets. Nothing here writes.

Invariant owned: `Review.open` and its copies on the candidates say whether the interaction is pending. They are what
the inbox's indexes carry; the database closes them in the statement that closes the interaction (a trigger, see the
first migration), and a test compares them with the truth.
"""

from approvals.models.notices import Delivery as Delivery
from approvals.models.notices import Notice as Notice
from approvals.models.people import Absence as Absence
from approvals.models.people import Guess as Guess
from approvals.models.people import Preference as Preference
from approvals.models.people import Presence as Presence
from approvals.models.people import SavedView as SavedView
from approvals.models.people import Snooze as Snooze
from approvals.models.reviews import RISKS as RISKS
from approvals.models.reviews import Candidate as Candidate
from approvals.models.reviews import Review as Review
from approvals.models.votes import Comment as Comment
from approvals.models.votes import Vote as Vote
