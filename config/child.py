"""Runs a Python module as a supervised child whose own children cannot outlive it.

    python -m config.child django qcluster        (like `python -m django qcluster`)

What lives here: only the preparation. django-q's and granian's main processes both fork; when the
main process is killed their workers would go on alone, holding the port or running tasks.
"""

import multiprocessing
import runpy
import signal
import sys

from config.lifeline import tie_own_forks

if __name__ == "__main__":
    if sys.platform.startswith("linux"):
        # Newer Pythons default to a fork server, a process in between that would outlive us.
        multiprocessing.set_start_method("fork")
        tie_own_forks(signal.SIGKILL)
    sys.argv = sys.argv[1:]
    runpy.run_module(sys.argv[0], run_name="__main__", alter_sys=True)
