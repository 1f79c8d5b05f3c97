"""Running claimed instances, and committing what becomes of them.

Lives here: the five calls of workers and tests, each loaded on first use, because authors' modules import
`engine.context` before there are settings, and what runs and commits needs models.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from workflows.engine.running import complete as complete
    from workflows.engine.running import limit_of as limit_of
    from workflows.engine.running import run as run
    from workflows.engine.running import runs_alone as runs_alone
    from workflows.engine.settlement import settle as settle

_HOME_OF = dict.fromkeys(("complete", "limit_of", "run", "runs_alone"), "workflows.engine.running")
_HOME_OF["settle"] = "workflows.engine.settlement"

__all__ = sorted(_HOME_OF)


def __getattr__(name: str) -> Any:
    if name not in _HOME_OF:
        raise AttributeError(f"module 'workflows.engine' has no attribute {name!r}")
    value = getattr(import_module(_HOME_OF[name]), name)
    globals()[name] = value
    return value
