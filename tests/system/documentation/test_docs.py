"""The documentation is true: its Python blocks run, its settings pass the checks, its lists are complete.

Each page is run top to bottom in one namespace, each of its sections on an empty database. A block that
cannot run says why in a comment before it, `<!-- not run: settings -->`, and only these reasons count.
"""

import doctest
import importlib
import inspect
import os
import re
import sys
import textwrap
import threading
import time
import types
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from django.conf import settings
from django.core import mail
from django.core.checks import run_checks
from django.db import connections, transaction
from django.db.models import Model, QuerySet
from django.test import override_settings
from django.urls import include, path, resolve

import approvals
import workflows
from approvals import Answer, Approval
from approvals import models as approval_models
from approvals.conf import DEFAULTS as APPROVALS_DEFAULTS
from approvals.models import Delivery, Review
from approvals.models.querysets import ReviewQuerySet
from approvals.people import principals
from approvals.rules import calendar
from workflows.conf.settings import DEFAULTS
from workflows.definitions import channel, registry
from workflows.engine.context import Signal, StepContext
from workflows.engine.journals.handed_rows import ChildResult
from workflows.hooks import definition
from workflows.lifecycle import Event, Status
from workflows.models import Instance
from workflows.pytest.plugin import Clock
from workflows.testing import drain
from workflows.values import json_text
from workflows.worker.pump import Pump

HOME = Path(__file__).resolve().parents[3]
PAGES = (
    "docs/guide.md",
    "docs/await-or-hand-off.md",
    "docs/reference.md",
    "docs/api.md",
    "docs/flow-control.md",
    "docs/schedules.md",
    "docs/several-questions.md",
    "docs/hooks.md",
    "docs/transports.md",
    "docs/kafka.md",
    "docs/approvals.md",
    "docs/approvals-reference.md",
)
REASONS = {"settings", "urls", "another program"}
FLAGS = doctest.ELLIPSIS

#: What tests on the pages may ask for.
FIXTURES = {"workflows_drain": drain, "workflows_clock": Clock()}

BLOCK = re.compile(
    r"(?:^ *<!-- not run: (?P<reason>[^>]*?) -->\n)?"
    r"^(?P<indent> *)```python\n(?P<code>.*?)^(?P=indent)```$",
    re.MULTILINE | re.DOTALL,
)
HEADING = re.compile(r"^#{1,2} .*$", re.MULTILINE)


@dataclass(frozen=True)
class Block:
    """One fenced block: where its code begins, and why it is not run, if it is not."""

    page: str
    line: int
    section: int
    code: str
    reason: str | None


def read_blocks(page: str) -> list[Block]:
    text = (HOME / page).read_text()
    found = list(BLOCK.finditer(text))
    fences = [(one.start(), one.end()) for one in re.finditer(r"^ *```.*?^ *```$", text, re.MULTILINE | re.DOTALL)]
    headings = [
        at.start() for at in HEADING.finditer(text) if not any(begin < at.start() < end for begin, end in fences)
    ]
    assert len(found) == len(re.findall(r"^ *```python$", text, re.MULTILINE)), f"a fence of {page} is broken"
    return [
        Block(
            page=page,
            line=text.count("\n", 0, one.start("code")),
            section=sum(at < one.start() for at in headings),
            code=textwrap.dedent(one["code"]),
            reason=one["reason"],
        )
        for one in found
    ]


def run_block(block: Block, namespace: dict[str, Any]) -> None:
    """Run it where it stands, so that a traceback names the line of the page."""
    if ">>>" in block.code:
        parsed = doctest.DocTestParser().get_doctest(block.code, namespace, block.page, block.page, block.line)
        parsed.globs = namespace  # not a copy: functions of the page see what the examples assign
        run_examples(parsed)
        return
    exec(compile("\n" * block.line + block.code, block.page, "exec"), namespace)


def run_examples(test: doctest.DocTest) -> None:
    told: list[str] = []
    runner = doctest.DocTestRunner(optionflags=FLAGS, verbose=False)
    ran = runner.run(test, out=told.append, clear_globs=False)
    assert not ran.failed, "".join(told)


@contextmanager
def rolled_back() -> Iterator[None]:
    with transaction.atomic():
        yield
        transaction.set_rollback(True)


