"""Completing interactions: one or many, by whatever door, answered by their owner, or failed."""
