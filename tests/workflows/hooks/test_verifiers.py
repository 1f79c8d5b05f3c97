"""Verifiers: three schemes against what their authors publish, and what none of them takes."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import pytest
from django.http import HttpRequest
from django.test import RequestFactory
from standardwebhooks import Webhook

from workflows import InvalidDefinition
from workflows.hooks import NotVerified, github, standard_webhooks, stripe, verifiers
from workflows.hooks.verifiers import NoSecret

KEY = "whsec_C2FVsBQIhrscChlQIMV+b5sSYspob7oD"
OTHER = "whsec_aW5ib3VuZC1ob29rcy1vdGhlci1rZXk="
BODY = b'{"id": "evt_1", "type": "invoice.paid"}'


def make(body: bytes, headers: dict[str, str]) -> HttpRequest:
    return RequestFactory().generic("POST", "/hooks/x", body, content_type="application/json", headers=headers)


def refused(verify: Callable[[HttpRequest], Any], body: bytes, headers: dict[str, str]) -> str:
    with pytest.raises(NotVerified) as caught:
        verify(make(body, headers))
    return str(caught.value)


@pytest.fixture
def at(monkeypatch: pytest.MonkeyPatch) -> Callable[[float], None]:
    """The clock of this server."""

    def set_clock(moment: float) -> None:
        monkeypatch.setattr(time, "time", lambda: moment)

    return set_clock


# --- Standard Webhooks ----------------------------------------------------------------------------------------------

#: The example of the specification.
STANDARD = {
    "webhook-id": "msg_p5jXN8AQM9LWM0D4loKWxJek",
    "webhook-timestamp": "1614265330",
    "webhook-signature": "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=",
}
STANDARD_BODY = b'{"test": 2432232314}'
STANDARD_SECRET = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"


@pytest.mark.parametrize("secret", [STANDARD_SECRET, STANDARD_SECRET.removeprefix("whsec_"), f" {STANDARD_SECRET}\n"])
def test_the_published_example_of_standard_webhooks_is_verified(at: Callable[[float], None], secret: str) -> None:
    at(1614265330)
    standard_webhooks(secret)(make(STANDARD_BODY, STANDARD))
    assert "no signature" in refused(standard_webhooks(secret), STANDARD_BODY + b" ", STANDARD)
    for name, other in (("webhook-id", "msg_other"), ("webhook-timestamp", "1614265331")):
        assert "no signature" in refused(standard_webhooks(secret), STANDARD_BODY, STANDARD | {name: other})


def test_what_the_reference_library_signs_is_verified_and_what_we_sign_it_verifies() -> None:
    ours, theirs = standard_webhooks(KEY), Webhook(KEY)
    now = datetime.now(UTC)
    headers = {
        "webhook-id": "msg_1",
        "webhook-timestamp": str(int(now.timestamp())),
        "webhook-signature": theirs.sign("msg_1", now, BODY.decode()),
    }
    ours(make(BODY, headers))
    assert theirs.verify(BODY, ours.sign(BODY)) == json.loads(BODY)


def test_the_headers_of_standard_webhooks_may_have_another_beginning() -> None:
    verify = standard_webhooks(KEY, prefix="svix")
    headers = verify.sign(BODY)
    assert set(headers) == {"svix-id", "svix-timestamp", "svix-signature"}
    verify(make(BODY, headers))
    assert "webhook-id" in refused(standard_webhooks(KEY), BODY, headers)


def test_signatures_of_another_version_do_not_count_and_spoil_nothing() -> None:
    verify = standard_webhooks(KEY)
    headers = verify.sign(BODY)
    good = headers["webhook-signature"]
    verify(make(BODY, headers | {"webhook-signature": f"v1a,AAAA v2,{good[3:]} v1,bad {good} garbage"}))
    for bad in (f"v2,{good[3:]}", good[3:], f"v1a,{good[3:]}", "v1,", ",", "v1"):
        refused(verify, BODY, headers | {"webhook-signature": bad})


def test_an_id_that_could_be_spelt_in_two_ways_is_refused() -> None:
    verify = standard_webhooks(KEY)
    assert "ASCII" in refused(verify, BODY, verify.sign(BODY) | {"webhook-id": "msg_é"})


# --- Stripe ---------------------------------------------------------------------------------------------------------


def test_a_stripe_signature_that_openssl_made_is_verified(at: Callable[[float], None]) -> None:
    # printf '1492774577.{"id": "evt_1"}' | openssl dgst -sha256 -hmac whsec_test_secret
    made = "10b0a2815816a45e6b874658b928cae03296be10637343405aaf1e8306ddffdc"
    at(1492774577)
    # Its published example has a v0 too, which is for tests of its own.
    headers = {"Stripe-Signature": f"t=1492774577,v1={made},v0={'6f' * 32}"}
    stripe("whsec_test_secret")(make(b'{"id": "evt_1"}', headers))
    spread = {"Stripe-Signature": f"t=1492774577, v1={made}, v0={'6f' * 32}"}
    stripe("whsec_test_secret")(make(b'{"id": "evt_1"}', spread))


@pytest.mark.parametrize(
    "change",
    [
        lambda header: header.replace("v1=", "v0="),
        lambda header: header.replace("v1=", "V1="),
        lambda header: header.replace("t=", "x="),
        lambda header: header.partition(",")[0],
        lambda header: header.partition(",")[2],
        lambda header: header[:-1],
        lambda header: header.upper(),
        lambda header: "t=,v1=",
        lambda header: ",,,",
        lambda header: "v1",
        lambda header: f"t=1{header[2:]}",
        lambda header: header[:-2] + "é",
    ],
)
def test_a_stripe_header_of_another_shape_is_refused(change: Callable[[str], str]) -> None:
    verify = stripe("secret")
    header = verify.sign(BODY)["Stripe-Signature"]
    verify(make(BODY, {"Stripe-Signature": header}))
    refused(verify, BODY, {"Stripe-Signature": change(header)})


def test_while_stripe_rolls_a_secret_its_header_has_two_signatures() -> None:
    old, new = stripe("old").sign(BODY)["Stripe-Signature"], stripe("new").sign(BODY)["Stripe-Signature"]
    moment, _, signature = new.partition(",")
    assert old.startswith(moment)
    both = {"Stripe-Signature": f"{old},{signature}"}
    for secret in ("old", "new"):
        stripe(secret)(make(BODY, both))
    refused(stripe("third"), BODY, both)


# --- GitHub ---------------------------------------------------------------------------------------------------------


def test_the_published_example_of_github_is_verified() -> None:
    verify = github("It's a Secret to Everybody")
    signature = "sha256=757107ea0eb2509fc211221cce984b8a37570b6d7586c22c46f4379c8b043e17"
    verify(make(b"Hello, World!", {"X-Hub-Signature-256": signature}))
    for bad in (signature.upper(), signature[7:], f"sha1={signature[7:]}", "sha256=", signature[:-1], f"{signature}0"):
        refused(verify, b"Hello, World!", {"X-Hub-Signature-256": bad})
    assert "no signature" in refused(verify, b"Hello, World?", {"X-Hub-Signature-256": signature})
    assert "lacks the header X-Hub-Signature-256" in refused(verify, b"Hello, World!", {"X-Hub-Signature": signature})


# --- what all have in common ----------------------------------------------------------------------------------------

EACH = pytest.mark.parametrize("scheme", [standard_webhooks, stripe, github])
MOMENTS = pytest.mark.parametrize("scheme", [standard_webhooks, stripe])


@EACH
def test_any_of_several_secrets_will_do_so_that_one_can_be_replaced(scheme: Any) -> None:
    headers = scheme(OTHER).sign(BODY)
    for secrets in (OTHER, [KEY, OTHER], (OTHER, KEY), {OTHER}, lambda: [KEY, OTHER], lambda: OTHER, iter([OTHER])):
        verify = scheme(secrets)
        verify(make(BODY, headers))
        verify(make(BODY, headers))
    refused(scheme([KEY]), BODY, headers)


@EACH
def test_secrets_of_a_function_are_asked_for_at_every_request(scheme: Any) -> None:
    kept = [KEY]
    verify = scheme(lambda: kept)
    headers = scheme(OTHER).sign(BODY)
    refused(verify, BODY, headers)
    kept.append(OTHER)
    verify(make(BODY, headers))


@EACH
def test_each_of_its_headers_has_to_be_there(scheme: Any) -> None:
    headers = scheme(KEY).sign(BODY)
    for name in headers:
        if not name.startswith("X-GitHub-"):  # which are not signed
            assert f"lacks the header {name}" in refused(scheme(KEY), BODY, headers | {name: ""})


@MOMENTS
@pytest.mark.parametrize("off", [-301, 301])
def test_a_signature_of_another_time_is_a_replay(scheme: Any, off: int, at: Callable[[float], None]) -> None:
    headers = scheme(KEY).sign(BODY, at=1_700_000_000)
    at(1_700_000_000 + off - (1 if off > 0 else -1))
    scheme(KEY)(make(BODY, headers))
    at(1_700_000_000 + off)
    assert "more than 300 s away" in refused(scheme(KEY), BODY, headers)
    scheme(KEY, tolerance=400)(make(BODY, headers))
    assert "more than 0.5 s away" in refused(scheme(KEY, tolerance=0.5), BODY, headers)


@MOMENTS
@pytest.mark.parametrize("moment", ["x", "-1", "1e9", "1.5", "٣", "9" * 400, "", " 1"])
def test_a_moment_that_is_no_number_is_refused_though_it_is_signed(scheme: Any, moment: str) -> None:
    verify = scheme(KEY)
    if scheme is stripe:
        mac = verifiers.hmac.new(KEY.encode(), f"{moment}.".encode() + BODY, "sha256").hexdigest()
        headers = {"Stripe-Signature": f"t={moment},v1={mac}"}
    else:
        signed = f"m.{moment}.".encode() + BODY
        mac = verifiers.base64.b64encode(verifiers.hmac.digest(verify.list_keys()[0], signed, "sha256")).decode()
        headers = {"webhook-id": "m", "webhook-timestamp": moment, "webhook-signature": f"v1,{mac}"}
    refused(verify, BODY, headers)


@EACH
def test_signatures_are_compared_in_constant_time(scheme: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    compared: list[tuple[bytes, bytes]] = []
    compare = verifiers.hmac.compare_digest

    def watch(one: bytes, other: bytes) -> bool:
        compared.append((one, other))
        return compare(one, other)

    monkeypatch.setattr(verifiers.hmac, "compare_digest", watch)
    scheme([OTHER, KEY])(make(BODY, scheme(KEY).sign(BODY)))
    assert len(compared) == 2


@EACH
@pytest.mark.parametrize("secret", ["", " ", b"", [], (), [""], [KEY, ""], None, 7, [7], [None]])
def test_an_empty_secret_is_refused_where_it_is_written_and_verifies_nothing(scheme: Any, secret: Any) -> None:
    with pytest.raises(InvalidDefinition, match="it has no secret"):
        scheme(secret)
    with pytest.raises(NoSecret, match="it has no secret"):
        scheme(lambda: secret)(make(BODY, github("x").sign(BODY) | stripe("x").sign(BODY) | scheme(KEY).sign(BODY)))


@pytest.mark.parametrize("secret", ["whsec_", "whsec_===", "whsec_not base64!", "whsec_é"])
def test_a_secret_of_standard_webhooks_is_base64(secret: str) -> None:
    with pytest.raises(InvalidDefinition) as caught:
        standard_webhooks(secret)
    assert secret not in str(caught.value)
    standard_webhooks(b"any bytes")(make(BODY, standard_webhooks(b"any bytes").sign(BODY)))


@EACH
def test_no_repr_and_no_error_shows_a_secret(scheme: Any) -> None:
    def read() -> str:
        raise LookupError(KEY)

    assert KEY not in repr(scheme(KEY))
    with pytest.raises(NoSecret) as caught:
        scheme(read).list_keys()
    assert "LookupError" in str(caught.value)
    assert KEY not in str(caught.value)
    assert caught.value.__suppress_context__


@pytest.mark.parametrize("tolerance", [0, -1, "300", None, True, float("inf"), float("nan")])
def test_a_tolerance_is_a_number_of_seconds(tolerance: Any) -> None:
    for scheme in (standard_webhooks, stripe):
        with pytest.raises(InvalidDefinition, match="tolerance is a number of seconds"):
            scheme(KEY, tolerance=tolerance)
