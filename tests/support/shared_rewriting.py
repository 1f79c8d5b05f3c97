"""Workers of one run share the rewriting of assertions, where nobody has done it yet.

Lives here: who rewrites which test file, before it is collected. What must not: fixtures, imports of what is tested.
pytest rewrites the assertions of a test file when it is imported, and keeps the result beside it for the next run. All
workers collect all files in the same order and at the same time, so in the first run of a clone each would do the whole
work: six seconds of a processor, where reading what is kept takes a tenth of one.
Invariant: nothing is imported here, and what is not found when a file is imported is made there as ever.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from _pytest.assertion import rewrite


@pytest.hookimpl(tryfirst=True)
def pytest_collection(session: pytest.Session) -> None:
    """In a worker: rewrite its share of the files that nobody has rewritten."""
    worker = getattr(session.config, "workerinput", None)
    if worker is None or sys.dont_write_bytecode:
        return
    number, count = int(worker["workerid"].removeprefix("gw")), worker["workercount"]
    # By size, so that all have about the same to do.
    files = sorted(list_files(session.config), key=lambda file: (file.stat().st_size, file))
    for file in files[number::count]:
        keep_rewritten(file, session.config)


def list_files(config: pytest.Config) -> Iterator[Path]:
    """All test files below the folders that are to be collected."""
    for argument in config.args:
        folder = config.invocation_params.dir / argument.partition("::")[0]
        yield from folder.rglob("test_*.py")


def keep_rewritten(file: Path, config: pytest.Config) -> None:
    """As pytest does when it imports a file, without importing it."""
    folder = rewrite.get_cache_dir(file)
    kept = folder / (file.name.removesuffix(".py") + rewrite.PYC_TAIL)
    if not kept.exists() and rewrite.try_makedirs(folder):
        source, code = rewrite._rewrite_test(file, config)
        rewrite._write_pyc(config.stash[rewrite.assertstate_key], code, source, kept)
