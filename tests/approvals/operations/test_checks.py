"""System checks of approvals: each names what is wrong, and what to write instead."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from django.contrib.auth.models import Group, Permission, User
from django.contrib.contenttypes.models import ContentType
from django.core.checks import CheckMessage, run_checks
from django.db import connection
from django.test.utils import CaptureQueriesContext

import workflows
from approvals import Approval, Calendar, Outcome, Veto, candidates, register_calendar
from approvals.conf import DEFAULTS, conf
from approvals.models import Review, writer
from approvals.people import principals
from approvals.rules import calendar
from workflows import Await, Done, Machine, Workflow, action, step, wait_for
from workflows.definitions import registry
from workflows.testing import drain

ROOT = Path(__file__).resolve().parents[3]


def look(*, deploy: bool = False, database: bool = False) -> dict[str, CheckMessage]:
    """What the checks of approvals say, by id; of machines about this file's only, because other tests define some."""
    databases = ["default"] if database else []  # None is all of them from Django 6.1 on
    found = run_checks(tags=["holdpoint"], include_deployment_checks=deploy, databases=databases)
    mine = [one for one in found if one.id and one.id.startswith("holdpoint_approvals.")]
    mine = [one for one in mine if " of machine " not in one.msg or __name__ in one.msg]
    assert all(one.hint and one.hint.endswith((".", ")", "?")) and one.msg.endswith(".") for one in mine), mine
    return {str(one.id).removeprefix("holdpoint_approvals."): one for one in mine}


@pytest.fixture
def forget(monkeypatch: pytest.MonkeyPatch) -> None:
    """Definitions, rules and calendars of this test go with it."""
    monkeypatch.setattr(registry, "_definitions", dict(registry._definitions))
    monkeypatch.setattr(registry, "_latest", dict(registry._latest))
    monkeypatch.setattr(principals, "_rules", dict(principals._rules))
    monkeypatch.setattr(calendar, "_registered", dict(calendar._registered))


def test_the_runnable_site_has_nothing_to_hear() -> None:
    assert look(deploy=True) == {}


def test_a_project_without_time_zones_is_refused(settings: Any) -> None:
    settings.USE_TZ = False
    found = look()
    assert list(found) == ["E005"]
    assert found["E005"].is_serious()
    assert "Set USE_TZ = True" in str(found["E005"].hint)


# --- APPROVALS ----------------------------------------------------------------------------------------------


def test_every_default_is_accepted(settings: Any) -> None:
    settings.APPROVALS = {**DEFAULTS}
    assert look(deploy=True) == {}


def test_every_setting_is_accepted(settings: Any) -> None:
    settings.APPROVALS = {
        "UNDO_SECONDS": 0,
        "BASE_TEMPLATE": "holdpoint/base.html",
        "REAUTHENTICATE": True,
        "NUDGE_COOLDOWN": "90m",
        "EMAIL": False,
        "FROM_EMAIL": "reviews@holdpoint.example",
        "WEBHOOKS": {"ops": {"url": "https://ops.example/hook", "format": "slack", "secret": "x" * 32}},
        "WEBHOOKS_PRIVATE": True,
    }
    assert look(deploy=True) == {}
    assert conf.from_email == "reviews@holdpoint.example"


def test_a_misspelled_setting_is_named_with_the_right_one(settings: Any) -> None:
    settings.APPROVALS = {"UNDO_SECOND": 5}
    found = look()
    assert list(found) == ["W001"]
    assert "'UNDO_SECOND'" in found["W001"].msg
    assert found["W001"].hint == "Did you mean UNDO_SECONDS?"


