"""System checks of inbound hooks."""

from __future__ import annotations

from typing import Any

import pytest
from django.core.checks import run_checks

from tests.support.hook_posts import signed
from workflows import hook
from workflows.hooks import standard_webhooks, stripe

OURS = ("holdpoint.W046", "holdpoint.E034", "holdpoint.E036")


def look(*, deploy: bool = True) -> dict[str, Any]:
    found = run_checks(tags=["holdpoint"], include_deployment_checks=deploy, databases=[])
    return {str(one.id): one for one in found if one.id in OURS}


def test_hooks_that_no_address_leads_to_are_named(settings: Any) -> None:
    settings.ROOT_URLCONF = "approvals.urls"
    assert look() == {}  # there is none
    for n in range(7):
        hook(f"hook-{n}", verify=signed)(lambda message: None)
    found = look()["holdpoint.W046"]
    assert "'hook-0', 'hook-1', 'hook-2', 'hook-3', 'hook-4', …" in found.msg
    assert 'include("workflows.urls")' in found.hint
    for routes in ("config.urls", "workflows.urls", "workflows.urls_hooks", None):  # None: it serves nothing
        settings.ROOT_URLCONF = routes
        assert look() == {}


@pytest.mark.parametrize("secret", [lambda: None, lambda: "", list, lambda: {}["STRIPE_SECRET"]])
def test_a_missing_secret_is_named_before_a_deployment(secret: Any) -> None:
    hook("stripe", verify=stripe(secret))(lambda message: None)
    assert look(deploy=False) == {}
    found = look()["holdpoint.E034"]
    assert "Hook 'stripe' (tests.workflows.hooks.test_hook_checks." in found.msg
    assert "cannot verify anything: it" in found.msg


def test_no_check_shows_a_secret() -> None:
    hook("standard", verify=standard_webhooks(lambda: ["whsec_no base64 at all"]))(lambda message: None)
    found = look()["holdpoint.E034"]
    assert "not base64" in found.msg
    assert "at all" not in f"{found}"


def test_a_hook_with_a_secret_and_one_with_a_verifier_of_its_own_pass() -> None:
    hook("stripe", verify=stripe(lambda: "x"))(lambda message: None)
    hook("own", verify=lambda request: True, id=lambda message: "1")(lambda message: None)
    assert look() == {}


def test_a_message_that_is_forgotten_while_its_signature_is_good_is_named(settings: Any) -> None:
    """One may be signed by a clock that is five minutes ahead, and is then good for ten."""
    hook("stripe", verify=stripe(lambda: "x"))(lambda message: None)
    settings.WORKFLOWS = {**settings.WORKFLOWS, "HOOK_RETENTION": "9m"}
    assert "Hook 'stripe' takes what was signed within 600 s" in look()["holdpoint.E036"].msg
    assert look(deploy=False) == {}
    settings.WORKFLOWS = {**settings.WORKFLOWS, "HOOK_RETENTION": "10m"}
    assert look() == {}
    settings.WORKFLOWS = {**settings.WORKFLOWS, "HOOK_RETENTION": "soon"}
    assert look() == {}  # E031 tells of that
