"""The stage that is made of others: branches that run side by side.

Lives here: reading their names and stages. Must not live here: which stage leads where (`stage_plan`), and running
them (`streams.parallel_ends`). Invariant owned: each branch of a stage that was read has a name that an attribute may
have, and at least one stage.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from workflows.exceptions import InvalidDefinition, show
from workflows.styles.machine.stages import END, FAIL, Stage


@dataclass(frozen=True, eq=False)
class Parallel(Stage):
    """Branches that run side by side, each a sequence of stages; it is over when all of them are."""

    branches: Any

    def read(self) -> Stage:
        if not self.branches:
            raise InvalidDefinition(
                "parallel needs a branch: parallel(legal=wait_for(…), money=[action(…), wait_for(…)])"
            )
        return replace(
            self, branches={_read_branch_name(name): _read_branch(name, one) for name, one in self.branches.items()}
        )


def _read_branch_name(name: object) -> str:
    if not isinstance(name, str) or not name.isidentifier() or name.startswith("_") or name in (END, FAIL):
        raise InvalidDefinition(
            f"{show(name)} cannot be the name of a branch: use letters, digits and _ (not first), not {END} or {FAIL}"
        )
    return name


def _read_branch(name: str, stages: object) -> tuple[Stage, ...]:
    listed = (stages,) if isinstance(stages, Stage) else stages
    if not isinstance(listed, list | tuple) or not all(isinstance(one, Stage) for one in listed):
        raise InvalidDefinition(f"branch {name!r} is a stage or a list of stages such as action(…), not {show(stages)}")
    if not listed:
        raise InvalidDefinition(f"branch {name!r} needs at least one stage")
    return tuple(listed)
