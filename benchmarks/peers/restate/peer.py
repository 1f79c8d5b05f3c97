"""Restate's side of the benchmark: a service whose handler waits for an awakeable; runs in an environment of its own.

Told what to do line by line on stdin, answers with one line of JSON each: the awakeables of the handlers that wait,
and when the last of them went on. Restate itself runs beside it, and calls it at the port that is its argument.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
import time
from typing import Any

import restate
from hypercorn.asyncio import serve
from hypercorn.config import Config

waiter = restate.Service("Waiter")
#: Of the handlers that wait, by awakeable; a replay adds nothing.
waiting: dict[str, None] = {}
ended: list[float] = []


@waiter.handler()
async def wait(ctx: restate.Context, order: dict[str, Any]) -> int:
    """Wait for one awakeable, then end."""
    id, promise = ctx.awakeable()
    waiting[id] = None
    answer = await promise
    ended.append(time.time())
    return len(answer)


def obey(command: dict[str, Any]) -> Any:
    """What is asked on stdin."""
    if command["do"] == "forget":
        waiting.clear()
        ended.clear()
    return {"waiting": list(waiting) if command["do"] == "list" else len(waiting), "ended": len(ended),
            "last": max(ended, default=0.0)}  # fmt: skip


async def main(port: int) -> None:
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # whatever a library prints must not be taken for an answer
    config = Config()
    config.bind = [f"127.0.0.1:{port}"]
    config.h2_max_concurrent_streams = 2147483647
    server = asyncio.create_task(serve(restate.app(services=[waiter]), config))
    print(json.dumps("ready"), file=answers, flush=True)
    loop = asyncio.get_running_loop()
    while line := await loop.run_in_executor(None, sys.stdin.readline):
        print(json.dumps(obey(json.loads(line))), file=answers, flush=True)
    server.cancel()
    os._exit(0)


if __name__ == "__main__":
    asyncio.run(main(int(sys.argv[1])))
