"""`manage.py workflows`: what it prints, what it changes, and how it ends."""

from __future__ import annotations

import json
from io import StringIO
from uuid import uuid4

import pytest
from django.core.management import CommandError, call_command
from django.db import connection, connections

import workflows
from tests.support.command_line import Parcel, worker  # noqa: F401 (a fixture)
from tests.support.deploys import (
    define_parcel,
    deploy,  # noqa: F401 (a fixture)
    forget,
)
from workflows import Child, Done, Spawn, Workflow, step
from workflows.lifecycle import Status
from workflows.management.terminal import clean, clip, lay_facts, lay_table
from workflows.models import Instance
from workflows.store.ledger.retention import prune
from workflows.testing import advance, drain

pytestmark = pytest.mark.django_db

BELONGINGS = ["signal", "unit", "interaction", "checkpoint", "event_wait", "ledger"]


class Truck(Workflow):
    name = "command.truck"

    @step
    def load(self, ctx):
        return Spawn([Child(Parcel, {"n": n}) for n in range(2)], then="arrive")

    @step
    def arrive(self, ctx):
        return Done()


# --- list ---------------------------------------------------------------------------------------------


def test_list_counts_and_names_the_newest(run):
    workflows.start_many(Parcel, [{}] * 3, keys=["a", "b", "c"])
    drain()
    workflows.start(Parcel, {"lost": True}, key="d")
    drain()
    told = run("list", "--limit", 2)
    lines = told.splitlines()
    assert lines[0].split() == ["workflow", "version", "status", "instances", "oldest"]
    assert lines[1].split()[:4] == ["command.parcel", "1", "awaiting", "3"]
    assert lines[2].split()[:4] == ["command.parcel", "1", "failed", "1"]
    assert lines[4].split() == ["id", "workflow", "status", "step", "key", "due"]
    newest = Instance.objects.order_by("-id")[:2]
    assert [line.split()[0] for line in lines[5:]] == [str(one.pk) for one in newest]


def test_list_filters(run):
    workflows.workspace.create("acme")
    workflows.start(Parcel, key="here")
    workflows.start(Parcel, key="there", workspace="acme")
    workflows.start(Truck, key="truck")
    failed = workflows.start(Parcel, {"lost": True}, key="failed")
    drain()

    def keys(*arguments: str) -> set[str]:
        return {word for word in run("list", *arguments).split() if word in {"here", "there", "truck", "failed"}}

    assert keys("--workspace", "acme") == {"there"}
    assert keys("--workflow", "command.truck") == {"truck"}
    assert keys("--status", "ended") == {"failed"}
    assert "failed" not in keys("--status", "live")
    assert str(failed.pk) in run("list", "--status", "failed")
    assert run("list", "--workflow", "nothing") == "No instances.\n"


def test_list_shows_only_the_counts_when_asked_for_none(run):
    workflows.start(Parcel)
    assert len(run("list", "--limit", "0").splitlines()) == 2


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["list", "--workspace", "nowhere"], "there are default"),
        (["list", "--status", "asleep"], r"invalid choice: 'asleep' \(choose from '?runnable'?, '?running'?, .*live"),
        (["list", "--limit", "many"], "'many' is no whole number"),
        (["show", "order-1"], "'order-1' is neither the id of an instance nor a key in workspace 'default'. See"),
        (["show", "order-1", "--workspace", "nowhere"], "There is no workspace 'nowhere'"),
        (["retry"], "required"),
        (["shout"], "invalid choice"),
        ([], "required"),
    ],
)
def test_what_is_asked_wrongly_is_refused_with_what_to_write(run, arguments, words):
    with pytest.raises(CommandError, match=words):
        run(*arguments)


