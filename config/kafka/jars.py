"""Finds Java, and the broker's programs; fetches those with Maven.

What lives here: what has to be on the machine, and how to say that it is missing. What must not: anything that starts
a broker (`broker`). Invariants: a folder of programs is complete or absent, because it is filled beside its place and
published by a rename; it is named for the `pom.xml` that it was filled by, so that another version gets another folder.
"""

import fcntl
import hashlib
import os
import re
import shutil
import subprocess
from pathlib import Path

from config.lifeline import tie_to_parent

POM = Path(__file__).with_name("pom.xml")
ROOT = Path(__file__).resolve().parent.parent.parent
STORE = ROOT / "var" / "kafka"
JAVA_NEEDED = 17
FETCH_SECONDS = 300  # of one attempt; what has arrived by then is in Maven's own store, and the next goes on from there


class KafkaError(RuntimeError):
    """The broker cannot be fetched, started or stopped; the message says what to do."""


def find_java() -> str:
    """Return the command that runs Java, new enough for the broker."""
    home = os.environ.get("JAVA_HOME")
    command = str(Path(home, "bin", "java")) if home else "java"
    advice = "On Debian or Ubuntu: apt install default-jre-headless. JAVA_HOME names another one."
    try:
        answer = subprocess.run([command, "-version"], capture_output=True, text=True, check=False).stderr
    except OSError:
        raise KafkaError(f"Kafka needs Java {JAVA_NEEDED} or newer, and there is no {command}. {advice}") from None
    version = re.search(r'version "(\d+)', answer)
    if version is None or int(version[1]) < JAVA_NEEDED:
        first = answer.strip().partition("\n")[0] or "nothing"
        raise KafkaError(f"Kafka needs Java {JAVA_NEEDED} or newer, and {command} says: {first}. {advice}")
    return command


def find_jars(store: Path = STORE) -> Path:
    """Return the folder with the broker's programs, which were fetched before."""
    folder = locate_jars(store)
    if not folder.exists():
        # Without the folders above: the benchmark keeps the text, and they are nobody else's.
        place = folder.relative_to(ROOT) if folder.is_relative_to(ROOT) else folder.name
        raise KafkaError(f"The broker's programs are not in {place} yet: run `make kafka` once, which fetches them.")
    return folder


def fetch_jars(store: Path = STORE, *, seconds: float = FETCH_SECONDS) -> Path:
    """Return that folder, filled by Maven if need be. Whoever comes second waits for the first."""
    folder = locate_jars(store)
    store.mkdir(parents=True, exist_ok=True)
    with (store / "fetch.lock").open("a") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not folder.exists():
            scratch = folder.with_name(f"{folder.name}.new")
            shutil.rmtree(scratch, ignore_errors=True)
            run_maven(scratch, seconds)
            scratch.rename(folder)
    return folder


def locate_jars(store: Path) -> Path:
    return store / f"jars-{hashlib.sha256(POM.read_bytes()).hexdigest()[:12]}"


def run_maven(folder: Path, seconds: float) -> None:
    """Let Maven copy the broker and all that it needs into a folder."""
    command = ["mvn", "--batch-mode", "--quiet", "--file", str(POM), "dependency:copy-dependencies"]
    command += ["-DincludeScope=runtime", f"-DoutputDirectory={folder}"]
    try:
        done = subprocess.run(
            command,
            capture_output=True,
            text=True,
            check=False,
            timeout=seconds,
            preexec_fn=tie_to_parent(9, os.getpid()),
        )
    except FileNotFoundError:
        raise KafkaError(
            "Maven fetches the broker, and there is no mvn. On Debian or Ubuntu: apt install maven."
        ) from None
    except subprocess.TimeoutExpired:
        raise KafkaError(
            f"Maven had not fetched the broker after {seconds:g} s. What has arrived is kept: run it again."
        ) from None
    if done.returncode or not any(folder.glob("kafka_*.jar")):
        raise KafkaError(f"Maven could not fetch the broker. It said:\n{(done.stdout + done.stderr).strip()[-2000:]}")
