"""The calls of other Django code: start, signal, complete, emit, cancel, retry, redrive."""
