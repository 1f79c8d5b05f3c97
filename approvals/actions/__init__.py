"""Everything but deciding: claim, delegate, ask, snooze, withdraw; and what becomes of a try by who may not look.

Others call the functions of `actions` and `delegation`; doors use `visibility` (`hiding`, `note_unseen`).
"""
