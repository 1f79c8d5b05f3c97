"""Resume tokens: what each one is bound to, how keys rotate, and where the address points."""

import base64
import hmac
import string
from types import ModuleType
from uuid import UUID, uuid4

import pytest
from django.core.exceptions import ImproperlyConfigured
from django.urls import include, path
from hypothesis import given
from hypothesis import strategies as st

from workflows import urls_resume
from workflows.conf import conf
from workflows.definitions import callback_tokens
from workflows.definitions.callback_tokens import check_token, hash_token, make_token, resume_url, verify_token
from workflows.exceptions import InvalidToken

ID = UUID("01995c0e-0000-7000-8000-000000000001")
KEYS = {"2026-11": "n" * 40, "2025-11": "o" * 40}
URL_SAFE = set(string.ascii_letters + string.digits + "-_")


@pytest.fixture(autouse=True)
def keys(settings, monkeypatch):
    monkeypatch.setattr(conf, "supplies_links", False)  # `drain()` in an earlier test may have set it
    settings.WORKFLOWS = {"BASE_URL": "https://holdpoint.example", "TOKEN_KEYS": KEYS}


def make(**changes) -> str:
    return make_token(**{"interaction": ID, "workspace": 1, "visit": 1, **changes})[0]


# --- what a token is ----------------------------------------------------------------------------------


def test_a_token_is_url_safe_and_says_whose_it_is():
    token, key_id = make_token(ID, workspace=1, visit=1)
    assert set(token) <= URL_SAFE
    assert len(token) < 100
    assert key_id == "2026-11"
    assert verify_token(token) == (ID, "resume")
    assert check_token(token, workspace=1, visit=1)


def test_a_token_is_derived_and_never_drawn():
    assert make() == make()
    assert make(key_id="2025-11") == make(key_id="2025-11")


def test_what_is_stored_is_a_hash():
    assert len(hash_token(make())) == 32
    assert hash_token(make()) == hash_token(make())
    assert ID.bytes not in hash_token(make())


def test_the_secret_key_of_the_site_plays_no_part(settings):
    before = make()
    settings.SECRET_KEY = "another" * 10
    assert make() == before


def test_the_secret_is_used_for_nothing_that_another_use_of_it_would_yield():
    token = base64.urlsafe_b64decode(make() + "==")
    body, mac = token[:-32], token[-32:]
    assert mac != hmac.digest(KEYS["2026-11"].encode(), body, "sha256")


# --- what it is bound to ------------------------------------------------------------------------------


def test_each_part_changes_the_token():
    parts = [
        {},
        {"interaction": uuid4()},
        {"workspace": 2},
        {"visit": 2},
        {"purpose": "link"},
        {"key_id": "2025-11"},
        {"workspace": 11},
        {"visit": 11},
        {"workspace": 11, "visit": 11},
    ]
    macs = {base64.urlsafe_b64decode(make(**one) + "==")[-32:] for one in parts}
    assert len(macs) == len(parts)


@pytest.mark.parametrize("place", [{"workspace": 2, "visit": 1}, {"workspace": 1, "visit": 2}])
def test_it_is_good_for_its_workspace_and_visit_only(place):
    assert not check_token(make(), **place)


def retell(token: str, old: bytes, new: bytes) -> str:
    """The same MAC under another claim."""
    packed = base64.urlsafe_b64decode(token + "=" * (-len(token) % 4))
    assert old in packed
    return base64.urlsafe_b64encode(packed.replace(old, new, 1)).rstrip(b"=").decode()


def test_another_interaction_cannot_be_claimed():
    other = uuid4()
    forged = retell(make(), ID.bytes, other.bytes)
    assert verify_token(forged) == (other, "resume")
    assert not check_token(forged, workspace=1, visit=1)


def test_another_purpose_cannot_be_claimed():
    forged = retell(make(purpose="decide"), b"decide", b"resume")
    assert verify_token(forged) == (ID, "resume")
    assert not check_token(forged, workspace=1, visit=1)


def test_another_key_cannot_be_claimed():
    forged = retell(make(), b"2026-11", b"2025-11")
    assert verify_token(forged)
    assert not check_token(forged, workspace=1, visit=1)


