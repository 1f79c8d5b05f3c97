"""Statements about the outside: sending questions, stored answers, parked records, hooks, API keys."""
