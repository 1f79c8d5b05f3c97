"""Deciding: `decide()`, its effects, the time to undo, and what time does to reviews."""