@pytest.mark.parametrize(
    ("name", "value", "fix"),
    [
        ("UNDO_SECONDS", -1, "from 0 to 3600"),
        ("UNDO_SECONDS", "8s", "from 0 to 3600"),
        ("UNDO_SECONDS", True, "from 0 to 3600"),
        ("REAUTHENTICATE", 1, "True or False"),
        ("NUDGE_COOLDOWN", "often", "timedelta"),
        ("NUDGE_COOLDOWN", 0, "timedelta"),
        ("EMAIL", None, "True or False"),
        ("FROM_EMAIL", "reviews", "an e-mail address"),
        ("WEBHOOKS", ["https://ops.example"], '"ops"'),
        ("WEBHOOKS", {"ops": "https://ops.example"}, '"ops"'),
        ("WEBHOOKS", {"ops": {"url": "ops.example"}}, '"ops"'),
        ("WEBHOOKS", {"ops": {"url": "https://ops.example", "format": "xml"}}, "slack"),
        ("WEBHOOKS_PRIVATE", "no", "True or False"),
    ],
)
def test_a_value_that_cannot_be_read_is_named(settings: Any, name: str, value: object, fix: str) -> None:
    settings.APPROVALS = {name: value}
    found = look()
    assert list(found) == ["E002"]
    assert f'APPROVALS["{name}"]' in found["E002"].msg
    assert fix in str(found["E002"].hint)


def test_the_secret_of_a_webhook_is_never_shown(settings: Any) -> None:
    settings.APPROVALS = {"WEBHOOKS": {"ops": {"url": "ops.example", "secret": "hunter2"}}}
    assert "hunter2" not in str(look(deploy=True)["E002"])


def test_a_secret_that_cannot_sign_is_named_and_not_shown(settings: Any) -> None:
    settings.APPROVALS = {"WEBHOOKS": {"ops": {"url": "https://ops.example", "secret": "hunter2!"}}}
    found = look()
    assert list(found) == ["E004"]
    assert "hunter2" not in str(found["E004"])
    settings.APPROVALS = {"WEBHOOKS": {"ops": {"url": "https://ops.example", "secret": "whsec_c2VjcmV0"}}}
    assert look() == {}


def test_a_setting_that_is_no_dictionary(settings: Any) -> None:
    settings.APPROVALS = [("UNDO_SECONDS", 5)]
    assert "not a dictionary" in look(deploy=True)["E002"].msg


# --- the site -----------------------------------------------------------------------------------------------


def test_a_base_template_that_is_not_there_is_named(settings: Any) -> None:
    settings.APPROVALS = {"BASE_TEMPLATE": "site/base.html"}
    found = look()
    assert list(found) == ["E003"]
    assert "'site/base.html'" in found["E003"].msg
    assert "TEMPLATES" in str(found["E003"].hint)


def test_a_base_template_that_cannot_be_read_is_named(settings: Any, tmp_path: Path) -> None:
    (tmp_path / "broken.html").write_text("{% nonsense %}")
    settings.TEMPLATES = [{**settings.TEMPLATES[0], "DIRS": [tmp_path]}]
    settings.APPROVALS = {"BASE_TEMPLATE": "broken.html"}
    assert "nonsense" in look()["E003"].msg


def test_without_the_apps_own_templates_the_hint_says_app_dirs(settings: Any) -> None:
    settings.TEMPLATES = [{"BACKEND": settings.TEMPLATES[0]["BACKEND"], "DIRS": [], "APP_DIRS": False}]
    assert "APP_DIRS" in str(look()["E003"].hint)


def test_an_editable_install_is_told_which_folder_of_the_clone_has_the_templates(settings: Any) -> None:
    settings.TEMPLATES = [{"BACKEND": settings.TEMPLATES[0]["BACKEND"], "DIRS": [], "APP_DIRS": True}]
    hint = str(look()["E003"].hint)
    assert "without -e" in hint
    assert repr(str(ROOT / "templates")) in hint
    assert "APP_DIRS" not in hint


