"""Ties a process to the life of its parent.

What lives here: the one call that asks the kernel to signal a child when its parent is gone,
which covers the parent that was killed too hard to clean up. What must not: any policy about
who is started or restarted (that is `run`).
Invariant: no process of this site outlives its supervisor, however the supervisor died.
"""

import ctypes
import os
import signal
import sys
from collections.abc import Callable

PR_SET_PDEATHSIG = 1


def tie_to_parent(signum: int, parent: int) -> Callable[[], None]:
    """Return a function for the child, to be called between fork and exec (or after a fork).

    The kernel forgets the wish when the process changes its user, so it must be called after
    that, and it fires when the *thread* that forked ends, so fork from the main thread.
    Elsewhere than on Linux there is no such call: there a killed supervisor leaves its children
    to the next start, which adopts or stops them.
    """
    if not sys.platform.startswith("linux"):
        return lambda: None
    prctl = ctypes.CDLL(None, use_errno=True).prctl  # loaded before the fork: the child stays trivial

    def tie() -> None:
        prctl(PR_SET_PDEATHSIG, signum, 0, 0, 0)
        if os.getppid() != parent:  # it died before the call above could see it
            os.kill(os.getpid(), signal.SIGKILL)

    return tie


def tie_own_forks(signum: int = signal.SIGTERM) -> None:
    """Let every process that this one forks from now on be signalled when its parent dies."""

    def tie() -> None:
        tie_to_parent(signum, os.getppid())()

    if sys.platform.startswith("linux"):
        os.register_at_fork(after_in_child=tie)
