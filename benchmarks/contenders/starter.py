"""A process that starts instances one by one, as a web process would: `python -m benchmarks.contenders.starter`."""

from __future__ import annotations

import json
import sys


def main() -> None:
    import django

    django.setup()
    import workflows
    from benchmarks import workload
    from benchmarks.site.workflows import Noop

    for _ in range(6):  # plans and caches are warm afterwards
        workflows.start(Noop, workload.INPUT)
    print(json.dumps("ready"), flush=True)
    for line in sys.stdin:
        for _ in range(json.loads(line)["count"]):
            workflows.start(Noop, workload.INPUT)
        print(json.dumps("done"), flush=True)


if __name__ == "__main__":
    main()
