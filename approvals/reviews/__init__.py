"""One review with all that bears on it, and how a person stands to it."""
