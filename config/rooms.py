"""`python -m config.rooms`: whether the code is laid out as the house wants it, and its map in ARCHITECTURE.md.

Lives here: the criteria of the layout (packages, names, addresses, folders of tests), and the map of packages, which is
made of their docstrings, of the imports between them and of the layers in pyproject.toml. `--write` writes the map.
Must not live here: the layers themselves; import-linter holds them. Nothing of Django is loaded.
"""

from __future__ import annotations

import argparse
import ast
import re
import sys
import tomllib
from collections import Counter, defaultdict
from collections.abc import Iterator
from pathlib import Path

import grimp

ROOT = Path(__file__).resolve().parent.parent
APPS = ("workflows", "approvals")
MAP = ROOT / "ARCHITECTURE.md"
BEGIN, END = "<!-- map: python -m config.rooms --write -->", "<!-- end of the map -->"

MODULES, PACKAGES, LINES, TEST_FILES = 12, 8, 400, 30
#: Packages with a width of their own: the store has a module for each moment.
WIDER = {"workflows/store": 25}
#: The text of an import, with all that stands in its brackets.
IMPORT = re.compile(r"^[ \t]*(?:from|import)\s[^(\n]*(?:\([^)]*\))?", re.MULTILINE)
#: Names that a Django project expects in many packages.
COMMON = {"__init__", "urls", "apps", "conf", "exceptions", "testing", "base", "checks"}
#: Classes whose names belong to Django, or to both sides of a border: public twice, or a table and what is told of it.
SHARED_CLASSES = {
    "Meta",
    "Media",
    "Command",
    "Conf",
    "Answer",
    "ApprovalRequiredMixin",
    "Delivery",
    "Outcome",
    "Signal",
}


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m config.rooms", description=__doc__.partition("\n")[0])
    parser.add_argument("--write", action="store_true", help="write the map into ARCHITECTURE.md")
    if parser.parse_args().write:
        MAP.write_text(_put_map(MAP.read_text()))
    problems = list(find_problems(ROOT))
    print("\n".join(problems) or "The rooms are in order.")
    return bool(problems)


def find_problems(root: Path) -> Iterator[str]:
    """Sentences about what is not in order, each with what to do."""
    sources = {path: path.read_text() for app in APPS for path in _list_sources(root / app)}
    trees = {path: ast.parse(text) for path, text in sources.items()}
    yield from _check_widths(root, sources)
    yield from _check_names(root, trees)
    yield from _check_modules(root, sources, trees)
    yield from _check_tests(root)
    if MAP.read_text() != _put_map(MAP.read_text()):
        yield "ARCHITECTURE.md: the map of packages is old; run python -m config.rooms --write."


def _list_sources(folder: Path) -> list[Path]:
    return [path for path in sorted(folder.rglob("*.py")) if "migrations" not in path.parts]


def _check_widths(root: Path, sources: dict[Path, str]) -> Iterator[str]:
    packages = sorted({path.parent for path in sources})
    modules = Counter(path.parent for path in sources if path.stem != "__init__")
    inside = Counter(package.parent for package in packages)
    for package in packages:
        name = package.relative_to(root).as_posix()
        if modules[package] > (most := WIDER.get(name, MODULES)):
            yield f"{name}: {modules[package]} modules, at most {most}; bring those of one idea into a package."
        if "/" in name and inside[package] > PACKAGES:
            yield f"{name}: {inside[package]} packages, at most {PACKAGES}."


def _walk_statements(tree: ast.Module) -> Iterator[ast.AST]:
    """All statements, however deep; the expressions in them are many more."""
    left: list[ast.AST] = [tree]
    while left:
        yield (node := left.pop())
        for name in ("body", "orelse", "finalbody", "handlers", "cases"):
            left += getattr(node, name, ())


def _check_names(root: Path, trees: dict[Path, ast.Module]) -> Iterator[str]:
    stems = Counter((path.relative_to(root).parts[0], path.stem) for path in trees if path.stem not in COMMON)
    for (app, stem), number in sorted(stems.items()):
        if number > 1:
            yield f"{app}: {number} modules are called {stem}; a name says where something is only if it is there once."
    homes: dict[str, set[str]] = defaultdict(set)
    for path, tree in trees.items():
        # The client stands alone, and names what callers see as the engine does.
        if "client" not in path.parts:
            for node in _walk_statements(tree):
                if isinstance(node, ast.ClassDef) and node.name not in SHARED_CLASSES:
                    homes[node.name].add(path.relative_to(root).as_posix())
    for name, where in sorted(homes.items()):
        if len(where) > 1:
            yield f"Class {name} stands in {', '.join(sorted(where))}; give each a name of its own."