def test_the_same_secret_under_another_id_is_another_key(settings):
    settings.WORKFLOWS = {**settings.WORKFLOWS, "TOKEN_KEYS": {"a": "s" * 40, "b": "s" * 40}}
    forged = retell(make(key_id="a"), b"\x01a", b"\x01b")
    assert not check_token(forged, workspace=1, visit=1)


def test_the_border_between_two_parts_cannot_be_moved():
    # Text and text in a row: ("ab", "c") and ("a", "bc") would read alike without their lengths.
    assert make(workspace=1, visit=11).split() != make(workspace=11, visit=1).split()
    assert not check_token(make(workspace=1, visit=11), workspace=11, visit=1)


def is_good(token: str) -> bool:
    try:
        return verify_token(token) == (ID, "resume") and check_token(token, workspace=1, visit=1)
    except InvalidToken:
        return False


def test_any_other_character_breaks_it():
    token = make()
    assert is_good(token)
    alphabet = sorted(URL_SAFE | set("=+/.~ \n\0é"))
    for position, right in enumerate(token):
        for wrong in alphabet:
            if wrong != right:
                assert not is_good(token[:position] + wrong + token[position + 1 :]), (position, wrong)


def test_it_has_one_spelling_only():
    token = make()
    others = [token + "=", token + "==", token + "A", token + "\n", " " + token, token[:-1], token[1:], token * 2]
    others += [token.replace("-", "+").replace("_", "/") + "=", token[:20] + "\n" + token[20:], token.swapcase()]
    assert not any(is_good(one) for one in others)


@given(st.text(max_size=120))
def test_no_text_at_all_is_worse_than_invalid(text):
    with pytest.raises(InvalidToken):
        verify_token(text)
    assert not check_token(text, workspace=1, visit=1)
    assert len(hash_token(text)) == 32


@given(st.binary(min_size=1, max_size=120))
def test_no_bytes_at_all_are_worse_than_invalid(packed):
    token = base64.urlsafe_b64encode(b"\x01" + packed).rstrip(b"=").decode()
    assert not is_good(token)


@given(
    interaction=st.uuids(),
    workspace=st.integers(1, 2**63 - 1),
    visit=st.integers(1, 2**31 - 1),
    key_id=st.sampled_from(sorted(KEYS)),
    purpose=st.text(min_size=1, max_size=50),
    other=st.tuples(st.integers(1, 2**63 - 1), st.integers(1, 2**31 - 1)),
)
def test_what_was_made_is_good_and_for_nothing_else(interaction, workspace, visit, key_id, purpose, other):
    token, named = make_token(interaction, workspace=workspace, visit=visit, purpose=purpose, key_id=key_id)
    assert named == key_id
    assert set(token) <= URL_SAFE
    assert verify_token(token) == (interaction, purpose)
    assert check_token(token, workspace=workspace, visit=visit)
    assert check_token(token, workspace=other[0], visit=other[1]) == (other == (workspace, visit))


def test_macs_are_compared_in_constant_time(monkeypatch):
    compared = []

    def compare(one, other):
        compared.append((one, other))
        return hmac.compare_digest(one, other)

    wrapped = ModuleType("hmac")
    wrapped.compare_digest, wrapped.digest = compare, hmac.digest
    monkeypatch.setattr(callback_tokens, "hmac", wrapped)
    token = make()
    assert check_token(token, workspace=1, visit=1)
    assert not check_token(token, workspace=1, visit=2)
    assert [len(one) for one, _ in compared] == [32, 32]


@pytest.mark.parametrize("wrong", ["", "x", "A" * 5000, "é" * 90, "\ud800"])
def test_a_refusal_never_repeats_the_token(wrong):
    with pytest.raises(InvalidToken) as caught:
        verify_token(wrong)
    assert 'WORKFLOWS["TOKEN_KEYS"]' in str(caught.value)
    assert caught.value.args == InvalidToken().args


# --- rotation -----------------------------------------------------------------------------------------


