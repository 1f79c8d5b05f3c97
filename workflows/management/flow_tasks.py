"""`manage.py workflows queues`, `pause`, `unpause` and `limit`: flow control from a shell.

Lives here: their arguments, and the text that they print. Must not live here: what may be set (`api.flow_control`).
Invariant owned: what a call refuses ends the command with that sentence and a code other than 0.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from django.core.management.base import BaseCommand, CommandError
from django.db import router, transaction

from workflows.api import flow_control
from workflows.exceptions import UNSERVED, WorkflowError
from workflows.management.named_instance import check_workspace, find_actor
from workflows.management.terminal import find_width, lay_table
from workflows.models import Instance
from workflows.store import MOST_COUNTED, Tokens

#: Digits; what has more is no limit, and Python reads none of thousands.
LONGEST_NUMBER = 10
#: Gives a number back to the code.
CODE = "code"


class FlowTasks(BaseCommand):
    """The tasks about what may run, and how much of it."""

    def add_flow_tasks(self, add: Callable[..., Any]) -> None:
        """One subcommand per task."""
        task = add("queues", self.list_flow, "Queues with what runs and waits; limits; paused workflows.")
        add_workspace(task)
        for name, run, help in (
            ("pause", self.pause, "Begin nothing of workflows or queues, until they are unpaused."),
            ("unpause", self.unpause, "Let paused workflows or queues go on."),
        ):
            task = add(name, run, help)
            task.add_argument("workflows", nargs="*", metavar="WORKFLOW")
            task.add_argument("--queue", action="append", default=[], metavar="NAME", help="a queue; may be repeated")
            add_workspace(task)

        task = add(
            "limit", self.set_limit, "Set another number in the place of the code's, or give it back to the code."
        )
        what = task.add_mutually_exclusive_group(required=True)
        what.add_argument("--queue", metavar="NAME", help="a queue: how many steps at once, or how many may begin")
        what.add_argument("--concurrency", metavar="KEY", help="a key such as tenant:7, or all of tenant:{tenant}")
        what.add_argument("--rate", metavar="NAME", help="a rate, for all workflows that share it")
        task.add_argument("value", metavar="VALUE", help=f"10, 100/m, 5/30s, or {CODE}: as the code has it")
        add_workspace(task)

    def list_flow(self, options: dict[str, Any]) -> None:
        width, where = find_width(), {"workspace": options["workspace"]}
        with end_with_refusals():
            check_workspace(options["workspace"])
            queues = flow_control.list_queues(**where)
            limits, paused = flow_control.list_limits(**where), flow_control.list_paused(**where)
        rows = [
            [
                one.name,
                "paused" if one.paused else "unserved" if one.is_stranded else "open",
                one.running,
                f"{one.waiting}{'+' if one.waiting == MOST_COUNTED else ''}",
                _show_limit(one.limit, one.default_limit),
                _show_rate(one.rate, one.default_rate),
            ]
            for one in queues
        ]
        self._print_lines(lay_table(["queue", "state", "running", "waiting", "limit", "rate"], rows, width))
        for one in queues:
            if one.is_stranded:
                self.stderr.write(f"Nobody serves queue {one.name}: {UNSERVED.format(queue=one.name)}")
        if limits:
            shown = [
                [
                    one.kind,
                    one.name,
                    _show_limit(one.limit, one.default_limit) or _show_rate(one.rate, one.default_rate),
                ]
                for one in limits
            ]
            self._print_lines(["", *lay_table(["kind", "name", "value"], shown, width)])
        for limit in limits:
            if limit.is_outgrown:
                self.stderr.write(
                    f"A run takes {limit.weight} of rate {limit.name}, more than its burst: so many may be taken at "
                    f"once, and a run waits until they have come in. Set a burst of {limit.weight} at least."
                )
        if paused:
            self._print_lines(["", *lay_table(["paused workflow"], [[name] for name in paused], width)])

    def pause(self, options: dict[str, Any]) -> None:
        self._pause_each(options, flow_control.pause, "is paused")

    def unpause(self, options: dict[str, Any]) -> None:
        self._pause_each(options, flow_control.unpause, "goes on")

    def _pause_each(self, options: dict[str, Any], call: Callable[..., None], done: str) -> None:
        """All of them or none: what is misspelt shall not leave half of them paused."""
        if not options["workflows"] and not options["queue"]:
            raise CommandError("Which? Name workflows, or queues with --queue NAME.")
        where, lines = {"workspace": options["workspace"], "actor": find_actor()}, []
        with end_with_refusals(), transaction.atomic(using=router.db_for_write(Instance)):
            check_workspace(options["workspace"])
            for name in options["workflows"]:
                call(name, **where)
                lines.append(f"workflow {name} {done}")
            for name in options["queue"]:
                call(queue=name, **where)
                lines.append(f"queue {name} {done}")
        self._print_lines(lines)

    def set_limit(self, options: dict[str, Any]) -> None:
        value: Any = options["value"]
        number = None if value == CODE else int(value) if value.isdecimal() and len(value) < LONGEST_NUMBER else value
        where = {"workspace": options["workspace"], "actor": find_actor()}
        with end_with_refusals():
            check_workspace(options["workspace"])
            if (queue := options["queue"]) is not None:
                names = ("limit", "rate") if number is None else ("limit",) if isinstance(number, int) else ("rate",)
                status = flow_control.change_queue(queue, **dict.fromkeys(names, number), **where)
                limit, rate = _show_limit(status.limit, None), _show_rate(status.rate, None)
                self.stdout.write(f"queue {queue}: limit {limit or 'none'}, rate {rate or 'none'}")
                return
            kind: Any = "rate" if options["concurrency"] is None else "concurrency"
            found = flow_control.change_limit(kind, options[kind], number, **where)
        shown = _show_limit(found.limit, found.default_limit) or _show_rate(found.rate, found.default_rate)
        self.stdout.write(f"{kind} {options[kind]}: {shown}")

    def _print_lines(self, lines: list[str]) -> None:
        for line in lines:
            self.stdout.write(line)


def add_workspace(task: Any) -> None:
    """The option that every task of a workspace has."""
    task.add_argument("--workspace", metavar="SLUG", help="of the workspace with this slug")


@contextmanager
def end_with_refusals() -> Iterator[None]:
    """What a call refuses ends the command in the call's words."""
    try:
        yield
    except WorkflowError as refusal:
        raise CommandError(str(refusal)) from refusal


def _show_limit(limit: int | None, default: int | None) -> str:
    """What holds, and what the code says where that is something else."""
    if limit is None:
        return ""
    return str(limit) if default in (None, limit) else f"{limit} (code: {default})"


def _show_rate(rate: Tokens | None, default: Tokens | None) -> str:
    if rate is None:
        return ""
    more = f", {rate.burst} at once" if rate.burst != rate.count else ""
    text = f"{flow_control.write_rate(rate)}{more}"
    return text if default in (None, rate) else f"{text} (code: {_show_rate(default, None)})"
