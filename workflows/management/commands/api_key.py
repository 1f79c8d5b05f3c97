"""`manage.py api_key`: make, list, revoke and replace the keys that callers of the API carry.

Invariant owned: a key that was made is the only line on stdout, everything said about it goes to stderr, so that
`KEY=$(manage.py api_key create ci)` works; no message repeats a whole key that was passed as an argument.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterable, Sequence
from datetime import datetime, timedelta
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser
from django.db import router, transaction
from django.utils import timezone

from workflows.access.api_keys import PREFIX, SCOPES, SHOWN, UNSAID, create_key, hash_key, revoke_key, rotate_key
from workflows.definitions import registry
from workflows.definitions.workspace import DEFAULT_WORKSPACE, workspace
from workflows.exceptions import InvalidCall
from workflows.management.named_instance import check_workspace, find_actor
from workflows.management.terminal import clean, find_width, lay_table, show_moment
from workflows.models import ApiKey, Workspace
from workflows.values.durations import parse_timeout

#: Keys, or workflows, that an error lists.
NAMED = 10
#: Columns that a narrow terminal does without, the first first.
SPARE = ("created", "last used", "workflows", "scopes")


class Command(BaseCommand):
    """One subcommand per task."""

    help = "Makes, lists, revokes and replaces API keys."

    def add_arguments(self, parser: CommandParser) -> None:
        """The same words as in `create_key`."""
        tasks = parser.add_subparsers(dest="task", required=True, metavar="TASK")

        def add(name: str, run: Callable[..., None], help: str) -> Any:
            task = tasks.add_parser(name, help=help, description=help)
            task.set_defaults(run=run)
            return task

        task = add("create", self.create, "Make a key and print it, this once, alone on stdout.")
        task.add_argument("name", metavar="NAME", help="whom it is for; names may repeat")
        task.add_argument(
            "--workspace", metavar="SLUG", default=DEFAULT_WORKSPACE, help="made if it is missing (default)"
        )
        task.add_argument(
            "--scope", action="append", metavar="SCOPE", help=f"{', '.join(SCOPES)}; may be repeated (all of them)"
        )
        task.add_argument(
            "--workflow", action="append", metavar="NAME", help="only this workflow; may be repeated (all of them)"
        )
        task.add_argument("--expires", metavar="90d", help="how long it lives (for ever)")
        task.add_argument("--rate", metavar="600/m", default="", help='calls per s, m, h or d (the site\'s "API_RATE")')

        task = add("list", self.list, "The keys that open something, the newest first.")
        task.add_argument("--workspace", metavar="SLUG", help="only of this workspace")
        task.add_argument("--all", action="store_true", help="also revoked and expired ones")

        task = add("revoke", self.revoke, "End keys for good, within seconds.")
        task.add_argument("keys", nargs="+", metavar="ID|PREFIX", help="an id, or how the key begins")

        task = add("rotate", self.rotate, "Print a new key that may do the same; the old one ends after the grace.")
        task.add_argument("key", metavar="ID|PREFIX", help="an id, or how the key begins")
        task.add_argument("--grace", metavar="24h", default="24h", help="how long the old one still works (24h)")
        task.add_argument(
            "--expires", metavar="90d|never", help="how long the new one lives; asked for where it matters"
        )

    def handle(self, *args: Any, run: Callable[..., None], **options: Any) -> None:
        """Do the task; what the engine refuses is an error of the command."""
        try:
            run(options)
        except InvalidCall as error:
            raise CommandError(str(error)) from error

    def create(self, options: dict[str, Any]) -> None:
        check_workflows_here(options["workflow"])
        known = set(Workspace.objects.values_list("slug", flat=True))
        with transaction.atomic(using=router.db_for_write(ApiKey)):  # a refused key leaves no workspace behind
            row, key = create_key(
                options["name"],
                workspace=workspace.create(options["workspace"]),
                scopes=options["scope"] or SCOPES,
                workflows=options["workflow"],
                expires_at=read_expiry(options["expires"]),
                rate=options["rate"],
                actor=find_actor(),
            )
        if options["workspace"] not in known:
            self.stderr.write(
                f"The workspace {options['workspace']!r} was made, beside {', '.join(sorted(known))}. From now on "
                "whoever logs in has to be a member of a workspace: in the admin, under Workspaces."
            )
        self.stderr.write(
            f"Key {row.pk} {describe(row)}: {', '.join(row.scopes)}{tell_end(row)}. It is shown this once."
        )
        self.stdout.write(key)

    def list(self, options: dict[str, Any]) -> None:
        check_workspace(options["workspace"])
        now = timezone.now()
        rows = ApiKey.objects.select_related("workspace").order_by("-id")
        if options["workspace"]:
            rows = rows.filter(workspace__slug=options["workspace"])
        found = [row for row in rows if options["all"] or row.is_usable(now)]
        if not found:
            hidden = "" if options["all"] else "; --all shows revoked and expired ones"
            self.stdout.write(f"No keys{hidden}. `api_key create NAME` makes one.")
            return
        for line in lay_keys(found, find_width()):
            self.stdout.write(line)

    def revoke(self, options: dict[str, Any]) -> None:
        targets, refused = list(dict.fromkeys(options["keys"])), 0
        for given in targets:
            try:
                row = find_key(given)
            except CommandError as error:
                refused += 1
                self.stderr.write(str(error))
                continue
            did = "is revoked" if revoke_key(row) else f"was revoked already, at {show_moment(row.revoked_at)}"
            self.stdout.write(f"Key {row.pk} {describe(row)} {did}.")
        if refused:
            were = "was" if refused == 1 else "were"
            raise CommandError(f"{refused} of {len(targets)} {were} not revoked; the reasons are above.")

    def rotate(self, options: dict[str, Any]) -> None:
        old = find_key(options["key"])
        if options["expires"] is None and old.expires_at is not None and old.is_usable():
            raise CommandError(
                f"Key {old.pk} {describe(old)} ends at {show_moment(old.expires_at)}: say how long the new one is to "
                "live, with --expires 90d or --expires never."
            )
        expires_at = UNSAID if options["expires"] is None else read_expiry(options["expires"])
        row, key = rotate_key(old, grace=options["grace"], expires_at=expires_at, actor=find_actor())
        self.show_once(
            f"Key {row.pk} {describe(row)}{tell_end(row)} replaces key {old.pk} ({old.prefix}…), which works until "
            f"{show_moment(old.expires_at)}.",
            key,
        )

    def show_once(self, about: str, key: str) -> None:
        """The key on stdout; what is said about it beside it."""
        self.stderr.write(f"{about} It is shown this once:", self.style.SUCCESS)
        self.stdout.write(key)


def lay_keys(rows: Sequence[ApiKey], width: int) -> list[str]:
    """A table that leaves whole what a key is known by, and the day of its end."""
    for spared in range(len(SPARE) + 1):
        head = [name for name in COLUMNS if name not in SPARE[:spared]]
        lines = lay_table(head, ([COLUMNS[name](row) for name in head] for row in rows), width)
        if all(
            row.prefix in line and show_minute(row.expires_at)[:10] in line
            for row, line in zip(rows, lines[1:], strict=True)
        ):
            break
    return lines


def describe(row: ApiKey) -> str:
    """A key in a message."""
    place = "" if row.workspace.slug == DEFAULT_WORKSPACE else f" of workspace {row.workspace.slug}"
    return f"{clean(row.name)} ({row.prefix}…){place}"


def tell_end(row: ApiKey) -> str:
    """When it ends, if ever."""
    return "" if row.expires_at is None else f", until {show_moment(row.expires_at)}"


def read_expiry(given: str | None) -> datetime | None:
    """A moment so far ahead; None for never."""
    if given is None or given == "never":
        return None
    return timezone.now() + timedelta(seconds=parse_timeout(given))


def check_workflows_here(names: Iterable[str] | None) -> None:
    """Refuse a misspelt workflow: the key would open nothing, and nobody would see why."""
    known = sorted({definition.name for definition in registry.list_definitions()})
    for name in names or ():
        if name not in known:
            near = difflib.get_close_matches(name, known, n=1)
            listed = ", ".join(known[:NAMED]) + (f" and {len(known) - NAMED} more" if len(known) > NAMED else "")
            hint = f"did you mean {near[0]}?" if near else f"there are {listed}." if known else "there is none."
            raise CommandError(f"There is no workflow {clean(name)!r}; {hint}")


def find_key(given: str) -> ApiKey:
    """By id, by the beginning of the key, or by the whole of it (which is not repeated)."""
    rows = ApiKey.objects.select_related("workspace").order_by("id")
    text = given.strip().rstrip("….")  # as a table or a message shows it
    shown = clean(text[:SHOWN])
    if text.isascii() and text.isdigit():
        found = list(rows.filter(pk=int(text))) if len(text) < 19 else []
        problem = f"There is no key with the id {shown}"
    elif text.startswith(PREFIX):
        found = list(rows.filter(prefix__startswith=text) if len(text) <= SHOWN else rows.filter(hash=hash_key(text)))
        problem = f"There is no key that begins with {shown!r}" if len(text) <= SHOWN else "There is no such key"
    else:
        named = list_candidates(rows.filter(name=text)) if "\0" not in text else ""
        raise CommandError(
            f"{shown!r} is neither the id of a key nor the beginning of one ({PREFIX}…)"
            f"{f'; of that name there are {named}' if named else '. See `api_key list --all`'}."
        )
    if not found:
        raise CommandError(f"{problem}. See `api_key list --all`.")
    if len(found) > 1:
        raise CommandError(f"{len(found)} keys begin with {shown!r}: {list_candidates(found)}. Pass an id.")
    return found[0]


def list_candidates(rows: Iterable[ApiKey]) -> str:
    """Keys with their ids, for an error."""
    some = [f"{row.pk} {describe(row)}" for row in rows]
    return ", ".join(some[:NAMED]) + (f" and {len(some) - NAMED} more" if len(some) > NAMED else "")


def show_state(row: ApiKey) -> str:
    """Whether it opens anything."""
    return "revoked" if row.revoked_at else "usable" if row.is_usable() else "expired"


def show_minute(moment: datetime | None) -> str:
    """Without seconds: a row has to fit."""
    if moment is None:
        return ""
    return f"{timezone.localtime(moment) if timezone.is_aware(moment) else moment:%Y-%m-%d %H:%M}"


#: Of the table; columns in which nobody has a value are left out.
COLUMNS: dict[str, Callable[[ApiKey], object]] = {
    "id": lambda row: row.pk,
    "prefix": lambda row: row.prefix,
    "name": lambda row: row.name,
    "workspace": lambda row: row.workspace.slug,
    "scopes": lambda row: "all" if len(row.scopes) == len(SCOPES) else " ".join(row.scopes),
    "workflows": lambda row: "all" if row.workflows is None else " ".join(row.workflows),
    "created": lambda row: show_minute(row.created_at)[:10],
    "expires": lambda row: show_minute(row.expires_at) or "never",
    "last used": lambda row: show_minute(row.last_used_at) or "never",
    "state": show_state,
}
