"""The tables of approvals: columns, constraints, indexes and read querysets. Nothing here writes.

Invariant owned: `Review.open` and its copies on the candidates say whether the interaction is pending. They are what
the inbox's indexes carry; the database closes them in the statement that closes the interaction (a trigger, see the
first migration), and a test compares them with the truth.
"""

from approvals.models.absence import Absence as Absence
from approvals.models.absence import Guess as Guess
from approvals.models.absence import Preference as Preference
from approvals.models.absence import Presence as Presence
from approvals.models.absence import SavedView as SavedView
from approvals.models.absence import Snooze as Snooze
from approvals.models.notice import Delivery as Delivery
from approvals.models.notice import Notice as Notice
from approvals.models.review import RISKS as RISKS
from approvals.models.review import Candidate as Candidate
from approvals.models.review import Review as Review
from approvals.models.vote import Comment as Comment
from approvals.models.vote import Vote as Vote