@pytest.fixture
def no_workflows(monkeypatch: pytest.MonkeyPatch) -> None:
    """A process that knows no workflow yet, and forgets those of the page afterwards; rules and calendars too."""
    monkeypatch.setattr(registry, "_definitions", {})
    monkeypatch.setattr(registry, "_latest", {})
    # A channel of a page would take the place of the one of that name that an example has.
    monkeypatch.setattr(channel, "_channels", dict(channel._channels))
    monkeypatch.setattr(channel, "_closing", dict(channel._closing))
    monkeypatch.setattr(definition, "_hooks", {})
    monkeypatch.setattr(principals, "_rules", {**principals._rules})
    monkeypatch.setattr(calendar, "_registered", {**calendar._registered})


# --- the pages run --------------------------------------------------------------------------------


@pytest.mark.django_db
@pytest.mark.parametrize("page", PAGES)
def test_every_python_block_of_a_page_runs(page: str, no_workflows: None, monkeypatch: pytest.MonkeyPatch) -> None:
    # A module like any other, because functions that a row names (`on_decision`) are imported by whoever needs them.
    module = types.ModuleType(page.removesuffix(".md").replace("/", ".").replace("-", "_"))
    monkeypatch.setitem(sys.modules, module.__name__, module)
    namespace = vars(module)
    blocks = [one for one in read_blocks(page) if one.reason is None]
    assert blocks
    for section in sorted({one.section for one in blocks}):
        before = set(namespace)
        with rolled_back():
            for block in blocks:
                if block.section == section:
                    run_block(block, namespace)
        # The tests that a page shows are run the way a reader's are: each on a database of its own.
        for name in sorted(namespace.keys() - before):
            if name.startswith("test_"):
                mail.outbox.clear()
                with rolled_back():
                    asked = inspect.signature(namespace[name]).parameters
                    namespace[name](**{fixture: FIXTURES[fixture] for fixture in asked})


@pytest.mark.parametrize("page", ["README.md", *PAGES])
def test_a_block_that_is_not_run_says_why(page: str) -> None:
    assert {one.reason for one in read_blocks(page)} <= {None, *REASONS}


@contextmanager
def worker() -> Iterator[None]:
    """A pump beside the test, as a qcluster is beside a project's shell."""
    ended = threading.Event()

    def work() -> None:
        try:
            Pump(should_stop=ended.is_set).run()
        finally:
            connections.close_all()

    thread = threading.Thread(target=work)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()


def wait_for_the_end() -> None:
    until = time.monotonic() + 60
    while Instance.objects.live().exists():
        assert time.monotonic() < until, list(Instance.objects.live().values())
        time.sleep(0.02)


@pytest.mark.django_db(transaction=True)
def test_the_readme_runs_beside_a_real_worker(no_workflows: None) -> None:
    namespace: dict[str, Any] = {"__name__": "readme"}
    blocks = [one for one in read_blocks("README.md") if one.reason is None]
    assert len(blocks) == 4  # the workflow, how it is used, one with people, the shell
    with worker():
        for block in blocks:
            run_block(block, namespace)
            wait_for_the_end()


# --- the settings and URLs are good ones ------------------------------------------------------------


