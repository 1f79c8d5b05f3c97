"""Everything but deciding: claim, delegate, ask, snooze, withdraw; who may, and who may look."""
