"""System checks of approvals: what cannot work, in `msg`, and what to write instead, in `hint`.

Lives here: questions to the settings, to templates and to the approvals that machines declare, which cost nothing. What
needs rows is asked in `review_checks`. As with the engine's checks, errors are what loses or stops work, warnings what
surprises, and what only matters where mails leave the machine is said by `check --deploy` alone. The name of the
package is checked by the engine, for both packages.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from django.conf import global_settings, settings
from django.core.checks import CheckMessage, Error, Tags, Warning, register
from django.core.exceptions import ImproperlyConfigured
from django.shortcuts import resolve_url
from django.template import TemplateDoesNotExist, TemplateSyntaxError
from django.template.loader import get_template
from django.urls import NoReverseMatch, Resolver404, resolve, reverse

from approvals.asking.approval import Approval
from approvals.conf import DEFAULTS, conf, find_problems
from approvals.exceptions import InvalidApproval, UnknownCalendar
from approvals.notify.failures import hide_secrets
from approvals.notify.messages.smtp import connect
from approvals.people.principals import find_rule
from approvals.rules import find_last_concern
from approvals.rules.calendar import find_calendar
from approvals.rules.escalation import list_concerns
from workflows.definitions import registry
from workflows.exceptions import InvalidCall
from workflows.outbound.webhook_signature import read_secret
from workflows.styles.machine.machine import Machine
from workflows.styles.machine.stages import WaitFor

#: The same as the engine's, so that one `check --tag holdpoint` asks everything.
TAG = "holdpoint"

#: What to do about a last outcome that says yes.
LAST_HINT = "Write the outcome last by which nothing happens, such as 'reject'; the order is that of the buttons too."

Check = Callable[..., list[CheckMessage]]


def register_checks() -> None:
    """Make the checks known to Django; called once, when the app is ready."""
    from approvals.operations.review_checks import check_names, check_reviews

    for check in (check_time, check_settings, check_base_template, check_machines, check_routes, check_login):
        register(_as_list(check), TAG)
    register(_as_list(check_messages), TAG, deploy=True)
    for asked in (check_reviews, check_names):
        register(asked, TAG, Tags.database)


def check_time() -> Iterator[CheckMessage]:
    """Moments without a zone: due times, ladders, graces and links would each be hours off, or fail."""
    if not settings.USE_TZ:
        yield Error(
            "USE_TZ is False, and approvals compare moments of several clocks: they do not work without time zones.",
            hint="Set USE_TZ = True (Django's default) and keep TIME_ZONE; or take 'approvals' out of INSTALLED_APPS.",
            id="holdpoint_approvals.E005",
        )


def check_settings() -> Iterator[CheckMessage]:
    """APPROVALS."""
    for problem in find_problems():
        if problem.name and problem.what.endswith("changes nothing."):
            yield Warning(problem.what, hint=problem.fix, id="holdpoint_approvals.W001")
        else:
            yield Error(problem.what, hint=f"{problem.fix.rstrip('.')}.", id="holdpoint_approvals.E002")
    for name, hook in _list_webhooks():
        try:
            read_secret(hook.get("secret") or "")
        except InvalidCall:
            yield Error(
                f'APPROVALS["WEBHOOKS"][{name!r}]["secret"] is not base64, so nothing could be signed and sent.',
                hint="Make one: openssl rand -base64 32.",
                id="holdpoint_approvals.E004",
            )


def check_base_template() -> Iterator[CheckMessage]:
    """The template that all pages for reviewers extend."""
    name = conf.base_template
    try:
        get_template(name)
    except TemplateDoesNotExist as error:
        is_ours = name == DEFAULTS["BASE_TEMPLATE"]
        lacking = f"it extends {error}, which is" if str(error) != name else "it is"
        yield Error(
            f"The reviewers' pages extend the template {name!r}, and {lacking} not found.",
            hint=_tell_where_ours_are()
            if is_ours
            else 'Put it into a folder of TEMPLATES, or leave out APPROVALS["BASE_TEMPLATE"].',
            id="holdpoint_approvals.E003",
        )
    except (TemplateSyntaxError, ImproperlyConfigured) as error:
        yield Error(
            f"The reviewers' pages extend the template {name!r}, which cannot be read: {error}.",
            hint="Put the template right, or list a DjangoTemplates backend in TEMPLATES.",
            id="holdpoint_approvals.E003",
        )


def _tell_where_ours_are() -> str:
    """A wheel has the templates beside the apps. A clone, and so an editable install, has them in a folder apart."""
    folder = Path(__file__).resolve().parents[2] / "templates"
    if not (folder / DEFAULTS["BASE_TEMPLATE"]).is_file() or not any(one.get("APP_DIRS") for one in settings.TEMPLATES):
        return 'Set "APP_DIRS": True for the DjangoTemplates in TEMPLATES.'
    return (
        "Holdpoint is installed from a clone in editable mode, which leaves the templates in the clone: add "
        f'{str(folder)!r} to "DIRS" of the DjangoTemplates in TEMPLATES, or install it without -e.'
    )


# --- approvals that are declared ----------------------------------------------------------------------------


def check_machines() -> Iterator[CheckMessage]:
    """The approvals of machines, which are there before anybody is asked. Those of steps are made when they run."""
    for where, approval, has_timeout in list_declared():
        if isinstance(approval.candidates, str):
            try:
                find_rule(approval.candidates)
            except InvalidApproval as error:
                yield Error(
                    f"{where} asks the rule {approval.candidates!r}, which is not registered: it would fail there.",
                    hint=f"{_capitalise(str(error).partition('. ')[2] or str(error))}.",
                    id="holdpoint_approvals.E010",
                )
        try:
            find_calendar(approval.ladder.calendar)
        except UnknownCalendar as error:
            yield Error(
                f"{where} counts by the calendar {approval.ladder.calendar!r}, which is not registered: it would fail "
                "there.",
                hint=_capitalise(str(error).partition("). ")[2]),
                id="holdpoint_approvals.E011",
            )
        yield from _tell_concerns(where, approval, has_timeout=has_timeout)
        if concern := find_last_concern(approval.outcomes, approval.quorum):
            yield Warning(f"{where}: {concern}.", hint=LAST_HINT, id="holdpoint_approvals.W013")


def list_declared() -> Iterator[tuple[str, Approval, bool]]:
    """Where a machine that is registered has an approval, which one, and whether its wait ends by itself."""
    current = {id(one) for one in registry.list_definitions()}
    for machine in _list_machines(Machine):
        if id(getattr(machine, "definition", None)) not in current:
            continue
        for name in dir(machine):
            stage = getattr(machine, name)
            if isinstance(stage, WaitFor) and isinstance(stage.channel, Approval):
                where = f"The stage {name!r} of machine {machine.definition.source}"
                yield where, stage.channel, stage.timeout is not None


def _list_machines(base: type[Machine]) -> Iterator[type[Machine]]:
    for machine in base.__subclasses__():
        yield machine
        yield from _list_machines(machine)


def _tell_concerns(where: str, approval: Approval, *, has_timeout: bool) -> Iterator[CheckMessage]:
    answers = any(step.action.outcome for step in approval.ladder.steps)
    if has_timeout and not answers:
        return  # the end of the wait is the end of the silence
    for concern in list_concerns(approval.ladder, approval.outcomes):
        yield Warning(
            f"{where}: {concern}.",
            hint="If it is meant so, silence this check: SILENCED_SYSTEM_CHECKS = ['holdpoint_approvals.W012'].",
            id="holdpoint_approvals.W012",
        )


# --- where people are sent, and what leaves the machine -------------------------------------------------------


def check_routes() -> Iterator[CheckMessage]:
    """Whether the addresses in messages lead anywhere; a process without routes leaves the pages to others."""
    if not getattr(settings, "ROOT_URLCONF", None):
        return
    try:
        reverse("approvals:inbox")
    except (NoReverseMatch, ImproperlyConfigured):
        yield Warning(
            f'ROOT_URLCONF ({settings.ROOT_URLCONF!r}) does not include "approvals.urls": there is no inbox, and the '
            "links in messages lead to a 404.",
            hint='Add path("approvals/", include("approvals.urls")) to its urlpatterns.',
            id="holdpoint_approvals.W019",
        )


def check_login() -> Iterator[CheckMessage]:
    """Where somebody is sent who opens a link from an e-mail without being logged in."""
    try:
        reverse("approvals:inbox")
    except (NoReverseMatch, ImproperlyConfigured):
        return  # no pages, no login
    try:
        path = urlsplit(resolve_url(settings.LOGIN_URL))
        if not path.netloc:
            resolve(path.path)
    except (NoReverseMatch, Resolver404) as error:
        page = "404" if isinstance(error, Resolver404) else "an error 500, because no route has this name"
        yield Warning(
            f"LOGIN_URL is {str(settings.LOGIN_URL)!r}, which leads nowhere: a reviewer who is not logged in gets "
            f"{page}.",
            hint="Set LOGIN_URL to the address or the name of your login page; without one, add "
            'path("accounts/login/", LoginView.as_view(template_name="admin/login.html")), with LoginView from '
            "django.contrib.auth.views. "
            '"admin:login" would let in staff only.',
            id="holdpoint_approvals.W020",
        )


def check_messages() -> Iterator[CheckMessage]:
    """What leaves the machine: e-mails and webhooks."""
    if conf.email and conf.from_email == global_settings.DEFAULT_FROM_EMAIL:
        yield Warning(
            f"Reviewers' e-mails would come from {conf.from_email}, which most servers refuse.",
            hint='Set APPROVALS["FROM_EMAIL"] or DEFAULT_FROM_EMAIL; without e-mails, APPROVALS["EMAIL"] = False.',
            id="holdpoint_approvals.W021",
        )
    if conf.email:
        yield from _check_mail_backend()
    for name, hook in _list_webhooks():
        if str(hook.get("url", "")).startswith("http://") and not conf.webhooks_private:
            yield Warning(
                f'APPROVALS["WEBHOOKS"][{name!r}] is called by http: what waits for a decision travels in the clear.',
                hint="Write its address with https.",
                id="holdpoint_approvals.W022",
            )


def _check_mail_backend() -> Iterator[CheckMessage]:
    """That there is a backend to hand mails to. It is made and not opened: a build has no mail server to reach."""
    try:
        connect()
    except Exception as error:  # whatever a backend of the project's own raises
        why = hide_secrets(f"{type(error).__name__}: {error}")
        yield Error(
            f"No e-mail can be sent, because the mail backend of this site cannot be made ({why:.300}).",
            hint=f'Correct {_name_mail_settings()}, or write APPROVALS["EMAIL"] = False where nobody gets e-mails.',
            id="holdpoint_approvals.E023",
        )


def _name_mail_settings() -> str:
    """Where Django reads about mail."""
    if hasattr(settings, "MAILERS"):
        return 'MAILERS["default"], its BACKEND and its OPTIONS'
    return "EMAIL_BACKEND and the other EMAIL_… settings"


def _list_webhooks() -> list[tuple[str, Mapping[str, Any]]]:
    """Those that can be read; the others are reported."""
    given: Any = conf.given.get("WEBHOOKS")
    return [one for one in given.items() if isinstance(one[1], Mapping)] if isinstance(given, Mapping) else []


def _capitalise(text: str) -> str:
    return text[:1].upper() + text[1:]


@functools.cache  # apps may be set up again (tests do), and Django knows a check by its identity
def _as_list(check: Callable[[], Iterator[CheckMessage]]) -> Check:
    def run(app_configs: Any = None, **kwargs: Any) -> list[CheckMessage]:
        return list(check())

    return run
