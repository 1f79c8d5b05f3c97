"""`make check`: everything that can be judged without running the tests.

What lives here: the list of judges and the environment each needs. What must not: their settings
(pyproject.toml). All of them run, so that one round shows everything there is to repair; as many at a time as there are
processors, the long ones first. What each says is printed as a whole, in the order of the list.
"""

import os
import subprocess
import sys
from concurrent.futures import Future, ThreadPoolExecutor
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
        "mypy": python("-m", "mypy"),
        "lint-imports": [str(BIN / "lint-imports"), "--no-logo", "--cache-dir", "var/import-linter"],
        "rooms": python("-m", "config.rooms"),
        "ruff check": [str(BIN / "ruff"), "check", "."],
        "ruff format": [str(BIN / "ruff"), "format", "--check", "."],
        # Benchmarks are no tests, but they must start whatever becomes of the site around them.
        "check of the benchmarks": python("-m", "django", "check", "--settings", "benchmarks.site.web"),
    }
    makes = python("manage.py", "makemigrations", "--check", "--dry-run")
    migrates = python("manage.py", "migrate", "--verbosity", "0")
    deploy = python("manage.py", "check", "--deploy", "--fail-level", "WARNING", "--database", "default")
    with temporary_server() as server:
        environment = {**os.environ, "DEBUG": "1", "DATABASE_URL": server.url}
        with ThreadPoolExecutor(os.cpu_count()) as pool:
            running = {name: pool.submit(ask, command, environment) for name, command in judges.items()}
            # One after the other: the second wants the tables of none, and system checks may read them, so they stand
            # as they would in production.
            database = [
                ("makemigrations", makes, environment),
                ("migrate", migrates, environment),
                ("check --deploy", deploy, environment | PRODUCTION),
            ]
            failed = [name for name, judge in running.items() if not tell(name, judge)]
            for name, command, settings in database:
                if not tell(name, pool.submit(ask, command, settings)):
                    failed.append(name)
    print(f"failed: {', '.join(failed)}" if failed else "all checks passed", flush=True)
    return 1 if failed else 0


def ask(command: list[str], environment: dict[str, str]) -> tuple[bool, str]:
    """Return whether a judge is content, and what it says."""
    done = subprocess.run(
        command, env=environment, check=False, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
    )
    return done.returncode == 0, done.stdout


def tell(name: str, judge: Future[tuple[bool, str]]) -> bool:
    """Print what it says once it has said all, and return whether it is content."""
    is_content, said = judge.result()
    print(f"--- {name}\n{said}", end="", flush=True)
    return is_content


if __name__ == "__main__":
    sys.exit(main())