# --- show ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("width", [80, 120])
def test_show_tells_the_story_of_an_instance_in_the_width_of_the_terminal(run, monkeypatch, width):
    monkeypatch.setenv("COLUMNS", str(width))
    instance = workflows.start(Parcel, {"text": "x" * 5_000}, key="order-1", actor="user:1")
    drain()
    workflows.signal(instance, "smalltalk", {"words": "y" * 900}, dedup_key="evt_1", actor="kafka")
    told = run("show", instance.pk)
    assert max(map(len, told.splitlines())) <= width
    assert f"Instance {instance.pk}\n" in told
    assert "command.parcel version 1 (tests.support.command_line.Parcel)" in told
    assert "awaiting in step close" in told
    assert "delivered, returned" in told
    assert "order-1" in told
    assert "by user:1" in told
    inbox, history = told[told.index("Inbox") :].split("History")
    assert "smalltalk" in inbox
    assert "open" in inbox
    assert [line.split()[4] for line in history.splitlines()[2:]] == ["started", "parked", "signalled"]
    assert "until" in history


def test_show_tells_how_it_ended(run):
    instance = workflows.start(Parcel)
    drain()
    workflows.signal(instance, "returned")
    drain()
    told = run("show", instance.pk)
    assert "done in step close" in told
    assert '{"how": "returned"}' in told
    assert "consumed" in told
    assert "waits for" not in told
    failed = workflows.start(Parcel, {"lost": True})
    drain()
    assert "lost on the way" in run("show", failed.pk)


def test_show_lists_the_children(run):
    truck = workflows.start(Truck)
    drain()
    told = run("show", truck.pk)
    assert "2 not ended" in told
    children = told[told.index("Children") : told.index("History")]
    assert all(str(child.pk) in children for child in truck.children.all())


def test_show_says_why_an_instance_stands_still(run):
    define_parcel("send", "close")
    instance = workflows.start("deploy.parcel")
    drain()
    assert "stuck" not in run("show", instance.pk)
    forget("deploy.parcel")
    define_parcel("send", "finish")
    told = run("show", instance.pk)
    assert "the workflow has no such step" in " ".join(told.split())


def test_show_reads_the_last_rows_of_a_long_story_only(run, django_assert_max_num_queries):
    instance = workflows.start(Parcel)
    drain()
    workflows.signal_many([(instance, "smalltalk", n) for n in range(30)])
    with django_assert_max_num_queries(10):
        told = run("show", instance.pk, "--rows", "5")
    assert "Inbox, the last 5" in told
    assert "History, the last 5" in told
    assert len(told[told.index("Inbox") : told.index("History")].splitlines()) == 2 + 5 + 1


def test_show_prints_no_control_characters_from_outside(run):
    instance = workflows.start(Parcel, key="order\n\x1b[31m1")
    workflows.signal(instance, "name\x1b]0;evil\x07", "\x1b[2J")
    told = run("show", instance.pk) + run("list")
    assert "\x1b" not in told
    assert "\x07" not in told
    assert "order\\n\\x1b[31m1" in told


def test_show_says_when_there_is_no_such_instance(run):
    with pytest.raises(CommandError, match="never started, or pruned"):
        run("show", uuid4())


# --- retry and cancel ---------------------------------------------------------------------------------


def test_retry_runs_failed_instances_again_in_their_own_workspace(run):
    workflows.workspace.create("acme")
    failed = [
        workflows.start(Parcel, {"lost": True}),
        workflows.start(Parcel, {"lost": True}, workspace="acme"),
    ]
    drain()
    told = run("retry", *[one.pk for one in failed])
    assert told.count("is runnable in step 'send'") == 2
    for one in failed:
        one.refresh_from_db()
        assert one.status == Status.RUNNABLE
        assert one.events.last().actor.startswith("shell")


def test_a_refused_retry_does_not_stop_the_others_and_is_counted(run):
    fine = workflows.start(Parcel)
    failed = workflows.start(Parcel, {"lost": True})
    drain()
    with pytest.raises(CommandError, match=r"2 of 3 were not retried; the reasons are above\."):
        run("retry", fine.pk, uuid4(), failed.pk)
    failed.refresh_from_db()
    assert failed.status == Status.RUNNABLE


