"""A process that starts instances one by one, as a web process would: `python -m benchmarks.contenders.starter`.

With threads, each of them starts one after the other; they and their connections stay for the next command.
"""

from __future__ import annotations

import json
import sys
from concurrent.futures import ThreadPoolExecutor


def main() -> None:
    import django

    django.setup()
    import workflows
    from benchmarks import workload
    from benchmarks.site.workflows import Noop

    def start(count: int) -> None:
        for _ in range(count):
            workflows.start(Noop, workload.INPUT)

    start(6)  # plans and caches are warm afterwards
    print(json.dumps("ready"), flush=True)
    with ThreadPoolExecutor(max_workers=64) as pool:
        for line in sys.stdin:
            command = json.loads(line)
            each, more = divmod(command["count"], threads := command["threads"])
            if threads == 1:
                start(each)
            else:
                list(pool.map(start, [each + (n < more) for n in range(threads)]))
            print(json.dumps("done"), flush=True)


if __name__ == "__main__":
    main()
