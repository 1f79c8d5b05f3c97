"""A second look at the few tests that failed in a whole run: `python -m config.unsteady LOG`.

Lives here: running those tests again, each alone and twice. A test that fails again has found a defect, and the run
stays failed. A test that passes both times depended on the load of the machine: it is printed by name as unsteady, so
that somebody mends it, and does not stop a change that has nothing to do with it.
Invariant owned: only a run that came to its end is looked at, and only a handful of failures are forgiven.
"""

import json
import re
import subprocess
import sys
from pathlib import Path

FAILURES = Path(".pytest_cache/v/cache/lastfailed")
#: More failures than these are no accident.
MOST_UNSTEADY = 5
ROUNDS = 2

#: The last line of pytest, where it ran all the tests.
_END = re.compile(r"^=+ (\d+) failed, \d+ passed.* in [\d.]+s", re.MULTILINE)
#: What it prints where it was stopped before.
_STOPPED = re.compile(r"^!{5,} ", re.MULTILINE)


def main(log: Path) -> int:
    text = log.read_text(errors="replace")
    ended = [] if _STOPPED.search(text) else _END.findall(text)
    failed = sorted(json.loads(FAILURES.read_text())) if FAILURES.exists() else []
    if not ended or int(ended[-1]) != len(failed) or len(failed) > MOST_UNSTEADY:
        print(f"{len(failed)} failed tests are not run again: that is for up to {MOST_UNSTEADY} of a whole run")
        return 1
    for test in failed:
        for _ in range(ROUNDS):
            command = [sys.executable, "-m", "pytest", "-q", "-n", "0", "-p", "no:cacheprovider", test]
            if subprocess.run(command, check=False).returncode != 0:
                print(f"{test} fails alone too")
                return 1
    for test in failed:
        print(f"UNSTEADY: {test} failed beside others and passed alone {ROUNDS} times; mend it")
    return 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
