"""`manage.py api_key`: what it prints where, and what its refusals say."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Callable
from datetime import timedelta
from io import StringIO
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from django.core.management import CommandError, call_command
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

import workflows
from tests.support.races import COMMITTED
from workflows import Done, Workflow, step
from workflows.access.api_keys import SCOPES, create_key, find_access, revoke_key
from workflows.models import ApiKey, Workspace

pytestmark = pytest.mark.django_db

ROOT = Path(__file__).parents[3]


class Shipment(Workflow):
    name = "apikey.shipment"

    @step
    def send(self, ctx: Any) -> Done:
        return Done()


class Printed(NamedTuple):
    """What one call of the command wrote."""

    out: str
    err: str

    @property
    def key(self) -> str:
        """The key, alone on stdout."""
        assert re.fullmatch(r"hp_[\w-]{43}\n", self.out), self.out
        return self.out.strip()


Run = Callable[..., Printed]


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch) -> Run:
    """Call the command as a terminal of 120 columns would."""
    monkeypatch.setenv("COLUMNS", "120")

    def call(*arguments: object) -> Printed:
        out, err = StringIO(), StringIO()
        call_command("api_key", *map(str, arguments), stdout=out, stderr=err, no_color=True)
        return Printed(out.getvalue(), err.getvalue())

    return call


def refuse(run: Run, *arguments: object) -> str:
    """What the command ends with instead of doing it."""
    before = list(ApiKey.objects.order_by("id").values())
    with pytest.raises(CommandError) as caught:
        run(*arguments)
    assert list(ApiKey.objects.order_by("id").values()) == before
    return str(caught.value)


def make(name: str = "billing", **options: Any) -> tuple[ApiKey, str]:
    return create_key(name, workspace=workflows.workspace.create("default"), **options)


# --- create --------------------------------------------------------------------------------------------


def test_the_key_is_alone_on_stdout_and_opens_everything_of_the_default_workspace(run: Run) -> None:
    printed = run("create", "ci")
    access = find_access(printed.key)
    assert access is not None
    assert (access.slug, access.scopes, access.workflows, access.expires_at) == ("default", set(SCOPES), None, None)
    row = ApiKey.objects.get()
    assert row.name == "ci"
    assert row.created_by.startswith("shell")
    assert f"Key {row.pk} ci ({row.prefix}…): read, start, signal, complete, operate, admin." in printed.err
    assert printed.key not in printed.err


def test_a_key_is_made_as_it_is_asked_for_with_its_workspace(run: Run) -> None:
    printed = run(
        *("create", "ci", "--workspace", "acme", "--scope", "start", "--scope", "read"),
        *("--workflow", "apikey.shipment", "--expires", "90d", "--rate", "600/m"),
    )
    access = find_access(printed.key)
    assert access is not None
    assert (access.slug, access.scopes, access.workflows, access.rate) == (
        "acme",
        {"read", "start"},
        ("apikey.shipment",),
        "600/m",
    )
    assert access.expires_at is not None
    assert abs(access.expires_at - timezone.now() - timedelta(days=90)) < timedelta(minutes=1)
    assert "ci (" in printed.err
    assert "of workspace acme: read, start, until 2" in printed.err


def test_names_may_repeat(run: Run) -> None:
    assert run("create", "ci").key != run("create", "ci").key
    assert ApiKey.objects.filter(name="ci").count() == 2


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["--scope", "write"], "there is no scope 'write'; there are read, start, signal, complete, operate, admin"),
        (["--workflow", "apikey.shipmnt"], "There is no workflow 'apikey.shipmnt'; did you mean apikey.shipment?"),
        (["--workflow", "zzz"], "There is no workflow 'zzz'; there are "),
        (["--expires", "soon"], "'soon' is not a usable duration"),
        (["--expires", "0d"], "longer than zero"),
        (["--rate", "fast"], 'such as "600/m"'),
        (["--workspace", "no slug"], "'no slug' is no workspace slug"),
    ],
)
def test_what_cannot_be_meant_is_refused_and_nothing_is_left_behind(run: Run, arguments: list[str], told: str) -> None:
    assert told in refuse(run, "create", "ci", "--workspace", "acme", *arguments)
    assert not Workspace.objects.filter(slug="acme").exists()


@COMMITTED
@pytest.mark.process
@pytest.mark.usefixtures("committed")
def test_a_shell_takes_the_key_from_stdout() -> None:
    settings = connection.settings_dict
    address = "postgresql://{USER}@/{NAME}?host={HOST}".format(**settings) + (
        f"&port={settings['PORT']}" if settings["PORT"] else ""
    )
    command = 'KEY=$("$0" manage.py api_key create ci --workspace shell) && printf "<%s>" "$KEY"'
    done = subprocess.run(
        ["sh", "-c", command, sys.executable],
        cwd=ROOT,
        env={**os.environ, "DATABASE_URL": address, "DEBUG": "1"},
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    assert re.fullmatch(r"<hp_[\w-]{43}>", done.stdout), done
    assert "It is shown this once" in done.stderr
    access = find_access(done.stdout[1:-1])
    assert access is not None
    assert access.slug == "shell"


# --- list ----------------------------------------------------------------------------------------------


def test_the_table_tells_keys_apart(run: Run) -> None:
    workflows.workspace.create("acme")
    make("billing", scopes=["read"], workflows=["Ship"], expires_at=timezone.now() + timedelta(days=3))
    used, key = create_key("ci", workspace=Workspace.objects.get(slug="acme"))
    find_access(key)
    used.refresh_from_db()
    head, newest, oldest = run("list").out.splitlines()
    titles = ["id", "prefix", "name", "workspace", "scopes", "workflows", "created", "expires", "last used", "state"]
    assert re.split(r" {2,}", head) == titles
    assert used.last_used_at is not None
    day, minute = f"{used.created_at:%Y-%m-%d}", f"{used.last_used_at:%Y-%m-%d %H:%M}"
    assert re.split(r" {2,}", newest) == [
        *(str(used.pk), used.prefix, "ci", "acme", "all", "all", day, "never", minute, "usable"),
    ]
    for text in ("billing", "default", "read", "Ship", "never", "usable"):
        assert text in oldest


def test_keys_that_open_nothing_are_listed_only_when_asked_for(run: Run) -> None:
    revoke_key(make("revoked-one")[0])
    expired, _ = make("expired-one")
    ApiKey.objects.filter(pk=expired.pk).update(expires_at=timezone.now())
    assert run("list").out == ("No keys; --all shows revoked and expired ones. `api_key create NAME` makes one.\n")
    make("usable-one")
    assert "-one" in run("list").out
    assert "revoked" not in run("list").out
    listed = run("list", "--all").out.splitlines()[1:]
    assert [line.split()[-1] for line in listed] == ["usable", "expired", "revoked"]


def test_the_list_is_that_of_one_workspace_where_one_is_named(run: Run) -> None:
    make("ours")
    create_key("theirs", workspace=workflows.workspace.create("acme"))
    assert [line.split()[2] for line in run("list", "--workspace", "acme").out.splitlines()[1:]] == ["theirs"]
    assert refuse(run, "list", "--workspace", "other") == "There is no workspace 'other'; there are acme, default."


def test_the_list_never_asks_once_per_key(run: Run) -> None:
    for _ in range(20):
        make()
    with CaptureQueriesContext(connection) as seen:
        run("list")
    assert len(seen) == 2  # workspaces, keys


@pytest.mark.parametrize("columns", [80, 100, 104, 120])
def test_the_table_fits_into_the_terminal_and_keeps_what_a_key_is_known_by(
    run: Run, monkeypatch: pytest.MonkeyPatch, columns: int
) -> None:
    end = timezone.now() + timedelta(days=90)
    row, key = make("a name that is rather long", scopes=["read", "start"], workflows=["Ship", "Send"], expires_at=end)
    find_access(key)
    monkeypatch.setenv("COLUMNS", str(columns))
    lines = run("list").out.splitlines()
    assert max(map(len, lines)) <= columns
    assert f"{row.pk}  {row.prefix}" in lines[1]
    assert f"  {end:%Y-%m-%d}" in lines[1]
    assert lines[1].endswith("usable")


def test_a_hostile_name_cannot_write_on_the_terminal(run: Run) -> None:
    make("red\x1b[31m\nKey 7 is fine")
    assert "\x1b" not in run("list").out
    assert len(run("list").out.splitlines()) == 2


# --- revoke --------------------------------------------------------------------------------------------


def test_keys_are_revoked_by_id_by_their_beginning_and_by_the_whole(run: Run) -> None:
    made = [make(f"key-{n}") for n in range(4)]
    (first, _), (second, _), (third, _), (fourth, whole) = made
    printed = run("revoke", first.pk, second.prefix, f"{third.prefix}…", whole)
    assert [find_access(key) for _, key in made] == [None] * 4
    for row in (first, second, third, fourth):
        assert f"Key {row.pk} {row.name} ({row.prefix}…) is revoked." in printed.out
    assert whole not in printed.out + printed.err


def test_revoking_again_is_told_and_no_error(run: Run) -> None:
    row, _ = make()
    run("revoke", row.pk)
    ended = ApiKey.objects.get().revoked_at
    assert "was revoked already, at 2" in run("revoke", row.pk).out
    assert ApiKey.objects.get().revoked_at == ended


def test_a_refusal_of_one_leaves_the_others_be_and_fails(run: Run) -> None:
    row, key = make()
    err = StringIO()
    with pytest.raises(CommandError, match=r"1 of 2 was not revoked; the reasons are above\."):
        call_command("api_key", "revoke", "99999", str(row.pk), stdout=StringIO(), stderr=err, no_color=True)
    assert "There is no key with the id 99999. See `api_key list --all`." in err.getvalue()
    assert find_access(key) is None


# --- rotate --------------------------------------------------------------------------------------------


def test_the_new_key_is_alone_on_stdout_and_the_old_one_works_for_the_grace(run: Run) -> None:
    row, old = make(scopes=["read"], rate="5/s")
    printed = run("rotate", row.prefix, "--grace", "1h")
    was, now = find_access(old), find_access(printed.key)
    assert was is not None
    assert now is not None
    assert (now.scopes, now.rate, now.expires_at) == ({"read"}, "5/s", None)
    assert was.expires_at is not None
    assert abs(was.expires_at - timezone.now() - timedelta(hours=1)) < timedelta(minutes=1)
    assert re.search(rf"replaces key {row.pk} \({row.prefix}…\), which works until 2\d{{3}}-", printed.err)
    assert printed.key not in printed.err


def test_how_long_the_new_key_lives_is_asked_for_where_the_old_one_has_an_end(run: Run) -> None:
    row, _ = make(expires_at=timezone.now() + timedelta(days=2))
    told = refuse(run, "rotate", row.pk)
    assert re.search(r"ends at 2\d{3}-.*: say how long the new one is to live, with --expires 90d or --expires", told)
    access = find_access(run("rotate", row.pk, "--expires", "90d").key)
    assert access is not None
    assert access.expires_at is not None
    assert abs(access.expires_at - timezone.now() - timedelta(days=90)) < timedelta(minutes=1)
    eternal = find_access(run("rotate", row.pk, "--expires", "never").key)
    assert eternal is not None
    assert eternal.expires_at is None


@pytest.mark.parametrize("arguments", [["--grace", "later"], ["--grace", "-1h"], ["--expires", "x"]])
def test_a_rotation_that_cannot_be_meant_changes_nothing(run: Run, arguments: list[str]) -> None:
    row, _ = make()
    assert "not a usable duration" in refuse(run, "rotate", row.pk, "=".join(arguments))


def test_a_revoked_key_is_not_rotated(run: Run) -> None:
    row, _ = make()
    revoke_key(row)
    assert "opens nothing any more; make a new one" in refuse(run, "rotate", row.pk)


# --- which key -----------------------------------------------------------------------------------------


def test_an_ambiguous_beginning_lists_the_keys_it_could_mean(run: Run) -> None:
    rows = [make(f"key-{n}")[0] for n in range(3)]
    told = refuse(run, "rotate", "hp_")
    assert told.startswith("3 keys begin with 'hp_': ")
    for row in rows:
        assert f"{row.pk} {row.name} ({row.prefix}…)" in told
    assert told.endswith("Pass an id.")


def test_a_long_list_of_candidates_is_cut(run: Run) -> None:
    for n in range(15):
        make(f"key-{n}")
    assert "and 5 more. Pass an id." in refuse(run, "rotate", "hp_")


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ("12345", "There is no key with the id 12345. See `api_key list --all`."),
        ("9" * 30, "There is no key with the id"),
        ("hp_nothing", "There is no key that begins with 'hp_nothing'."),
        ("hp_%", "There is no key that begins with 'hp_%'."),
        ("hp_" + "x" * 43, "There is no such key."),
        ("hp_ü" + "x" * 43, "There is no such key."),
        ("nobody", "'nobody' is neither the id of a key nor the beginning of one (hp_…). See"),
        ("²", "is neither the id"),
        ("", "is neither the id"),
        ("nul\0", "is neither the id"),
    ],
)
def test_what_is_no_key_is_told_so(run: Run, given: str, told: str) -> None:
    make()
    assert told in refuse(run, "rotate", given)


def test_a_name_is_not_enough_and_the_keys_that_have_it_are_listed(run: Run) -> None:
    first, second = make("ci")[0], make("ci")[0]
    told = refuse(run, "rotate", "ci")
    assert f"of that name there are {first.pk} ci ({first.prefix}…), {second.pk} ci ({second.prefix}…)." in told


def test_no_message_repeats_a_whole_key(run: Run) -> None:
    _, key = make()
    ApiKey.objects.all().delete()
    told = refuse(run, "rotate", key)
    assert key not in told
    assert key[11:] not in told
