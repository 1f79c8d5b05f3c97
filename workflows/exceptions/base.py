"""The root of the error tree, and how a value or an error reads in a message.

Lives here: what every error of the engine needs. Must not live here: a condition of its own. Invariant owned: a
message can be made of any value, also of one whose `repr` or `str` fails.
"""

from __future__ import annotations


def show(value: object) -> str:
    """A value in a message: short, and readable even where its `repr` fails."""
    try:
        return f"{value!r:.80}"
    except Exception:
        return f"<{type(value).__name__} that cannot be shown>"


def describe_error(error: BaseException) -> str:
    """An exception's class and message, in a form that can be stored."""
    try:
        message = str(error)
    except Exception:  # an author's __str__ may fail too, and the first error must not get lost over it
        message = "(its message cannot be read)"
    text = f"{type(error).__name__}: {message}" if message else type(error).__name__
    return text.replace("\0", "\\0").encode(errors="backslashreplace").decode()[:100_000]


def to_one_line(text: str) -> str:
    """For a log: what an author's or a stranger's text says must not look like lines of the log's own."""
    return "".join(letter if letter.isprintable() else letter.encode("unicode_escape").decode() for letter in text)


class WorkflowError(Exception):
    """Whatever the engine refuses or reports."""
