"""What the numbers were measured on: processor, disk, versions and the server's settings.

Never a name of a machine, a folder or an address: results are published.
"""

import os
import platform
import statistics
import time
from importlib.metadata import version
from pathlib import Path
from typing import Any

import psycopg

SHOWN_SETTINGS = (
    "fsync", "synchronous_commit", "full_page_writes", "wal_sync_method", "shared_buffers", "max_wal_size",
    "checkpoint_timeout", "autovacuum", "max_connections", "jit",
)  # fmt: skip
PACKAGES = ("django", "djangorestframework", "granian", "psycopg", "psycopg-binary", "django-q2")
BLOCK = 8192


def describe_machine(url: str, folder: Path | None, peers: dict[str, str]) -> dict[str, Any]:
    """Return everything a reader needs to judge the numbers."""
    with psycopg.connect(url) as db:
        [server] = db.execute("SHOW server_version").fetchone() or [""]
        settings = {name: db.execute(f"SHOW {name}").fetchone()[0] for name in SHOWN_SETTINGS}  # type: ignore[index]
    return {
        "cores": len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count(),
        "processor": read_processor(),
        "memory_gib": round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30),
        "system": f"{platform.system()} {platform.machine()}",
        "load_at_start": [round(one, 2) for one in os.getloadavg()],
        "fdatasync_us": time_fdatasync(folder) if folder else None,
        "postgresql": server.split()[0],
        "postgresql_settings": settings,
        "own_server": folder is not None,
        "python": platform.python_version(),
        "packages": {name: version(name) for name in PACKAGES} | peers,
    }


def read_processor() -> str:
    """Return the processor's name as the kernel tells it."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor() or "unknown"
    return next((line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")), "unknown")


def time_fdatasync(folder: Path, count: int = 500) -> float:
    """Return the median microseconds of writing one block in place and flushing it, as a commit does."""
    path = folder / "fdatasync-probe"
    handle = os.open(path, os.O_RDWR | os.O_CREAT)
    flush = getattr(os, "fdatasync", os.fsync)
    try:
        os.write(handle, bytes(BLOCK * 64))
        os.fsync(handle)
        samples = []
        for number in range(count):
            begun = time.perf_counter()
            os.pwrite(handle, bytes(BLOCK), BLOCK * (number % 64))
            flush(handle)
            samples.append(time.perf_counter() - begun)
    finally:
        os.close(handle)
        path.unlink()
    return round(statistics.median(samples) * 1e6, 1)
