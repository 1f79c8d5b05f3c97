"""`python -m tests.support.released.record`, at a release: keep its statements for the one that comes after.

Lives here: how statements are found in the modules that keep them as text, and how one is asked for. Run it in the tree
of the release, then set `LAST` to its last migrations.
"""

from __future__ import annotations

import importlib
import json
import os
import pkgutil
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg

from config.postgres import temporary_server

#: Where statements are made and kept under a name of their module.
PACKAGES = ("workflows.store", "workflows.ledger", "workflows.units", "approvals")
STATEMENT = re.compile(r"(?s)\s*(WITH|SELECT|INSERT|UPDATE|DELETE)\b.*\bholdpoint_")


def prepare(cursor: Any, statement: str) -> None:
    """Let the server read and resolve a statement, without its values and without executing it."""
    numbers: dict[str, int] = {}
    text = re.sub(r"%\((\w+)\)s", lambda at: f"${numbers.setdefault(at[1], len(numbers) + 1)}", statement)
    raw = psycopg.ClientCursor(cursor.connection)
    raw.execute("PREPARE released AS " + text.replace("%%", "%"))
    raw.execute("DEALLOCATE released")


def find_statements() -> Iterator[tuple[str, str]]:
    """Each text that looks like a statement, with the place where it stands."""
    for package in PACKAGES:
        root = importlib.import_module(package)
        for found in pkgutil.walk_packages(root.__path__, f"{package}."):
            if ".migrations" not in found.name:
                yield from _find_in(importlib.import_module(found.name))


def _find_in(module: Any) -> Iterator[tuple[str, str]]:
    for name, value in vars(module).items():
        values = value.items() if isinstance(value, dict) else [("", value)]
        for key, text in values:
            if isinstance(text, str) and STATEMENT.match(text):
                yield f"{module.__name__}.{name}" + (f"[{key}]" if key != "" else ""), " ".join(text.split())


def _leave_fragments(by_text: dict[str, str]) -> dict[str, str]:
    """Only what a server takes: what statements are put together of looks like one, and is none."""
    from django.core.management import call_command
    from django.db import connection, transaction

    call_command("migrate", verbosity=0)
    found = {}
    for text, place in sorted(by_text.items(), key=lambda one: one[1]):
        try:
            with transaction.atomic(), connection.cursor() as cursor:
                prepare(cursor, text)
        except psycopg.Error as error:
            print(f"left out: {place} ({str(error).splitlines()[0]})")
        else:
            found[place] = text
    return found


def main() -> None:
    with temporary_server() as server:
        os.environ |= {"DATABASE_URL": server.url, "DJANGO_SETTINGS_MODULE": "config.settings"}
        import django

        django.setup()
        by_text: dict[str, str] = {}
        for place, text in find_statements():
            by_text.setdefault(text, place)
        found = _leave_fragments(by_text)
    file = Path(__file__).with_name("statements.json")
    file.write_text(json.dumps(found, indent=0, ensure_ascii=False) + "\n")
    print(f"{len(found)} statements in {file}")


if __name__ == "__main__":
    main()
