"""Approvals in Django's admin: read everything, change nothing but through the calls that everybody makes.

Lives here: registration only. Invariants owned by the package: no page writes a table of reviews, and none decides by
GET; whoever acts here acts under their own rights, and is refused with the sentence that the page shows beside the
button; no page issues a statement per row; and whatever people wrote is shown as text.
"""

from approvals.admin.absence_admin import AbsenceAdmin, PreferenceAdmin
from approvals.admin.delivery_admin import DeliveryAdmin
from approvals.admin.reviews.review_admin import ReviewAdmin
from approvals.admin.vote_admin import CommentAdmin, VoteAdmin

__all__ = ["AbsenceAdmin", "CommentAdmin", "DeliveryAdmin", "PreferenceAdmin", "ReviewAdmin", "VoteAdmin"]
