"""`manage.py ledger`: what it prints, and when it fails."""

from __future__ import annotations

import json
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from django.core.management import CommandError, call_command

import workflows
from tests.support.horizon import wait_for_foreigners
from tests.support.ledger_rows import execute, live, no_triggers, seal
from tests.support.races import COMMITTED

pytestmark = [
    COMMITTED,
    pytest.mark.usefixtures("committed"),
    pytest.mark.no_fold(reason="rows are deleted behind the engine's back"),
]


def ledger(*arguments: Any) -> str:
    out = StringIO()
    call_command("ledger", *map(str, arguments), stdout=out, no_color=True)
    return out.getvalue()


def ledger_fails(*arguments: Any) -> tuple[str, CommandError]:
    out = StringIO()
    with pytest.raises(CommandError) as caught:
        call_command("ledger", *map(str, arguments), stdout=out, no_color=True)
    assert caught.value.returncode == 1
    return out.getvalue(), caught.value


def test_verify_says_that_all_holds() -> None:
    assert ledger("verify") == "0 seals of 1 workspace(s) hold\n"
    live(1)
    seal()
    assert ledger("verify", "--workspace", "default") == "1 seal of 1 workspace(s) hold\n"


def test_verify_prints_findings_and_fails() -> None:
    [one] = live(1)
    seal()
    with no_triggers():
        execute("DELETE FROM holdpoint_ledger WHERE instance_id = %s AND seq = 2", [one.pk])
    out, error = ledger_fails("verify")
    assert "default, seal 1: missing: 3 of 4 rows" in out
    assert f"instance {one.pk} has no row 2" in out
    assert "2 findings in 1 seal of 1 workspace(s)" in str(error)


def test_an_edit_is_told_with_how_to_find_its_row_and_two_exports_do_find_it() -> None:
    one, _ = live(2)
    seal()
    before = ledger("export").splitlines()
    with no_triggers():
        execute("UPDATE holdpoint_ledger SET actor = 'nobody' WHERE instance_id = %s AND seq = 2", [one.pk])
    out, error = ledger_fails("verify")
    assert "default, seal 1: edited" in out
    assert "1 finding in 1 seal" in str(error)
    assert "compare `hash` and `data` of the rows with the same `instance` and `seq`" in str(error)
    [changed] = [json.loads(line) for line in set(ledger("export").splitlines()) - set(before)]
    assert (changed["instance"], changed["seq"]) == (str(one.pk), 2)
    assert changed["hash"] not in {json.loads(line)["hash"] for line in before}


def test_an_anchor_that_was_kept_finds_a_cut_with_its_seals(tmp_path: Path) -> None:
    workflows.workspace.create("acme")
    live(1)
    live(1, "acme")
    file = tmp_path / "anchor.json"
    wait_for_foreigners()
    ledger("anchor", "--output", file)
    assert [chain["workspace"] for chain in json.loads(file.read_text())["chains"]] == ["acme", "default"]
    assert ledger("verify", "--anchor", file) == "2 seals of 2 workspace(s) hold, and agree with the anchors\n"
    with no_triggers():
        execute("DELETE FROM holdpoint_ledger")
        execute("DELETE FROM holdpoint_seal")
        execute("DELETE FROM holdpoint_instance")
    assert "hold" in ledger("verify")
    out, _ = ledger_fails("verify", "--anchor", file)
    assert out.count("cut together with its seals") == 2
    with no_triggers():
        execute("DELETE FROM holdpoint_workspace WHERE slug = 'acme'")
    out, _ = ledger_fails("verify", "--anchor", file)
    assert "acme: the anchor names this workspace, and it is gone" in out


def test_an_anchor_covers_what_is_committed_by_then() -> None:
    live(1)
    wait_for_foreigners()
    [chain] = json.loads(ledger("anchor"))["chains"]
    assert (chain["workspace"], chain["number"]) == ("default", 1)
    assert len(chain["hash"]) == 64


def test_an_export_is_json_lines(tmp_path: Path) -> None:
    workflows.workspace.create("acme")
    live(1)
    live(1, "acme")
    assert len(ledger("export").splitlines()) == 8
    seal()
    file = tmp_path / "ledger.jsonl"
    assert ledger("export", "--workspace", "acme", "--without-payloads", "--output", file) == ""
    lines = [json.loads(line) for line in file.read_text().splitlines()]
    assert [line["type"] for line in lines] == ["seal"] + ["row"] * 4
    assert {line["workspace"] for line in lines} == {"acme"}
    assert not any("data" in line for line in lines)


@pytest.mark.parametrize(
    ("content", "why"),
    [
        ("", "it is empty"),
        ("{", "it is no JSON (Expecting"),
        ("\udcff", "it is no text"),
        ("[]", 'it has no member "holdpoint_anchor"'),
        ("{}", 'it has no member "holdpoint_anchor"'),
        ('{"holdpoint_anchor": 2}', "it is of version 2, and this release reads version 1"),
        ('{"holdpoint_anchor": 1}', "number 1 is not so"),
        ('{"holdpoint_anchor": 1, "chains": [1]}', "workspace (a text), number (a number), hash (a text)"),
        ('{"holdpoint_anchor": 1, "chains": [{"workspace": "default"}]}', "number 1 is not so"),
    ],
)
def test_a_file_that_is_no_anchor_is_refused_and_told_why(tmp_path: Path, content: str, why: str) -> None:
    file = tmp_path / "anchor.json"
    file.write_bytes(content.encode(errors="surrogateescape"))
    _, error = ledger_fails("verify", "--anchor", file)
    assert "is not what `ledger anchor` writes" in str(error)
    assert why in str(error)
    assert "Pass the file that `ledger anchor --output FILE` made." in str(error)


def test_mistakes_are_told(tmp_path: Path) -> None:
    assert "there is no workspace 'nope'" in str(ledger_fails("verify", "--workspace", "nope")[1])
    assert "cannot read" in str(ledger_fails("verify", "--anchor", tmp_path / "none")[1])
    assert "cannot write" in str(ledger_fails("export", "--output", tmp_path / "no" / "where")[1])
    live(1)
    wait_for_foreigners()
    ledger("anchor", "--output", tmp_path / "anchor.json")
    workflows.workspace.create("acme")
    options = ("verify", "--workspace", "acme", "--anchor", tmp_path / "anchor.json")
    assert "says nothing about workspace 'acme'" in str(ledger_fails(*options)[1])
