"""The root of the error tree, and how a value reads in a message.

Lives here: what every error of the engine needs. Must not live here: a condition of its own. Invariant owned: a
message can be made of any value, also of one whose `repr` fails.
"""

from __future__ import annotations


def show(value: object) -> str:
    """A value in a message: short, and readable even where its `repr` fails."""
    try:
        return f"{value!r:.80}"
    except Exception:
        return f"<{type(value).__name__} that cannot be shown>"


class WorkflowError(Exception):
    """Whatever the engine refuses or reports."""
