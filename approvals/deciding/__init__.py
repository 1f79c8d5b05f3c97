"""Deciding: `decide()`, its effects, the time to undo, and what time does to reviews.

Others call `decisions.decide`, `undo_window.undo`, `effects.close_withdrawn` and `refused_attempt.note_refusal`; the
app registers the sweeps of `timers` and `stranding`.
"""
