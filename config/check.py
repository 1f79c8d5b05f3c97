"""`make check`: everything that can be judged without running the tests.

What lives here: the list of judges and the environment each needs. What must not: their settings
(pyproject.toml). All of them run, so that one round shows everything there is to repair.
"""

import os
import subprocess
import sys
from pathlib import Path

from config.postgres import temporary_server
from config.supervisor import python

BIN = Path(sys.executable).parent

# What a careful operator would set. The values only have to look right: nothing is served.
PRODUCTION = {
    "DEBUG": "0",
    "SECRET_KEY": "only-for-the-deploy-check-" + "x1Y2z3W4v5U6t7S8r9Q0" * 2,
    "TOKEN_KEYS": "check:" + "a9B8c7D6e5F4g3H2i1J0" * 2,
    "BASE_URL": "https://holdpoint.example",
}


def main() -> int:
    judges = {
        "ruff check": [str(BIN / "ruff"), "check", "."],
        "ruff format": [str(BIN / "ruff"), "format", "--check", "."],
        "mypy": python("-m", "mypy"),
        "lint-imports": [str(BIN / "lint-imports"), "--no-logo", "--cache-dir", "var/import-linter"],
        "rooms": python("-m", "config.rooms"),
        "makemigrations": python("manage.py", "makemigrations", "--check", "--dry-run"),
    }
    deploy = python("manage.py", "check", "--deploy", "--fail-level", "WARNING", "--database", "default")
    with temporary_server() as server:
        environment = {**os.environ, "DEBUG": "1", "DATABASE_URL": server.url}
        # System checks may read the tables, so they stand as they would in production.
        # Benchmarks are no tests, but they must start whatever becomes of the site around them.
        judges["check of the benchmarks"] = python("-m", "django", "check", "--settings", "benchmarks.site.web")
        judges["migrate"] = python("manage.py", "migrate", "--verbosity", "0")
        failed = [name for name, command in judges.items() if not passes(name, command, environment)]
        if not passes("check --deploy", deploy, environment | PRODUCTION):
            failed.append("check --deploy")
    print(f"failed: {', '.join(failed)}" if failed else "all checks passed", flush=True)
    return 1 if failed else 0


def passes(name: str, command: list[str], environment: dict[str, str]) -> bool:
    print(f"--- {name}", flush=True)
    return subprocess.run(command, env=environment, check=False).returncode == 0


if __name__ == "__main__":
    sys.exit(main())
