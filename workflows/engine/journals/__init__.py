"""What a run writes while it lasts: questions, items, checkpoints, each fenced and committed at once."""