def test_cancel_takes_the_children_along_and_keeps_the_reason(run):
    truck = workflows.start(Truck)
    drain()
    assert run("cancel", truck.pk, "--reason", "no petrol") == f"{truck.pk} is cancelled\n"
    truck.refresh_from_db()
    assert (truck.status, truck.error) == (Status.CANCELLED, "no petrol")
    assert {child.status for child in truck.children.all()} == {Status.CANCELLED}
    with pytest.raises(CommandError, match="1 of 1 was not cancelled"):
        run("cancel", truck.pk)


# --- stuck --------------------------------------------------------------------------------------------


def test_stuck_ends_well_when_this_code_knows_every_step(run):
    workflows.start(Parcel)
    drain()
    assert run("stuck").startswith("Nothing is stuck")


def test_stuck_names_the_renamed_step_and_ends_with_code_1(run):
    define_parcel("send", "close")
    waiting = workflows.start("deploy.parcel")
    drain()
    forget("deploy.parcel")
    define_parcel("send", "close_it")
    out = StringIO()
    with pytest.raises(CommandError, match="1 live instance cannot go on with this code") as caught:
        call_command("workflows", "stuck", stdout=out, no_color=True)
    assert caught.value.returncode == 1
    assert "in step 'close': the workflow has no such step." in out.getvalue()
    assert str(waiting.pk) in out.getvalue()
    assert "`close = close_it`" in out.getvalue()


def test_stuck_speaks_json_to_scripts():
    define_parcel("send", "close")
    waiting = workflows.start("deploy.parcel")
    drain()
    out = StringIO()
    call_command("workflows", "stuck", "--json", stdout=out)
    assert json.loads(out.getvalue()) == {"stuck": 0, "changed": 0, "groups": [], "unserved": []}
    forget("deploy.parcel")
    out = StringIO()
    with pytest.raises(CommandError):
        call_command("workflows", "stuck", "--json", stdout=out)
    told = json.loads(out.getvalue())
    (group,) = told["groups"]
    assert told["stuck"] == group["count"] == 1
    assert (group["problem"], group["workflow"], group["step"]) == ("unknown workflow", "deploy.parcel", "close")
    assert group["examples"] == [str(waiting.pk)]


def test_a_changed_definition_alone_is_told_and_ends_well(run):
    define_parcel("send", "close")
    instance = workflows.start("deploy.parcel")
    drain()
    with connection.cursor() as cursor:
        cursor.execute("UPDATE holdpoint_instance SET fingerprint = 5 WHERE id = %s", [instance.pk])
    told = run("stuck")
    assert "the definition has changed since they were started" in told
    assert "Nothing is stuck" in told


# --- prune --------------------------------------------------------------------------------------------


def test_prune_needs_to_be_told_how_old(run, settings):
    with pytest.raises(CommandError, match=r'set WORKFLOWS\["RETENTION"\]'):
        run("prune")
    with pytest.raises(CommandError, match="not readable"):
        run("prune", "--older-than", "soon")
    with pytest.raises(CommandError, match="longer than zero"):
        run("prune", "--older-than", "0")


def test_prune_deletes_what_ended_before_and_keeps_the_rest(run):
    old = workflows.start(Parcel, {"lost": True})
    drain()
    live = workflows.start(Parcel, key="live")
    advance("2d")
    young = workflows.start(Parcel, {"lost": True})
    workflows.signal(live, "smalltalk", dedup_key="evt_1")
    drain()
    assert run("prune", "--older-than", "1d") == "Deleted 1 instance in 1 tree.\n"
    assert set(Instance.objects.values_list("pk", flat=True)) == {live.pk, young.pk}
    assert not Instance.objects.filter(pk=old.pk).exists()
    assert workflows.signal(live, "smalltalk", dedup_key="evt_1").duplicate


