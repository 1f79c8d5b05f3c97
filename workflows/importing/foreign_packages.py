"""Whether the packages that Python finds by our names are ours.

pip lets two distributions write the same file: whoever is installed later wins, and who is removed takes it away,
both without a word. Then nothing of ours works, in words that lead nowhere. So what is imported first of our packages
imports this module, and this says what happened. It needs nothing but the standard library. Invariant owned: nothing
of ours runs beside a `workflows/__init__.py` of somebody else.
"""

from __future__ import annotations

import sys
from importlib.metadata import distributions
from pathlib import Path

OURS = "django-holdpoint"


def refuse_foreign(name: str) -> None:
    """Raise ImportError where the package of this name is somebody else's, or was taken away with somebody else's."""
    package = sys.modules.get(name)
    if getattr(package, "__holdpoint__", False):
        return
    raise ImportError(describe_foreign(name, getattr(package, "__file__", None)), name=name)


def describe_foreign(name: str, file: str | None) -> str:
    """What happened to a package of ours, and the way out, in one sentence."""
    here = Path(__file__).resolve().parents[2] / name / "__init__.py"
    others = list_owners(name)
    whose = f"the distribution {' or '.join(map(repr, others))}" if others else "another distribution"
    told = " and ".join(map(repr, others))
    if file is None:
        what = f"{here} is gone: {whose} had written over it, and took it along when it was removed"
    elif Path(file).resolve() == here:
        what = f"{file} is not Holdpoint's any more: {whose} has a package {name!r} too, and has written over it"
    else:
        what = f"{file} is not Holdpoint's, and hides the one in {here.parent}: {whose} has a package {name!r} too"
    without = f" without {told}" if others else " without it"
    return (
        f"{what}; the two cannot share an environment, so make one{without}, and run "
        f"`pip install --force-reinstall {OURS}` in it."
    )


def list_owners(name: str) -> list[str]:
    """The other distributions that say a package of this name is theirs."""
    line = f"{name}/__init__.py,"
    found = set()
    for one in distributions():
        record = one.read_text("RECORD") or ""
        if record.startswith(line) or f"\n{line}" in record:
            found.add(one.metadata["Name"])
    return sorted(found - {OURS})


refuse_foreign("workflows")
