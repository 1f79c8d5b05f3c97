"""Counting the calls of the project's own functions that a piece of work makes.

Counted are functions, methods, lambdas and properties that are written in `workflows` and `approvals`, in the thread
that counts; a generator counts once. Not counted are comprehensions and generator expressions, bodies of modules and
classes, Django, and what `dataclasses` generates.
"""

from __future__ import annotations

import dis
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from inspect import CO_GENERATOR, CO_NEWLOCALS
from pathlib import Path
from types import CodeType, FrameType

import approvals
import workflows

ROOTS = tuple(Path(str(package.__file__)).parent for package in (workflows, approvals))
NO_FUNCTIONS = frozenset({"<listcomp>", "<setcomp>", "<dictcomp>", "<genexpr>"})


class CallCounts(Counter[str]):
    """How often each function was called, by its place, such as `workflows.api.instances:signal`."""

    def __str__(self) -> str:
        lines = [f"{count:6}  {place}" for place, count in self.most_common()]
        return "\n".join([f"{self.total()} calls of {len(self)} functions:", *lines])


@contextmanager
def count_calls() -> Iterator[CallCounts]:
    """Count what the block calls in this thread. A process-wide cache should be warm: call once before.

    >>> with count_calls() as counts:
    ...     workflows.signal("order-1", "paid")
    >>> assert counts.total() <= 20, counts
    """
    counts = CallCounts()

    def look(frame: FrameType, event: str, arg: object) -> None:
        if event != "call" or (place := find_place(frame.f_code)) is None:
            return
        if frame.f_code.co_flags & CO_GENERATOR and frame.f_lasti != find_start(frame.f_code):
            return  # it goes on after a yield
        counts[place] += 1

    before = sys.getprofile()
    sys.setprofile(look)
    try:
        yield counts
    finally:
        sys.setprofile(before)


@cache
def find_place(code: CodeType) -> str | None:
    """The module and name of a function of the project; None of everything else."""
    if code.co_name in NO_FUNCTIONS or not code.co_flags & CO_NEWLOCALS:
        return None
    path = Path(code.co_filename)
    root = next((root for root in ROOTS if path.is_relative_to(root)), None)
    if root is None:
        return None
    return f"{'.'.join(path.relative_to(root.parent).with_suffix('').parts)}:{code.co_qualname}"


@cache
def find_start(code: CodeType) -> int:
    """Where a generator begins."""
    return next(at.offset for at in dis.get_instructions(code) if at.opname == "RESUME")