def test_retention_of_the_settings_is_the_age(run, settings):
    settings.WORKFLOWS = {**settings.WORKFLOWS, "RETENTION": "30d"}
    workflows.start(Parcel, {"lost": True})
    drain()
    advance("29d")
    assert run("prune").startswith("Deleted 0 ")
    advance("2d")
    assert run("prune").startswith("Deleted 1 ")


def test_a_dry_run_counts_the_same_and_deletes_nothing(run):
    workflows.start(Parcel, {"lost": True})
    truck = workflows.start(Truck)
    drain()
    workflows.cancel(truck)
    advance("2d")
    before = Instance.objects.count()
    assert run("prune", "--older-than", "1d", "--dry-run") == "Would delete 4 instances in 2 trees.\n"
    assert Instance.objects.count() == before
    assert run("prune", "--older-than", "1d") == "Deleted 4 instances in 2 trees.\n"


def test_a_tree_goes_only_when_all_of_it_has_ended_long_ago(run):
    truck = workflows.start(Truck)
    drain()
    first, second = truck.children.order_by("pk")
    workflows.signal(first, "delivered")
    drain()
    advance("1d")
    workflows.signal(second, "delivered")
    drain()
    advance("1d")
    # The first child ended two days ago, the second and the root yesterday.
    assert run("prune", "--older-than", "36h").startswith("Deleted 0 ")
    advance("1d")
    assert run("prune", "--older-than", "36h") == "Deleted 3 instances in 1 tree.\n"


def test_a_child_that_outlives_its_root_keeps_the_whole_tree(run):
    truck = workflows.start(Truck)
    drain()
    outliving = truck.children.first()
    with connection.cursor() as cursor:  # as `invoke` with a timeout leaves it
        cursor.execute("UPDATE holdpoint_instance SET status = 1, due_at = now() WHERE id = %s", [truck.pk])
        cursor.execute("UPDATE holdpoint_instance SET status = 2 WHERE id = %s", [truck.pk])
        cursor.execute(
            "UPDATE holdpoint_instance SET status = 10, due_at = NULL, finished_at = now() WHERE id = %s", [truck.pk]
        )
    advance("2d")
    told = run("prune", "--older-than", "1d")
    assert told == ("Deleted 0 instances in 0 trees. 1 stays: part of it has not ended, ended later, or is in use.\n")
    assert Instance.objects.filter(pk=outliving.pk).exists()


def count_belongings(instance: Instance) -> dict[str, int]:
    with connection.cursor() as cursor:
        counts = {}
        for table in BELONGINGS:
            cursor.execute(f"SELECT count(*) FROM holdpoint_{table} WHERE instance_id = %s", [instance.pk])
            counts[table] = cursor.fetchone()[0]
        return counts


def add_belongings(instance: Instance) -> None:
    """One row of each table that only some workflows fill."""
    unit, of = uuid4(), {"id": instance.pk, "ws": instance.workspace_id}
    with connection.cursor() as cursor:
        cursor.execute(
            "INSERT INTO holdpoint_unit(id, instance_id, created_at, closed_at, workspace_id, visit, total, remaining, "
            "failed, status, cardinality, step) VALUES (%(unit)s, %(id)s, now(), now(), %(ws)s, 1, 1, 0, 0, 2, 1, 'x')",
            {**of, "unit": unit},
        )
        cursor.execute(
            "INSERT INTO holdpoint_interaction(id, unit_id, instance_id, created_at, closed_at, workspace_id, "
            "index, version, status, owned, channel, signal_id, actor) "
            "VALUES (%(pk)s, %(unit)s, %(id)s, now(), now(), %(ws)s, 0, 1, 2, false, 'api', %(pk)s::text, 'ann')",
            {**of, "unit": unit, "pk": uuid4()},
        )
        cursor.execute(
            "INSERT INTO holdpoint_checkpoint(instance_id, saved_at, position, kind, settled, expired, name) "
            "VALUES (%(id)s, now(), 1, 1, true, false, 'pay')",
            of,
        )
        cursor.execute(
            "INSERT INTO holdpoint_event_wait(id, instance_id, closed_at, workspace_id, hash, event, fields, match) "
            "VALUES (%(pk)s, %(id)s, now(), %(ws)s, 1, 'paid', '[]', '{}')",
            {**of, "pk": uuid4()},
        )


