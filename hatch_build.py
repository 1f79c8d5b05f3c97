"""Packs the shared `templates/` folder into the wheel, each file beside the app it belongs to.

What lives here: the one rule that maps a template's path to an app. A build hook and not a
table in pyproject.toml, because an editable install must not copy templates (a stale copy
would shadow the edited file) and because a file nobody owns has to fail the build.
Invariant: a wheel never holds a template outside `holdpoint/`, an app's own folder or
`admin/<our label>/`, so a host project's own templates are never shadowed.
"""

from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

OWNERS = {
    "holdpoint": "workflows",
    "workflows": "workflows",
    "approvals": "approvals",
    "admin/holdpoint": "workflows",
    "admin/holdpoint_approvals": "approvals",
}


class TemplatePacker(BuildHookInterface):
    """Adds `templates/<folder>/…` to the wheel as `<app>/templates/<folder>/…`."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        if version == "editable":
            return
        root = Path(self.root, "templates")
        for file in sorted(path for path in root.rglob("*") if path.is_file()):
            name = file.relative_to(root).as_posix()
            build_data["force_include"][str(file)] = f"{find_owner(name)}/templates/{name}"


def find_owner(name: str) -> str:
    """Return the package that ships the template `name`."""
    for folder, owner in OWNERS.items():
        if name.startswith(f"{folder}/"):
            return owner
    raise ValueError(f"templates/{name} belongs to no app: put it under one of {', '.join(OWNERS)}.")
