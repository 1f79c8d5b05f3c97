"""Posting to addresses outside: which may be called, how it is signed, and the trace it carries."""