def test_everything_that_belongs_to_an_instance_goes_with_it_and_nothing_else(run):
    gone, stays = workflows.start(Parcel, key="gone"), workflows.start(Parcel, key="stays")
    drain()
    for one in (gone, stays):
        add_belongings(one)
        workflows.signal(one, "smalltalk")
    told = run("show", stays.pk)
    assert "Questions" in told
    assert "Event waits" in told
    assert "Saved calls" in told
    workflows.signal(gone, "delivered")
    drain()
    advance("2d")
    before = count_belongings(stays)
    assert 0 not in before.values()
    run("prune", "--older-than", "1d")
    assert set(count_belongings(gone).values()) == {0}
    assert count_belongings(stays) == before


def test_pruning_goes_in_batches_and_every_batch_stands_alone(run):
    workflows.start_many(Parcel, [{"lost": True}] * 7)
    drain()
    advance("2d")
    batches = prune(connections["default"], older_than=86_400.0, batch=3)
    assert next(batches).instances == 3
    batches.close()  # interrupted
    assert Instance.objects.count() == 4
    assert run("-v", 2, "prune", "--older-than", "1d", "--batch", 2).splitlines() == [
        "… 2",
        "… 4",
        "Deleted 4 instances in 4 trees.",
    ]


def test_a_very_long_time_ago_is_before_everything(run):
    workflows.start(Parcel, {"lost": True})
    drain()
    assert run("prune", "--older-than", "9999999w").startswith("Deleted 0 ")


# --- paper --------------------------------------------------------------------------------------------


def test_tables_are_cut_to_the_width_and_ids_are_not():
    rows = [["i" * 36, "word " * 40, "n" * 30]]
    lines = lay_table(["id", "text", "name"], rows, 80)
    assert all(len(line) <= 80 for line in lines)
    assert lines[1].startswith("i" * 36 + "  ")
    assert "…" in lines[1]


def test_a_table_that_cannot_fit_keeps_its_ids():
    (_, line) = lay_table(["id", "at"], [["i" * 36, "2" * 60]], 80)
    assert line == f"{'i' * 36}  {'2' * 60}"


def test_columns_and_facts_without_a_value_are_left_out():
    assert lay_table(["a", "b", "c"], [["1", None, "3"], ["4", "", "6"]], 80) == ["a  c", "1  3", "4  6"]
    assert lay_facts([("key", None), ("status", "done"), ("runs", 0)], 80) == ["status  done", "runs    0"]
    assert lay_facts([("key", "")], 80) == []


def test_texts_are_cleaned_and_clipped():
    assert clean("a\tb\u202ec\x00é") == "a\\tb\\u202ec\\x00é"
    assert clip("x" * 10, 5) == "xxxx…"
    assert clip("xxxxx", 5) == "xxxxx"


# --- fork ---------------------------------------------------------------------------------------------


def test_fork_starts_another_one_from_a_point_and_says_which(run):
    first = workflows.start(Parcel, key="first")
    drain()
    told = run("fork", "first", "--at", first.step, "--key", "second", "--input", '{"order": 8}')
    forked = Instance.objects.get(forked_from=first)
    assert (forked.key, forked.input) == ("second", {"order": 8})
    assert told.strip() == f"{forked.pk} is runnable in step {first.step!r}, forked from {first.pk}"
    assert f"forked from  {first.pk}" in " ".join(run("show", "second").split("\n"))
    for arguments, error in ((("--at", "nowhere"), "there are: "), (("--input", "{"), "no JSON")):
        with pytest.raises(CommandError, match=error):
            run("fork", "first", *arguments)