def test_a_login_page_that_is_not_there_is_named(settings: Any) -> None:
    settings.LOGIN_URL = "/accounts/login/"
    assert list(look()) == ["W020"]
    assert "LoginView" in str(look()["W020"].hint)
    assert '"admin:login" would let in staff only' in str(look()["W020"].hint)
    for url in ("admin:login", "/admin/login/", "https://login.example/"):
        settings.LOGIN_URL = url
        assert look(deploy=True) == {}


def test_a_login_page_whose_name_no_route_has_is_named_and_not_raised(settings: Any) -> None:
    settings.LOGIN_URL = "no-such-login"
    found = look()
    assert list(found) == ["W020"]
    assert "'no-such-login'" in found["W020"].msg
    assert "no route has this name" in found["W020"].msg
    assert "LoginView" in str(found["W020"].hint)


def test_a_site_without_the_pages_is_told_which_include_is_missing_and_needs_no_login(settings: Any) -> None:
    settings.LOGIN_URL = "/accounts/login/"
    settings.ROOT_URLCONF = "workflows.urls"
    found = look(deploy=True)
    assert list(found) == ["W019"]
    assert "links in messages lead to a 404" in found["W019"].msg
    assert 'path("approvals/", include("approvals.urls"))' in str(found["W019"].hint)
    settings.ROOT_URLCONF = None  # a process that serves nothing
    assert look() == {}


def test_mails_from_nowhere_are_named_in_production(settings: Any) -> None:
    settings.DEFAULT_FROM_EMAIL = "webmaster@localhost"
    assert look() == {}
    assert "webmaster@localhost" in look(deploy=True)["W021"].msg
    for way in ({"FROM_EMAIL": "reviews@holdpoint.example"}, {"EMAIL": False}):
        settings.APPROVALS = way
        assert look(deploy=True) == {}


def test_a_webhook_in_the_clear_is_named_in_production(settings: Any) -> None:
    settings.APPROVALS = {"WEBHOOKS": {"ops": {"url": "http://ops.example/hook"}}}
    assert look() == {}
    assert "'ops'" in look(deploy=True)["W022"].msg
    settings.APPROVALS = {**settings.APPROVALS, "WEBHOOKS_PRIVATE": True}  # then it stays in the house
    assert look(deploy=True) == {}


def test_links_in_mails_need_an_address_and_a_key(settings: Any) -> None:
    settings.WORKFLOWS = {}
    found = {one.id: one for one in run_checks(include_deployment_checks=True)}
    assert "approvals cannot be made" in found["holdpoint.W032"].msg


# --- the apps -----------------------------------------------------------------------------------------------


