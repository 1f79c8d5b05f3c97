"""A host project for `test_restarts`: one payment in each style, resumed by a process that did not start it."""
