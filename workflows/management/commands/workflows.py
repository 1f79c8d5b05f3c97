"""`manage.py workflows`: what an operator does from a shell: look, retry, redrive, cancel, prune, and check a deploy.

What lives here: reading arguments and wording answers. What must not: SQL, or anything the api could not do.
Invariant owned: a command that could not do all it was asked for ends with a code other than 0 and says what is left.
"""

from __future__ import annotations

import json
from argparse import ArgumentTypeError
from collections.abc import Callable, Iterable
from typing import Any
from uuid import UUID

from django.core.management.base import CommandError, CommandParser
from django.core.serializers.json import DjangoJSONEncoder
from django.db import connections, router
from django.db.models import Count, Min

from workflows import store
from workflows.api import instances
from workflows.api.lineage.forking import fork
from workflows.api.redrive import list_unsent, redrive
from workflows.conf import conf
from workflows.definitions.outcomes import UNSET
from workflows.definitions.workspace import DEFAULT_WORKSPACE
from workflows.exceptions import NO_WORKER, InvalidDuration, WorkflowError
from workflows.lifecycle import Status
from workflows.management.flow_tasks import FlowTasks
from workflows.management.instance_story import tell_instance, tell_record
from workflows.management.named_instance import check_workspace, find_actor, find_target
from workflows.management.schedule_tasks import ScheduleTasks
from workflows.management.terminal import clean, find_width, lay_table, show_count, show_moment
from workflows.models import Instance
from workflows.operations import stuck as deploys
from workflows.store.ledger.retention import BATCH, Pruned, prune
from workflows.store.outside.parked_records import prune_parked
from workflows.values.durations import parse_timeout

#: Plain texts: the parser's refusal shows them as they are written.
STATUS_WORDS = [*(status.value for status in Status), "live", "ended"]


