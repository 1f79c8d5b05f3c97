"""For pytest: fixtures for tests of workflows, and a look at what a test leaves behind.

pytest finds `plugin` by the entry point of the distribution.
"""
