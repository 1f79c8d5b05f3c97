"""Asking people: the channel `Approval`, and opening a review.

Authors use `approval.Approval`; `opening` writes the review in the transaction of its question.
"""
