"""`manage.py workflows schedules` and `schedule`: schedules from a shell.

Lives here: their arguments, and the text that they print. Must not live here: what becomes of a schedule
(`api.schedule_calls`). Invariant owned: of several schedules each is dealt with, and a command that was refused one of
them ends with a code other than 0.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from typing import Any

from django.core.management.base import BaseCommand, CommandError
from django.core.serializers.json import DjangoJSONEncoder
from django.db import router

from workflows.api.schedule_calls import (
    disable_schedule,
    enable_schedule,
    find_schedule,
    run_schedule,
    unschedule,
)
from workflows.definitions.workspace import DEFAULT_WORKSPACE
from workflows.exceptions import WorkflowError
from workflows.management.flow_tasks import add_workspace, end_with_refusals
from workflows.management.named_instance import check_workspace, find_actor
from workflows.management.terminal import find_width, lay_facts, lay_table, show_json, show_moment
from workflows.models import Schedule
from workflows.schedules.schedule_plan import list_shown_ticks
from workflows.values.schedule_options import show_catch_up

#: Ticks to come, and ticks of the past, of one schedule.
NEXT_TICKS, PAST_TICKS = 5, 10
#: Schedules that are listed.
LISTED = 100


class ScheduleTasks(BaseCommand):
    """The tasks about schedules."""

    def add_schedule_tasks(self, add: Callable[..., Any]) -> None:
        """One to list them, one for each of them."""
        task = add("schedules", self.list_schedules, "Schedules with their times, next and last ticks.")
        task.add_argument("--workflow", help="only those that start this workflow")
        task.add_argument("--limit", type=int, default=LISTED, help=f"how many to list ({LISTED})")
        task.add_argument("--json", action="store_true", help="for scripts")
        add_workspace(task)

        task = add("schedule", self.handle_schedules, "Show, run, enable, disable or remove schedules.")
        task.add_argument("action", choices=["show", *self._actions], metavar="ACTION", help=_HELP)
        task.add_argument("names", nargs="+", metavar="NAME")
        task.add_argument("--json", action="store_true", help="with show: for scripts")
        add_workspace(task)

    def list_schedules(self, options: dict[str, Any]) -> None:
        check_workspace(options["workspace"])
        rows = Schedule.objects.using(router.db_for_read(Schedule)).select_related("workspace").order_by("name")
        rows = rows.filter(workspace__slug=options["workspace"] or DEFAULT_WORKSPACE)
        if workflow := options["workflow"]:
            rows = rows.filter(workflow=workflow)
        listed, limit = list(rows[: max(options["limit"], 0) + 1]), max(options["limit"], 0)
        if options["json"]:
            self.stdout.write(_write([_describe(row) for row in listed[:limit]]))
            return
        if not listed:
            self.stdout.write("No schedules.")
            return
        head = ["schedule", "workflow", "times", "state", "due", "last tick", "error"]
        self._show(lay_table(head, (_list_cells(row) for row in listed[:limit]), find_width()))
        if len(listed) > limit:
            self.stdout.write(f"… there are more: --limit {2 * max(limit, LISTED)} lists more of them")

    def handle_schedules(self, options: dict[str, Any]) -> None:
        """One after the other, so that one refusal does not stop the rest."""
        check_workspace(options["workspace"])
        names, workspace, refused = list(dict.fromkeys(options["names"])), options["workspace"], 0
        if options["action"] == "show":
            with end_with_refusals():
                rows = [find_schedule(name, workspace=workspace) for name in names]
            self._show_whole(rows, as_json=options["json"])
            return
        for name in names:
            try:
                self.stdout.write(f"schedule {name} {self._actions[options['action']](name, workspace)}")
            except WorkflowError as error:
                refused += 1
                self.stderr.write(str(error))
        if refused:
            were = "was" if refused == 1 else "were"
            raise CommandError(f"{refused} of {len(names)} {were} refused; the reasons are above.")

    def _show_whole(self, rows: list[Schedule], *, as_json: bool) -> None:
        if as_json:
            self.stdout.write(_write([_describe(row) | {"ticks": _list_past(row)} for row in rows]))
            return
        for number, row in enumerate(rows):
            if number:
                self.stdout.write("")
            self._show(_lay_whole(row))

    def _show(self, lines: Iterable[str]) -> None:
        for line in lines:
            self.stdout.write(line)

    @property
    def _actions(self) -> dict[str, Callable[[str, str | None], str]]:
        return {"run": _run, "enable": _enable, "disable": _disable, "remove": _remove}


_HELP = (
    "show: the next and the last ticks; run: start an instance now, beside the ticks; enable, disable: switch the "
    "ticks on or off; remove: what it has started goes on"
)


def _run(name: str, workspace: str | None) -> str:
    return f"has started instance {run_schedule(name, workspace=workspace, actor=find_actor()).pk}"


def _enable(name: str, workspace: str | None) -> str:
    return f"is enabled; its next tick is at {show_moment(enable_schedule(name, workspace=workspace).next_at)}"


def _disable(name: str, workspace: str | None) -> str:
    disable_schedule(name, workspace=workspace)
    return "is disabled"


def _remove(name: str, workspace: str | None) -> str:
    unschedule(name, workspace=workspace)
    return "is removed"


def _list_cells(row: Schedule) -> list[object]:
    state = "enabled" if row.enabled else "disabled"
    moments = [show_moment(row.next_at), show_moment(row.last_at)]
    return [row.name, row.workflow, _show_times(row), state, *moments, row.error]


def _show_times(row: Schedule) -> str:
    return f"{row.cron} {row.tz}" if row.every is None else f"every {row.every}"


def _lay_whole(row: Schedule) -> list[str]:
    width = find_width()
    declared = None if row.declared is None else "in code, and changed since" if row.edited else "in code"
    facts = [
        ("schedule", row.name),
        ("workspace", row.workspace.slug),
        ("workflow", row.workflow),
        ("input", show_json(row.input)),
        ("times", _show_times(row)),
        ("overlap", row.overlap),
        ("catch up", show_catch_up(row.catch_up)),
        ("state", "enabled" if row.enabled else "disabled: its ticks are those that it would have"),
        ("declared", declared),
        ("error", row.error),
    ]
    ticks = [[show_moment(tick)] for tick in list_shown_ticks(row, NEXT_TICKS)]
    lines = [*lay_facts(facts, width), "", *lay_table(["next ticks"], ticks, width)]
    past = [[show_moment(one["at"]), one["outcome"], one["instance"]] for one in _list_past(row)]
    return [*lines, "", *lay_table(["last ticks", "outcome", "id"], past, width)] if past else lines


def _list_past(row: Schedule) -> list[dict[str, Any]]:
    return list(row.ticks.order_by("-at").values("at", "outcome", "instance")[:PAST_TICKS])


def _describe(row: Schedule) -> dict[str, Any]:
    """By the names of the API."""
    return {
        "name": row.name,
        "workspace": row.workspace.slug,
        "workflow": row.workflow,
        "input": row.input,
        "cron": row.cron,
        "every": None if row.every is None else row.every.total_seconds(),
        "tz": row.tz,
        "overlap": row.overlap,
        "catch_up": show_catch_up(row.catch_up),
        "enabled": row.enabled,
        "next_ticks": list_shown_ticks(row, NEXT_TICKS),
        "last_tick": row.last_at,
        "last_instance": row.last_instance,
        "error": row.error,
        "declared": row.declared is not None,
        "edited": row.edited,
        "created_at": row.created_at,
    }


def _write(value: Any) -> str:
    return json.dumps(value, indent=2, cls=DjangoJSONEncoder)