@pytest.mark.parametrize("page", ["README.md", "docs/install.md", *PAGES])
def test_the_settings_of_a_page_pass_the_checks(page: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for secret in ("DATABASE_PASSWORD", "WORKFLOWS_TOKEN_KEY", "OPS_SECRET", "KAFKA_PASSWORD"):
        monkeypatch.setenv(secret, "x" * 52)
    shown: dict[str, Any] = {"os": os}
    for block in read_blocks(page):
        if block.reason == "settings" or page == "docs/install.md":
            exec(compile("\n" * block.line + block.code, page, "exec"), shown)
    assert set(shown.get("INSTALLED_APPS", [])) <= {"django_q", "rest_framework", "workflows", "approvals"}
    queue = shown.get("Q_CLUSTER", settings.Q_CLUSTER)
    engine, people = {**settings.WORKFLOWS, **shown.get("WORKFLOWS", {})}, shown.get("APPROVALS", {})
    with override_settings(Q_CLUSTER=queue, WORKFLOWS=engine, APPROVALS=people):
        assert run_checks(tags=["holdpoint"], databases=[]) == []


@pytest.mark.parametrize("page", ["README.md", *PAGES])
def test_the_urls_of_a_page_lead_somewhere(page: str) -> None:
    for block in read_blocks(page):
        if block.reason == "urls":
            shown: dict[str, Any] = {"include": include, "path": path}
            exec(compile("\n" * block.line + block.code, page, "exec"), shown)
            patterns = tuple(shown["urlpatterns"])
            assert resolve("/healthz", urlconf=patterns).view_name == "workflows:healthz"
            assert resolve("/approvals/", urlconf=patterns).view_name == "approvals:inbox"


# --- the reference is complete -----------------------------------------------------------------------


def has_entry(name: str, text: str) -> bool:
    """A heading, or the beginning of a table's row."""
    return re.search(rf"^(?:#+ .*?|\| )`(?:workflows\.)?{re.escape(name)}\b", text, re.MULTILINE) is not None


def list_public(owner: type) -> set[str]:
    return {name for name in dir(owner) if not name.startswith("_")}


EXPORTS = sorted(workflows.__all__)


def test_the_reference_tells_of_nothing_that_is_not_there() -> None:
    text = (HOME / "docs/reference.md").read_text()
    assert "not available yet" not in text
    assert "nothing reads it yet" not in text


def list_engine_only() -> set[str]:
    """What the engine and the styles ask of a `ctx`: its own words say so."""
    return {
        name
        for name in list_public(StepContext)
        if re.search(r"For the (engine|styles)", inspect.getdoc(getattr(StepContext, name)) or "")
    }


def test_the_reference_has_an_entry_for_everything_public() -> None:
    text = (HOME / "docs/reference.md").read_text()
    commands = {one.stem for one in (HOME / "workflows/management/commands").glob("[a-z]*.py")}
    wanted = {
        *EXPORTS,
        *("drain", "advance", "advance_to", "assert_awaiting", "assert_done", "assert_failed", "assert_no_leftovers"),
        *("workflows_drain", "workflows_clock", "workflows_leftovers"),
        *DEFAULTS.keys(),
        *commands,
        *(f"ctx.{name}" for name in list_public(StepContext) - list_engine_only()),
        *list_public(Signal) - {"n"},
        *ChildResult.__dataclass_fields__,
        *(str(one) for one in Status),
        *(str(one) for one in Event),
    }
    assert sorted(name for name in wanted if not has_entry(name, text)) == []


def test_the_reference_shows_every_export_in_use() -> None:
    code = "\n".join(one.code for one in read_blocks("docs/reference.md") if one.reason is None)
    assert [name for name in EXPORTS if not re.search(rf"\b{name}\b", code)] == []


def test_the_reference_describes_the_fields_of_an_instance() -> None:
    text = (HOME / "docs/reference.md").read_text()
    internal = {
        "fence",
        "seq",
        "inbox",
        "pending",
        "runs",
        "spawns",
        "spawn_no",
        "solo",
        "stored_state",
        "timed_out",
        "watched",
    }
    internal |= {"lane", "gate", "rate_key", "fair_key", "holds", "slot", "slots", "queue_slot", "queue_slots"}
    fields = {one.name for one in Instance._meta.concrete_fields} - internal
    assert sorted(name for name in fields | {"state", "ended"} if not has_entry(name, text)) == []


def test_the_reference_states_the_limits_that_the_code_has() -> None:
    text = (HOME / "docs/reference.md").read_text()
    assert f"{json_text.LIMIT_PAYLOAD // 1024} KiB" in text
    assert f"{json_text.LIMIT_VALUE // 1024**2} MiB" in text
    assert f"{json_text.MAX_DEPTH} levels" in text
    assert DEFAULTS["MAX_BODY"] == json_text.LIMIT_PAYLOAD


def test_the_reference_of_approvals_has_an_entry_for_everything_public() -> None:
    text = (HOME / "docs/approvals-reference.md").read_text()
    wanted = {
        *approvals.__all__,
        *("decide", "pending", "assert_asked"),
        *APPROVALS_DEFAULTS,
        *(one.stem for one in (HOME / "approvals/management/commands").glob("[a-z]*.py")),
        *(one.name for one in Review._meta.concrete_fields),
        *(name for name in list_public(ReviewQuerySet) if name in vars(ReviewQuerySet) and not hasattr(QuerySet, name)),
        *Answer.__dataclass_fields__,
        *inspect.signature(Approval).parameters,
        *(code for code, _ in [*Review._meta.permissions, *Delivery._meta.permissions]),
        *(name for name, one in vars(approval_models).items() if isinstance(one, type) and issubclass(one, Model)),
    }
    assert sorted(name for name in wanted if not has_entry(name, text)) == []


def test_the_reference_of_approvals_shows_every_export_in_use() -> None:
    code = "\n".join(one.code for one in read_blocks("docs/approvals-reference.md") if one.reason is None)
    assert [name for name in approvals.__all__ if not re.search(rf"\b{name}\b", code)] == []


def test_every_check_has_a_row_where_the_checks_are_told() -> None:
    text = (HOME / "docs/hosting.md").read_text()
    ours = ("operations/checks", "operations/review_checks", "required/admin_checks")
    for app, files in {
        "workflows": (
            "operations/checks",
            "operations/kafka_checks",
            "operations/link_checks",
            "operations/step_checks",
            "hooks/checks",
        ),
        "approvals": ours,
    }.items():
        code = "".join((HOME / app / f"{name}.py").read_text() for name in files)
        ids = set(re.findall(r'id="(holdpoint\w*\.[EW]\d+)"', code))
        assert ids
        rows = re.findall(r"^\| (`holdpoint.*?) (?:\(\w+\) )?\|", text, re.MULTILINE)
        told = {f"{row[1:].partition('.')[0]}.{number}" for row in rows for number in re.findall(r"[EW]\d{3}", row)}
        assert sorted(ids - told) == []


def test_the_first_page_of_the_documentation_leads_to_every_other() -> None:
    text = (HOME / "docs/README.md").read_text()
    others = {one.name for one in (HOME / "docs").glob("*.md")} - {"README.md"}
    assert {name for name in others if f"]({name})" not in text} == set()


def test_links_between_the_pages_lead_somewhere() -> None:
    broken = []
    for page in [HOME / "README.md", HOME / "ARCHITECTURE.md", *sorted((HOME / "docs").glob("*.md"))]:
        for link in re.findall(r"\]\(([^)\s]+)\)", page.read_text()):
            if re.match(r"[a-z]+:", link):
                continue
            file, _, anchor = link.partition("#")
            target = (page.parent / file) if file else page
            if not target.exists() or (anchor and anchor not in list_anchors(target)):
                broken.append(f"{page.name}: {link}")
    assert broken == []


def list_anchors(page: Path) -> set[str]:
    """The anchors of a page's headings, made the way GitHub makes them."""
    headings = re.findall(r"^#+ (.*)$", page.read_text(), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", one.lower()).replace(" ", "-") for one in headings}


# --- docstrings --------------------------------------------------------------------------------------


@pytest.mark.django_db
@pytest.mark.parametrize(
    "name",
    [
        "api.instances",
        "definitions.outcomes",
        "definitions.workspace",
        "testing",
        "uuid7",
        "values.durations",
        "values.json_text",
    ],
)
def test_the_examples_in_the_docstrings_are_true(name: str, no_workflows: None) -> None:
    module = importlib.import_module(f"workflows.{name}")
    found = [one for one in doctest.DocTestFinder().find(module) if one.examples]
    assert found
    globs = prepare_for(name)
    for test in sorted(found, key=lambda one: one.lineno or 0):
        test.globs = {**vars(module), **globs}
        run_examples(test)


def prepare_for(name: str) -> dict[str, Any]:
    """The names and rows that the docstrings of a module speak of."""

    class Ship(workflows.Workflow):
        @workflows.step
        def ask(self, ctx):
            return workflows.Await("payment_confirmed", then="ship", timeout="24h")

        @workflows.step
        def ship(self, ctx):
            return workflows.Done({"paid": True}) if ctx.awaited else workflows.Stop("payment never came")

    from workflows.testing import advance, drain

    workflows.workspace.create("acme")
    prepared: dict[str, Any] = {"start": workflows.start}
    if name == "testing":
        prepared["instance"] = workflows.start(Ship)
    if name == "api.instances":
        shipped, failed = workflows.start(Ship), workflows.start(Ship)
        workflows.signal(shipped, "payment_confirmed")
        drain()
        advance("24h")
        prepared |= {"shipped_instance": shipped, "failed_instance": failed}
    return prepared
