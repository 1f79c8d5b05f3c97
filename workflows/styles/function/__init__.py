"""Function style: a durable function, what its `ctx` offers, and the lines of its items."""
