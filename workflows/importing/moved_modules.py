"""Modules that documents or rows once named elsewhere: the old path still gives the module, with a warning.

Lives here: the table of old paths, and the finder that answers for them. Must not live here: anything beside the
standard library, because it is loaded with the first import of either app. Invariant owned: an old path and the new
one give the same module.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Sequence
from importlib import import_module
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType

#: Old path → new path.
MOVED = {
    # Their errors may stand in checkpoints.
    "approvals.passwords": "approvals.access.password_check",
    "approvals.required.proposals": "approvals.required.core.proposals",
    "approvals.required.sealing": "approvals.required.core.proposal_seal",
    "workflows.pages.posted": "workflows.pages.posted_form",
    "workflows.rest.problems": "workflows.rest.protocol.problems",
    # The documentation named them.
    "approvals.calendars": "approvals.rules.calendar",
    "approvals.decisions": "approvals.deciding.decisions",
    "approvals.diffs": "approvals.subjects.diff",
    "approvals.doors": "approvals.rules.door",
    "approvals.status": "approvals.cards.status",
    "workflows.events": "workflows.api.events",
    "workflows.keys": "workflows.access.api_keys",
    "workflows.sweeps": "workflows.definitions.sweeps",
}


class _OldPaths(MetaPathFinder, Loader):
    """Finds a module by its old path."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        return ModuleSpec(fullname, self) if fullname in MOVED else None

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        """An empty module; the one that was looked for takes its place below."""
        return ModuleType(spec.name)

    def exec_module(self, module: ModuleType) -> None:
        old = module.__name__
        # Python does not count the frames of importlib, so this is the line that imports.
        warnings.warn(f"{old} is now {MOVED[old]}.", DeprecationWarning, stacklevel=2)
        sys.modules[old] = import_module(MOVED[old])


def install() -> None:
    """Answer for old paths from now on; a second call changes nothing."""
    if not any(isinstance(finder, _OldPaths) for finder in sys.meta_path):
        sys.meta_path.append(_OldPaths())
