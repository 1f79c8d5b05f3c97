"""Asking people: the channel `Approval`, and opening a review."""