def _check_modules(root: Path, sources: dict[Path, str], trees: dict[Path, ast.Module]) -> Iterator[str]:
    for path, text in sources.items():
        name, tree = path.relative_to(root).as_posix(), trees[path]
        if (lines := len(text.splitlines())) > LINES:
            yield f"{name}: {lines} lines, at most {LINES}; there are two ideas in it."
        if text.strip() and not ast.get_docstring(tree):
            yield f"{name}: has no docstring that says what lives there."
        if path.stem != "__init__":
            for node in tree.body:
                again = node.names if isinstance(node, ast.ImportFrom) else []
                for alias in again:
                    if alias.asname == alias.name:
                        yield f"{name}: gives {alias.name} a second address; let others import it from where it lives."


def _check_tests(root: Path) -> Iterator[str]:
    folders = Counter(path.parent.relative_to(root).as_posix() for path in (root / "tests").rglob("test_*.py"))
    for name, number in sorted(folders.items()):
        if number > TEST_FILES:
            yield f"{name}: {number} files of tests, at most {TEST_FILES}."
    for path in sorted((root / "tests").rglob("*.py")):
        text = path.read_text()
        # Most import nothing of the kind, and to parse a file takes long.
        if not any("test_" in one for one in IMPORT.findall(text)):
            continue
        for node in _walk_statements(ast.parse(text)):
            modules = [one.name for one in node.names] if isinstance(node, ast.Import) else []
            if isinstance(node, ast.ImportFrom) and node.module:
                modules = [node.module, *(f"{node.module}.{one.name}" for one in node.names)]
            for module in modules:
                if module.startswith("tests.") and any(part.startswith("test_") for part in module.split(".")[1:]):
                    yield f"{path.relative_to(root)}: imports from {module}; what tests share stands in tests/support."


# --- the map ------------------------------------------------------------------------------------------


def _put_map(text: str) -> str:
    before, _, rest = text.partition(BEGIN)
    after = rest.partition(END)[2]
    return f"{before}{BEGIN}\n\n{draw_map()}\n{END}{after}"


def draw_map() -> str:
    """Each app as a table from its upper rooms to its lower ones: calls only go down."""
    graph = grimp.build_graph(*APPS, exclude_type_checking_imports=True, cache_dir=None)
    parts = []
    for app, ranks in _read_layers().items():
        rooms = [room for rank in ranks for room in rank]
        below = _find_edges(graph, app, rooms)
        lines = [f"**`{app}/`**", "", "| Room | What is in it | Stands on |", "|---|---|---|"]
        for room in rooms:
            ground = [name for name in rooms if name in _reduce(below, room)]
            inside = ROOT / app / room
            shown = f"`{room}/`" if inside.is_dir() else f"`{room}.py`"
            what = _read_first(inside / "__init__.py" if inside.is_dir() else inside.with_suffix(".py"))
            lines.append(f"| {shown} | {what} | {' '.join(f'`{name}`' for name in ground)} |")
        parts.append("\n".join(lines) + "\n")
    return "\n".join(parts)


def _read_layers() -> dict[str, list[list[str]]]:
    """The ranks of each app, the uppermost first, as import-linter holds them."""
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"]
    layers = [one for one in contracts if one["type"] == "layers"]
    found = {one["containers"][0]: one["layers"] for one in layers if one["containers"][0] in APPS}
    return {app: [re.split(r"\s*[|:]\s*", rank.strip("()")) for rank in ranks] for app, ranks in found.items()}


def _find_edges(graph: grimp.ImportGraph, app: str, rooms: list[str]) -> dict[str, set[str]]:
    owner = {name: name.split(".")[1] for name in graph.modules if name.startswith(f"{app}.")}
    edges: dict[str, set[str]] = {room: set() for room in rooms}
    for name, room in owner.items():
        targets = (owner.get(target) for target in graph.find_modules_directly_imported_by(name))
        edges.setdefault(room, set()).update(target for target in targets if target and target != room)
    return edges


def _reduce(edges: dict[str, set[str]], room: str) -> set[str]:
    """What a room stands on directly: not what it could reach through another of them."""
    direct = edges[room]
    through: set[str] = set()
    waiting = list(direct)
    while waiting:
        for further in edges.get(waiting.pop(), set()):
            if further not in through:
                through.add(further)
                waiting.append(further)
    return direct - through


def _read_first(path: Path) -> str:
    """The first sentence of a docstring, for a cell of a table."""
    text = ast.get_docstring(ast.parse(path.read_text())) or ""
    return " ".join(text.partition("\n\n")[0].split()).replace("|", "\\|")


if __name__ == "__main__":
    sys.exit(main())
