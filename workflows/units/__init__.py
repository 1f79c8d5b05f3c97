"""Units of items: waits for many answers, each with a question of its own."""