def test_the_first_key_signs_and_the_others_stay_good(settings):
    old = make(key_id="2025-11")
    settings.WORKFLOWS = {**settings.WORKFLOWS, "TOKEN_KEYS": {"2027-01": "z" * 40, **KEYS}}
    token, key_id = make_token(ID, workspace=1, visit=1)
    assert key_id == "2027-01"
    assert is_good(token)
    assert is_good(old)
    assert make(key_id="2025-11") == old


def test_without_its_key_a_token_is_no_longer_one(settings):
    old = make(key_id="2025-11")
    settings.WORKFLOWS = {**settings.WORKFLOWS, "TOKEN_KEYS": {"2026-11": KEYS["2026-11"]}}
    assert not is_good(old)
    with pytest.raises(ImproperlyConfigured, match=r'WORKFLOWS\["TOKEN_KEYS"\] has no key \'2025-11\''):
        make(key_id="2025-11")


def test_another_secret_under_the_same_id_does_not_open(settings):
    old = make()
    settings.WORKFLOWS = {**settings.WORKFLOWS, "TOKEN_KEYS": {"2026-11": "x" * 40}}
    assert verify_token(old)
    assert not check_token(old, workspace=1, visit=1)


def test_a_site_without_keys_says_so(settings):
    settings.WORKFLOWS = {}
    with pytest.raises(ImproperlyConfigured, match="TOKEN_KEYS"):
        make()


def test_an_id_of_a_key_may_be_any_letters(settings):
    settings.WORKFLOWS = {**settings.WORKFLOWS, "TOKEN_KEYS": {"schlüssel": "s" * 40}}
    assert is_good(make())
    settings.WORKFLOWS = {**settings.WORKFLOWS, "TOKEN_KEYS": {"k" * 300: "s" * 40}}
    with pytest.raises(ImproperlyConfigured, match="255"):
        make()


# --- the address --------------------------------------------------------------------------------------


def urlconf(*patterns) -> ModuleType:
    """A project's URLconf."""
    module = ModuleType("project_urls")
    module.urlpatterns = list(patterns)
    return module


CURRICULUM = path("cv/<str:token>", lambda request, token: None, name="resume")


@pytest.mark.parametrize(
    ("patterns", "expected"),
    [
        ([path("", include("workflows.urls"))], "/resume/T"),
        ([path("engine/", include("workflows.urls"))], "/engine/resume/T"),
        ([path("engine/", include("workflows.urls", namespace="ours"))], "/engine/resume/T"),
        ([path("hooks/", include("workflows.urls_resume"))], "/hooks/resume/T"),
        ([path("hooks/", include(urls_resume.urlpatterns))], "/hooks/resume/T"),
        ([CURRICULUM, path("hooks/", include("workflows.urls_resume"))], "/hooks/resume/T"),
        ([CURRICULUM], "/resume/T"),
        ([], "/resume/T"),
    ],
)
def test_the_address_follows_the_projects_routes(settings, patterns, expected):
    settings.ROOT_URLCONF = urlconf(*patterns)
    assert resume_url("T") == f"https://holdpoint.example{expected}"


@pytest.mark.parametrize(
    ("base", "script", "expected"),
    [
        ("https://a.example/", None, "https://a.example/resume/T"),
        ("https://a.example/app/", None, "https://a.example/app/resume/T"),
        ("https://a.example", "/app", "https://a.example/app/resume/T"),
        ("https://a.example/app", "/app/", "https://a.example/app/resume/T"),
    ],
)
@pytest.mark.parametrize("told", ["/", "/app/"])
def test_a_worker_and_a_request_below_a_prefix_agree(settings, base, script, expected, told):
    settings.WORKFLOWS = {**settings.WORKFLOWS, "BASE_URL": base}
    settings.FORCE_SCRIPT_NAME = script
    from django.urls import get_script_prefix, set_script_prefix

    before = get_script_prefix()
    set_script_prefix(told)
    try:
        assert resume_url("T") == expected
    finally:
        set_script_prefix(before)


def test_a_site_without_an_address_says_so(settings):
    settings.WORKFLOWS = {"TOKEN_KEYS": KEYS}
    with pytest.raises(ImproperlyConfigured, match="BASE_URL"):
        resume_url("T")
