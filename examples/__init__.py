"""Real workflows to read, run and copy. They are tested like the rest, so they stay true."""