class Command(FlowTasks, ScheduleTasks):
    help = (
        "Lists, shows, retries, forks and cancels instances; sends questions again; prunes ended ones; tells which a "
        "deploy has left stuck; pauses and limits what runs; looks after schedules."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        """One subcommand per task."""
        tasks = parser.add_subparsers(dest="task", required=True, metavar="TASK")

        def add(name: str, run: Callable[..., None], help: str) -> Any:
            task = tasks.add_parser(name, help=help, description=help)
            task.set_defaults(run=run)
            return task

        def add_workspace(task: Any) -> None:
            task.add_argument("--workspace", metavar="SLUG", help=f"where a key is looked up ({DEFAULT_WORKSPACE})")

        task = add("list", self.list_instances, "Counts by workflow, version and status; then the newest instances.")
        task.add_argument("--workflow", help="only of this workflow")
        task.add_argument("--status", choices=STATUS_WORDS, metavar="STATUS", help=", ".join(STATUS_WORDS))
        task.add_argument("--workspace", help="only of the workspace with this slug")
        task.add_argument(
            "--limit", type=_read_count, default=20, help="how many instances to list (20); 0: only the counts"
        )

        task = add("show", self.show_instance, "One instance: its row, waits, inbox, children and history.")
        task.add_argument("target", metavar="ID|KEY", help="an instance's id, or the key it was started with")
        task.add_argument("--rows", type=_read_count, default=200, help="the last so many of each table (200)")
        how = task.add_mutually_exclusive_group()
        how.add_argument("--full", action="store_true", help="cut nothing, however wide the lines become")
        how.add_argument("--json", action="store_true", help="for scripts; nothing is cut either")
        add_workspace(task)

        task = add("retry", self.retry_instances, "Run failed instances again from the step they failed in.")
        task.add_argument("targets", nargs="+", metavar="ID|KEY")
        add_workspace(task)

        task = add("fork", self.fork_instance, "Start an instance from a point in the life of another one.")
        task.add_argument("target", metavar="ID|KEY", help="the instance to go on from, which is not touched")
        task.add_argument("--at", metavar="POINT", help="a call's id, a step or a stage; without it from the beginning")
        task.add_argument("--input", metavar="JSON", type=_read_json, default=UNSET, help="another input")
        task.add_argument("--state", metavar="JSON", type=_read_json, default=UNSET, help="another state")
        task.add_argument("--key", help="a correlation key for the new instance")
        add_workspace(task)

        task = add("redrive", self.redrive, "Send questions again that could not be sent: some by id, or all that fit.")
        task.add_argument("targets", nargs="*", metavar="ID|SIGNAL-ID", help="questions by id, or by signal id")
        task.add_argument("--unit", metavar="ID", type=_read_uuid, help="only of this unit")
        task.add_argument("--workflow", help="only of this workflow")
        task.add_argument("--channel", help='only of this channel, such as "webhook"')
        task.add_argument("--since", metavar="2h", help="only what failed so recently")
        task.add_argument("--reason", metavar="TEXT", help="only where why it failed has this text in it")
        task.add_argument("--all", action="store_true", help="all that could not be sent")
        task.add_argument("--dry-run", action="store_true", help="count only")
        add_workspace(task)

        task = add("cancel", self.cancel_instances, "Cancel instances, each with all its children.")
        task.add_argument("targets", nargs="+", metavar="ID|KEY")
        add_workspace(task)
        task.add_argument("--reason", default="", help="kept with the instance and in its history")

        self.add_flow_tasks(add)
        self.add_schedule_tasks(add)

        task = add(
            "stuck",
            self.check_deploy,
            "Live instances that this code cannot take further; exit code 1 if there are any.",
        )
        task.add_argument("--json", action="store_true", help="for scripts")

        task = add("prune", self.prune_ended, "Delete instances that ended long ago, with all that belongs to them.")
        task.add_argument("--older-than", metavar="90d", help='instead of WORKFLOWS["RETENTION"]')
        task.add_argument("--batch", type=_read_count, default=BATCH, help=f"instances per transaction ({BATCH})")
        task.add_argument("--dry-run", action="store_true", help="count only")

    def handle(self, *args: Any, run: Callable[..., None], **options: Any) -> None:
        """Do the task."""
        run(options)

    def list_instances(self, options: dict[str, Any]) -> None:
        rows, width = _filter(options), find_width()
        groups = rows.order_by("workflow", "version", "status").values("workflow", "version", "status")
        counts = groups.annotate(instances=Count("*"), oldest=Min("created_at"))
        table = [
            [one["workflow"], one["version"], one["status"], one["instances"], show_moment(one["oldest"])]
            for one in counts
        ]
        if not table:
            self.stdout.write("No instances.")
            return
        self._print(lay_table(["workflow", "version", "status", "instances", "oldest"], table, width))
        newest = rows.order_by("-id")[: options["limit"]].only(*_LISTED)
        if newest:
            self.stdout.write("")
            head = ["id", "workflow", "status", "step", "key", *(["due"] if width >= 104 else [])]
            self._print(lay_table(head, (_list_cells(one)[: len(head)] for one in newest), width))
        self._tell_of_workers(any(Status(one["status"]).live for one in counts))

    def _tell_of_workers(self, live: bool) -> None:
        """What is live goes no further while no worker shows a sign of life."""
        if live and not store.list_alive(connections[router.db_for_write(Instance)]):
            self.stderr.write(NO_WORKER)

    def show_instance(self, options: dict[str, Any]) -> None:
        check_workspace(options["workspace"])
        instance = find_target(options["target"], options["workspace"])
        if options["json"]:
            record = tell_record(instance, rows=options["rows"])
            self.stdout.write(json.dumps(record, indent=2, cls=DjangoJSONEncoder))
            return
        self._print(tell_instance(instance, width=find_width(), rows=options["rows"], whole=options["full"]))
        self._tell_of_workers(not instance.ended)

    def retry_instances(self, options: dict[str, Any]) -> None:
        def work(instance: Instance) -> str:
            again = instances.retry(instance, actor=find_actor())
            return f"is {again.status} in step {again.step!r}"

        self._do_each(options, work, "retried")

    def fork_instance(self, options: dict[str, Any]) -> None:
        check_workspace(options["workspace"])
        first = find_target(options["target"], options["workspace"])
        try:
            forked = fork(
                first,
                at=options["at"],
                input=options["input"],
                state=options["state"],
                key=options["key"],
                actor=find_actor(),
            )
        except WorkflowError as error:
            raise CommandError(str(error)) from error
        self.stdout.write(f"{forked.pk} is {forked.status} in step {forked.step!r}, forked from {first.pk}")

    def cancel_instances(self, options: dict[str, Any]) -> None:
        def work(instance: Instance) -> str:
            return f"is {instances.cancel(instance, options['reason'], actor=find_actor()).status}"

        self._do_each(options, work, "cancelled", ended=False)

    def redrive(self, options: dict[str, Any]) -> None:
        check_workspace(options["workspace"])
        names = ("unit", "workflow", "channel", "since", "reason")
        wanted = {name: options[name] for name in names if options[name] is not None}
        if options["targets"]:
            if wanted or options["all"] or options["dry_run"]:
                raise CommandError("Name questions, or what many have in common: not both.")
            self._redrive_each(options["targets"], options["workspace"])
            return
        if not wanted and not options["all"]:
            raise CommandError(
                "Which? Name questions, or give --workflow, --channel, --since, --reason, --unit or --all."
            )
        try:
            if options["dry_run"]:
                many = list_unsent(**wanted, workspace=options["workspace"]).count()
            else:
                many = len(redrive(**wanted, workspace=options["workspace"], actor=find_actor()))
        except InvalidDuration as error:
            raise CommandError(str(error)) from error
        done = "could not be sent" if options["dry_run"] else "will be sent again"
        self.stdout.write(f"{show_count(many, 'question')} {done}.")

    def _redrive_each(self, targets: list[str], workspace: str | None) -> None:
        refused = 0
        for given in dict.fromkeys(targets):
            try:
                [id] = redrive(_as_uuid(given) or given, workspace=workspace, actor=find_actor())
                self.stdout.write(f"{id} will be sent again")
            except WorkflowError as error:
                refused += 1
                self.stderr.write(str(error))
        if refused:
            were = "was" if refused == 1 else "were"
            raise CommandError(f"{refused} of {len(targets)} {were} not sent again; the reasons are above.")

    def check_deploy(self, options: dict[str, Any]) -> None:
        found = deploys.find_stuck(router.db_for_read(Instance))
        stranded = deploys.find_stranded(router.db_for_write(Instance))
        stuck = sum(one.count for one in found if one.blocks)
        if options["json"]:
            self.stdout.write(json.dumps(_tell_json(found, stranded, stuck), indent=2, cls=DjangoJSONEncoder))
        else:
            for one in found:
                self.stdout.write((self.style.ERROR if one.blocks else self.style.WARNING)(f"{one}."))
                self.stdout.write(f"  since {show_moment(one.oldest)}, such as {', '.join(map(str, one.examples))}")
                self.stdout.write(f"  {one.advice}")
            for queue in stranded:
                self.stdout.write(self.style.WARNING(f"{queue}."))
                self.stdout.write(f"  since {show_moment(queue.oldest)}")
                self.stdout.write(f"  {queue.advice}")
        if stuck:
            raise CommandError(f"{show_count(stuck, 'live instance')} cannot go on with this code.", returncode=1)
        if not options["json"]:
            self.stdout.write("Nothing is stuck: this code knows the step of every live instance.")

    def prune_ended(self, options: dict[str, Any]) -> None:
        seconds, dry = _read_age(options["older_than"]), options["dry_run"]
        db = connections[router.db_for_write(Instance)]
        total = Pruned()
        for one in prune(db, older_than=seconds, batch=max(options["batch"], 1), dry_run=dry, actor=find_actor()):
            total += one
            if options["verbosity"] > 1 or (options["verbosity"] and self.stdout.isatty()):
                self.stdout.write(f"… {total.instances}")
        done = "Would delete" if dry else "Deleted"
        stay = "1 stays: part of it" if total.kept == 1 else f"{total.kept} stay: part of them"
        kept = f" {stay} has not ended, ended later, or is in use." if total.kept else ""
        gone = f"{show_count(total.instances, 'instance')} in {show_count(total.trees, 'tree')}"
        parked = prune_parked(db, older_than=seconds, dry_run=dry)
        also = f" and {show_count(parked, 'parked answer')}" if parked else ""
        self.stdout.write(f"{done} {gone}{also}.{kept}")

    def _do_each(
        self, options: dict[str, Any], work: Callable[[Instance], str], done: str, *, ended: bool = True
    ) -> None:
        """One after the other, so that one refusal does not stop the rest."""
        check_workspace(options["workspace"])
        targets, seen, refused = list(dict.fromkeys(options["targets"])), set(), 0
        for given in targets:
            try:
                instance = find_target(given, options["workspace"], ended=ended)
                if instance.pk in seen:
                    continue  # once by its id and once by its key
                seen.add(instance.pk)
                known = f" (key {clean(instance.key)})" if given == instance.key else ""
                self.stdout.write(f"{instance.pk}{known} {work(instance)}")
            except (WorkflowError, CommandError) as error:
                refused += 1
                self.stderr.write(str(error))
        if refused:
            were = "was" if refused == 1 else "were"
            raise CommandError(f"{refused} of {len(targets)} {were} not {done}; the reasons are above.")

    def _print(self, lines: Iterable[str]) -> None:
        for line in lines:
            self.stdout.write(line)


_LISTED = ("id", "workflow", "version", "status", "step", "key", "due_at")


def _list_cells(one: Instance) -> list[object]:
    return [one.pk, f"{one.workflow} v{one.version}", one.status, one.step, one.key, show_moment(one.due_at)]


def _filter(options: dict[str, Any]) -> Any:
    rows = Instance.objects.using(router.db_for_read(Instance)).all()
    if workflow := options["workflow"]:
        rows = rows.filter(workflow=workflow)
    if status := options["status"]:
        rows = {"live": rows.live, "ended": rows.ended}.get(status, lambda: rows.filter(status=status))()
    if slug := options["workspace"]:
        check_workspace(slug)
        rows = rows.filter(workspace__slug=slug)
    return rows


def _tell_json(found: list[deploys.Stuck], stranded: list[deploys.StrandedQueue], stuck: int) -> dict[str, Any]:
    groups = [
        {
            "problem": one.problem,
            "stuck": one.blocks,
            "workflow": one.workflow,
            "version": one.version,
            "step": one.step,
            "count": one.count,
            "oldest": one.oldest,
            "examples": one.examples,
            "advice": one.advice,
        }
        for one in found
    ]
    queues = [{"queue": one.queue, "count": one.count, "oldest": one.oldest, "advice": one.advice} for one in stranded]
    changed = sum(one.count for one in found if not one.blocks)
    return {"stuck": stuck, "changed": changed, "groups": groups, "unserved": queues}


def _read_json(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError as error:
        raise ArgumentTypeError(f"no JSON: {error}") from error


def _read_age(given: str | None) -> float:
    try:
        seconds = conf.retention if given is None else parse_timeout(float(given) if given.isdigit() else given)
    except InvalidDuration as error:
        raise CommandError(str(error)) from error
    if seconds is None:
        raise CommandError(
            'Nothing says how long ended instances are kept: set WORKFLOWS["RETENTION"], such as "90d", or pass '
            "--older-than 90d."
        )
    return seconds


def _as_uuid(text: str) -> UUID | None:
    try:
        return UUID(text)
    except ValueError:
        return None


def _read_uuid(text: str) -> UUID:
    found = _as_uuid(text)
    if found is None:
        raise ArgumentTypeError(f"{text!r} is no id")
    return found


def _read_count(text: str) -> int:
    if not text.isdecimal():
        raise ArgumentTypeError(f"{text!r} is no whole number")
    return int(text)
