"""The settings of webhooks: what is read, what checks say, and that no secret is shown."""

from __future__ import annotations

from typing import Any

import pytest
from django.core.checks import run_checks

import workflows
from tests.support.notices import Place, answer
from tests.support.webhook.partners import allow, newest
from tests.support.webhook.secrets import NEW, OLD
from workflows import InvalidCall
from workflows.conf import conf
from workflows.conf.settings import find_problems
from workflows.outbound.address_guard import Guard, Unreachable, find_addresses, read_allowed
from workflows.testing import drain


@pytest.mark.parametrize(
    "given",
    [
        {"default": "not base64!"},
        {"default": "c2hvcnQ="},
        {"default": "whsec_" + "A" * 200},
        {"default": []},
        {"default": [OLD, 7]},
        {"": OLD},
        OLD,
        [OLD],
    ],
)
def test_a_secret_that_cannot_sign_is_named_and_not_shown(settings: Any, given: Any) -> None:
    settings.WORKFLOWS = {"WEBHOOK_SECRETS": given}
    [problem] = find_problems()
    assert problem.name == "WEBHOOK_SECRETS"
    assert "C2FV" not in problem.what + problem.fix
    assert "AAAA" not in problem.what + problem.fix


@pytest.mark.parametrize("given", [{"default": OLD}, {"default": [NEW, OLD], "bank": NEW.removeprefix("whsec_")}])
def test_secrets_with_and_without_their_prefix_are_good(settings: Any, given: Any) -> None:
    settings.WORKFLOWS = {"WEBHOOK_SECRETS": given}
    assert list(find_problems()) == []
    assert conf.find_webhook_keys("default")


@pytest.mark.parametrize("given", ["localhost", [7], ["http://x"], ["10.0.0.1/8"], ["10.0.0"], ["*"], ["a b"], [""]])
def test_what_is_no_host_and_no_network_is_named(settings: Any, given: Any) -> None:
    settings.WORKFLOWS = {"WEBHOOK_ALLOWED": given}
    [problem] = find_problems()
    assert problem.name == "WEBHOOK_ALLOWED"


def test_hosts_domains_addresses_and_networks_are_allowed() -> None:
    guard = read_allowed(["Billing.Internal.", "*.svc.local", "10.1.2.3", "192.168.0.0/16", "::1", "fd00::/8"], "")
    for name in ("billing.internal", "BILLING.internal.", "a.svc.local", "a.b.svc.local"):
        assert guard.knows_name(name)
    for name in ("internal", "xbilling.internal", "svc.local", "evil-svc.local"):
        assert not guard.knows_name(name)
    for address in ("10.1.2.3", "192.168.7.7", "::1", "fd00::7", "::ffff:10.1.2.3", "8.8.8.8"):
        assert guard.allows(address)
    for address in ("10.1.2.4", "127.0.0.1", "169.254.169.254", "fe80::1", "nonsense"):
        assert not guard.allows(address)


def test_an_allowed_network_opens_no_other_address_of_a_name(monkeypatch: pytest.MonkeyPatch) -> None:
    import socket

    found = [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (one, 443)) for one in ("10.1.2.3", "127.0.0.1")]
    monkeypatch.setattr(socket, "getaddrinfo", lambda *args, **options: found)
    with pytest.raises(Unreachable, match=r"leads inside \(127.0.0.1\)"):
        find_addresses("both.example", 443, read_allowed(["10.0.0.0/8"], ""))
    assert find_addresses("both.example", 443, Guard(everything=True)) == ["10.1.2.3", "127.0.0.1"]


def test_a_development_site_has_a_secret_of_its_own_and_another_none(settings: Any) -> None:
    settings.DEBUG, settings.WORKFLOWS = True, {}
    assert [len(key) for key in conf.find_webhook_keys("default")] == [32]
    settings.DEBUG = False
    assert conf.webhook_secrets == {}


@pytest.mark.django_db
def test_a_check_names_secrets_that_waiting_questions_need(partner: Place, settings: Any) -> None:
    partner.answer = answer(503)
    workflows.start("partners.ask", {"url": partner.url})
    drain()
    assert [one for one in run_checks(databases=["default"]) if one.id == "holdpoint.E035"] == []
    allow(settings, WEBHOOK_SECRETS={"bank": NEW})
    [told] = [one for one in run_checks(databases=["default"]) if one.id == "holdpoint.E035"]
    assert "'default' (1 question)" in told.msg
    assert newest().dispatch_at is not None


def test_an_unreadable_host_is_told_how_to_write_one() -> None:
    with pytest.raises(InvalidCall, match=r"10\.0\.0\.0/8"):
        read_allowed(["10.0.0.1/8"], "")