def run_check_without(names: set[str], folder: Path) -> str:
    (folder / "bare.py").write_text(
        "from config.settings import *\n"
        f"INSTALLED_APPS = [one for one in INSTALLED_APPS if one not in {names | {'examples'}!r}]\n"
    )
    answer = subprocess.run(
        [sys.executable, "manage.py", "check"],
        cwd=ROOT,
        env={**os.environ, "DEBUG": "1", "DJANGO_SETTINGS_MODULE": "bare", "PYTHONPATH": str(folder)},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert answer.returncode
    return answer.stderr.strip().splitlines()[-1]


@pytest.mark.process
@pytest.mark.parametrize("names", [["workflows"], ["django.contrib.auth"], ["contenttypes", "auth"]])
def test_an_app_that_approvals_need_is_named_before_anything_breaks(names: list[str], tmp_path: Path) -> None:
    full = [name if name == "workflows" else f"django.contrib.{name.rpartition('.')[2]}" for name in names]
    told = run_check_without({*full, "django.contrib.admin"}, tmp_path)
    needed = " and ".join(map(repr, full))
    assert told.startswith(f"django.core.exceptions.ImproperlyConfigured: approvals needs {needed} in INSTALLED_APPS")


@pytest.mark.process
@pytest.mark.parametrize(
    ("forgotten", "line"),
    [("approvals", "from approvals.models import Review"), ("workflows", "from workflows.models import Instance")],
)
def test_an_app_that_is_imported_but_not_installed_is_named(forgotten: str, line: str) -> None:
    installed = ["django.contrib.contenttypes", "django.contrib.auth"]
    installed += ["workflows"] if forgotten == "approvals" else []
    answer = subprocess.run(
        [
            sys.executable,
            "-c",
            "import django; from django.conf import settings\n"
            f"settings.configure(INSTALLED_APPS={installed!r}); django.setup()\n{line}",
        ],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    told = answer.stderr.strip().splitlines()[-1]
    assert "ImproperlyConfigured: Code of yours imports" in told
    assert told.endswith(f"INSTALLED_APPS lacks it: add {forgotten!r}, then run `python manage.py migrate`.")


# --- what machines declare ----------------------------------------------------------------------------------


def declare(approval: Any, **options: Any) -> type[Machine]:
    class Publish(Machine):
        name = "checked-publish"
        gate = wait_for(channel=approval, **options)
        done = action(lambda ctx: {"outcome": ctx.steps.gate.outcome})

    return Publish


@pytest.mark.usefixtures("forget")
def test_a_rule_that_a_machine_asks_has_to_be_registered() -> None:
    kept = declare(Approval("Publish it", candidates="checked_on_call"))
    found = look()
    assert list(found) == ["E010"]
    assert "stage 'gate'" in found["E010"].msg
    assert "@candidates" in str(found["E010"].hint)
    candidates("checked_on_call")(lambda: User.objects.none())
    assert look() == {}
    assert kept.definition.name == "checked-publish"


@pytest.mark.usefixtures("forget")
def test_a_calendar_that_a_machine_counts_by_has_to_be_registered() -> None:
    kept = declare(Approval("Publish it", calendar="checked-office", due="2d"))
    found = look()
    assert list(found) == ["E011"]
    assert "'checked-office'" in found["E011"].msg
    assert "register_calendar" in str(found["E011"].hint)
    register_calendar("checked-office", Calendar("UTC"))
    assert look() == {}
    assert kept.definition.name == "checked-publish"


@pytest.mark.usefixtures("forget")
def test_silence_that_says_yes_in_a_machine_is_worth_a_thought(settings: Any) -> None:
    kept = declare(Approval("Publish it", escalate=[("2d", ("outcome", "approve"))]), timeout="7d")
    assert "'approve' by itself" in look()["W012"].msg
    settings.SILENCED_SYSTEM_CHECKS = ["holdpoint_approvals.W012"]
    assert all(one.is_silenced() for one in look().values())
    assert kept.definition.name == "checked-publish"


@pytest.mark.usefixtures("forget")
def test_a_ladder_of_a_machine_that_ends_in_nothing_is_worth_a_thought_where_the_wait_is_endless() -> None:
    ladder = [("2d", ("add", "finance"))]
    kept = declare(Approval("Publish it", escalate=ladder))
    assert "nothing answers" in look()["W012"].msg
    kept = declare(Approval("Publish it", escalate=ladder), timeout="7d")
    assert look() == {}
    kept = declare(Approval("Publish it", escalate=[*ladder, ("3d", ("outcome", "reject"))]))
    assert look() == {}
    assert kept.definition.name == "checked-publish"


@pytest.mark.usefixtures("forget")
def test_an_approval_that_is_made_when_the_stage_runs_is_not_looked_at() -> None:
    kept = declare(lambda ctx: Approval("Publish it", candidates="checked_on_call"))
    assert look() == {}
    assert kept.definition.name == "checked-publish"


@pytest.mark.usefixtures("forget")
@pytest.mark.django_db
def test_groups_and_users_that_a_machine_names_have_to_be_there() -> None:
    ladder = [("2d", ("reassign", "directors")), ("3d", ("add", "user", "cid"))]
    kept = declare(Approval("Publish it", groups=["finance"], assignees=["ann"], escalate=ladder), timeout="7d")
    assert look() == {}
    message = look(database=True)["W035"].msg
    assert "asks group 'finance', group 'directors', user 'ann', user 'cid'" in message
    for name in ("finance", "directors"):
        Group.objects.create(name=name)
    User.objects.create_user("ann")
    assert "asks user 'cid'," in look(database=True)["W035"].msg
    User.objects.create_user("cid")
    assert look(database=True) == {}
    assert kept.definition.name == "checked-publish"


@pytest.mark.usefixtures("forget")
def test_a_lost_vote_that_says_yes_in_a_machine_is_worth_a_thought() -> None:
    kept = declare(Approval("Publish it", quorum=2, outcomes=("reject", "approve")), timeout="7d")
    assert "stage 'gate'" in look()["W013"].msg
    assert "the answer is 'approve'" in look()["W013"].msg
    for yes in (Outcome("pay", tone="positive"), Outcome("approve", tone="neutral"), "edit_and_approve"):
        kept = declare(Approval("Publish it", quorum="50%", outcomes=("reject", yes)), timeout="7d")
        assert list(look()) == ["W013"]
    for quorum, outcomes in {
        1: ("reject", "approve"),  # one vote is never lost
        Veto(1): ("reject", "approve"),
        2: ("approve", "reject"),
        3: ("approve",),
        "all": ("approve", Outcome("delete", tone="negative")),
    }.items():
        kept = declare(Approval("Publish it", quorum=quorum, outcomes=outcomes), timeout="7d")
        assert look() == {}
    assert kept.definition.name == "checked-publish"


# --- what open reviews need ---------------------------------------------------------------------------------


class Ask(Workflow):
    name = "checked-ask"

    @step
    def ask(self, ctx: Any) -> Any:
        return Await(Approval("Do it", **made), then="end", timeout=ctx.input.get("timeout"))

    @step
    def end(self, ctx: Any) -> Any:
        return Done()


made: dict[str, Any] = {}


@pytest.fixture
def ask(db: None) -> Iterator[Any]:
    """Ask with these options, so often; the reviews."""

    def do(times: int = 1, *, timeout: str | None = None, **options: Any) -> list[Review]:
        made.clear()
        made.update(options)
        started = [workflows.start(Ask, {"timeout": timeout}) for _ in range(times)]
        drain()
        return list(Review.objects.filter(instance__in=started))

    yield do
    made.clear()


def approve_it(answer: Any, instance: Any) -> None:
    """Stands for the project's own function."""


def test_open_reviews_that_lack_nothing_are_passed_over(ask: Any) -> None:
    Group.objects.create(name="finance")
    user = User.objects.create_user("ann")
    ask(
        subject=user,
        groups=["finance"],
        permission="auth.change_user",
        on_decision=approve_it,
        escalate=[("2d", ("outcome", "reject"))],
    )
    assert look(database=True) == {}


@pytest.mark.usefixtures("forget")
def test_a_rule_that_reviews_need_and_that_is_gone_is_named(ask: Any) -> None:
    candidates("checked_on_call")(lambda: User.objects.all())
    ask(2, candidates="checked_on_call")
    assert look(database=True) == {}
    del principals._rules["checked_on_call"]
    assert look() == {}
    message = look(database=True)["E030"]
    assert message.msg.startswith("2 open reviews wait for whoever the rule 'checked_on_call' names")
    assert '@candidates("checked_on_call")' in str(message.hint)


def test_a_function_that_reviews_need_and_that_is_gone_is_named(ask: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    ask(on_decision=approve_it)
    assert look(database=True) == {}
    monkeypatch.delitem(globals(), "approve_it")
    message = look(database=True)["E031"].msg
    assert message.startswith(
        "1 open review waits with the function 'tests.approvals.operations.test_checks:approve_it'"
    )
    assert "AttributeError" in message


def test_a_model_that_reviews_are_about_and_that_is_gone_is_named(ask: Any) -> None:
    user = User.objects.create_user("ann")
    [review] = ask(subject=user)
    assert look(database=True) == {}
    writer.rows(Review).filter(pk=review.pk).update(subject_model="shop.parcel")
    assert look(database=True)["E032"].msg.startswith("1 open review is about rows of the model 'shop.parcel'")


def test_a_group_that_was_deleted_is_named(ask: Any) -> None:
    group = Group.objects.create(name="finance")
    ask(groups=["finance"])
    key = group.pk
    group.delete()
    message = look(database=True)["W033"]
    assert message.msg == f"1 open review waits for a group that was deleted (its id was {key})."
    assert "reassign" in str(message.hint)


def test_a_permission_that_does_not_exist_is_named(ask: Any) -> None:
    kind = ContentType.objects.get_for_model(User)
    gone = Permission.objects.create(codename="hire_user", name="Can hire", content_type=kind)
    ask(permission="auth.hire_user")
    assert look(database=True) == {}
    gone.delete()
    assert "'auth.hire_user', which does not exist: only superusers" in look(database=True)["W033"].msg


def test_reviews_that_say_yes_by_themselves_are_worth_a_thought(ask: Any, settings: Any) -> None:
    ask(3, escalate=[("2d", ("outcome", "approve"))])
    message = look(database=True)["W034"].msg
    assert message.startswith("3 open reviews wait in step 'ask' of workflow 'checked-ask': after 2 days")
    assert "'approve' by itself" in message
    settings.SILENCED_SYSTEM_CHECKS = ["holdpoint_approvals.W034"]
    assert all(one.is_silenced() for one in look(database=True).values())


def test_reviews_whose_ladder_ends_in_nothing_are_told_where_the_wait_is_endless(ask: Any) -> None:
    Group.objects.create(name="finance")
    ladder = [("2d", ("add", "finance"))]
    ask(timeout="7d", escalate=ladder)
    ask(escalate=[*ladder, ("3d", ("outcome", "reject"))])
    ask(remind=["1d"])
    assert look(database=True) == {}
    ask(escalate=ladder)
    assert "nothing answers" in look(database=True)["W034"].msg


def test_reviews_whose_lost_vote_says_yes_are_worth_a_thought(ask: Any) -> None:
    Group.objects.create(name="finance")
    ask(groups=["finance"], outcomes=("reject", "approve"))
    ask(groups=["finance"], outcomes=("approve", "reject"), quorum=2)
    assert look(database=True) == {}
    ask(2, groups=["finance"], outcomes=("reject", "approve"), quorum={"finance": 2})
    message = look(database=True)["W036"]
    assert message.msg.startswith("2 open reviews wait in step 'ask' of workflow 'checked-ask': when too few agree")
    assert "withdraw and ask again" in str(message.hint)


@pytest.mark.usefixtures("forget")
def test_decided_reviews_need_nothing_any_more(ask: Any) -> None:
    candidates("checked_on_call")(lambda: User.objects.all())
    ask(candidates="checked_on_call", escalate=[("2d", ("outcome", "approve"))])
    del principals._rules["checked_on_call"]
    workflows.cancel(Review.objects.get().instance)
    assert look(database=True) == {}


def test_the_questions_cost_the_same_for_any_number_of_reviews(ask: Any) -> None:
    Group.objects.create(name="finance")
    options: dict[str, Any] = {"groups": ["finance"], "on_decision": approve_it, "outcomes": ["approve", "reject"]}
    ask(1, **options)
    with CaptureQueriesContext(connection) as few:
        look(database=True)
    ask(20, **options)
    with CaptureQueriesContext(connection) as many:
        look(database=True)
    assert len(few) == len(many)


@pytest.mark.django_db
def test_before_the_first_migrate_there_is_nothing_to_ask() -> None:
    with connection.cursor() as cursor:
        cursor.execute("ALTER TABLE holdpoint_review RENAME TO gone")
    assert look(database=True) == {}
