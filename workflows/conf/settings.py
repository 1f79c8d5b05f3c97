"""The WORKFLOWS setting, read in one place with types and defaults.

Values are read once, and again when a setting changes, so `override_settings` works; `find_problems` says what system
checks report. Names that later parts of the package read are known here already, so that a site can set them.
"""

from __future__ import annotations

import base64
import difflib
import hashlib
import hmac
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any
from urllib.parse import urlsplit

from django.conf import settings
from django.core.exceptions import ImproperlyConfigured
from django.utils.module_loading import import_string

from workflows.conf.flow_settings import FLOW_DEFAULTS, FlowSettings, parse_rate, want_count, want_queues
from workflows.conf.kafka_settings import KafkaSettings, read_kafka
from workflows.exceptions import InvalidCall, InvalidDuration
from workflows.outbound.address_guard import Guard, read_allowed
from workflows.outbound.webhook_signature import LEAST_BYTES, MOST_BYTES, PREFIX, read_secret
from workflows.values.durations import parse_timeout

DEFAULTS: Mapping[str, Any] = {
    "BASE_URL": None,
    "TOKEN_KEYS": None,
    "STEP_TIMEOUT": 50,
    "MAX_BODY": 512 * 1024,
    "MAX_BULK_BODY": 16 * 1024 * 1024,
    "AWAIT_AGGREGATE_MAX_INPUT_ITEMS": 10_000,
    "AWAIT_AGGREGATE_MAX_OUTPUT_ITEMS": 10_000,
    "RETENTION": None,
    "EVENT_LOOKBACK": "7d",
    "HOOK_RETENTION": "30d",
    "POLICY": None,
    "WORKSPACES_FOR": None,
    "METRICS_PUBLIC": False,
    "SHARE_COMMITS": True,
    "API_RATE": "60000/m",
    "MAX_WAITS": 8,
    "DISPATCH_TRIES": 12,
    "KAFKA": None,
    "WEBHOOK_SECRETS": None,
    "WEBHOOK_ALLOWED": (),
    **FLOW_DEFAULTS,
}

#: A check's message may be logged, so it shows nothing of these.
SECRET = frozenset({"TOKEN_KEYS", "KAFKA", "WEBHOOK_SECRETS"})

LOCAL_URL = "http://localhost:8000"


class Conf(FlowSettings):
    """`WORKFLOWS` with attribute access."""

    setting = "WORKFLOWS"
    defaults = DEFAULTS
    #: Set by `workflows.testing.drain` in a test process: links can be made there without any setting.
    supplies_links = False

    @cached_property
    def step_timeout(self) -> float:
        """Seconds one run of a step may take unless its workflow says otherwise."""
        return parse_timeout(self._read("STEP_TIMEOUT"))

    @cached_property
    def max_body(self) -> int:
        """The largest payload of one signal, in bytes of JSON."""
        return int(self._read("MAX_BODY"))

    @cached_property
    def retention(self) -> float | None:
        """Seconds that ended instances are kept; None keeps them for ever."""
        given = self._read("RETENTION")
        return None if given is None else parse_timeout(given)

    @cached_property
    def event_lookback(self) -> float:
        """Seconds for which a named event can be taken by a wait that comes after it."""
        return parse_timeout(self._read("EVENT_LOOKBACK"))

    @cached_property
    def hook_retention(self) -> float:
        """Seconds for which a provider's message is known by its id."""
        return parse_timeout(self._read("HOOK_RETENTION"))

    @cached_property
    def policy(self) -> Callable[[str, Any, str], Any] | None:
        """The project's say in suspending, resuming and timing out."""
        given: Callable[[str, Any, str], Any] | str | None = self._read("POLICY")
        return import_string(given) if isinstance(given, str) else given

    @cached_property
    def max_bulk_body(self) -> int:
        """The largest body of a call that carries many signals, or a list of answers, in bytes."""
        return int(self._read("MAX_BULK_BODY"))

    @cached_property
    def most_inputs(self) -> int:
        """How many items a unit may have."""
        return int(self._read("AWAIT_AGGREGATE_MAX_INPUT_ITEMS"))

    @cached_property
    def most_outputs(self) -> int:
        """How many answers a question takes that takes several at once."""
        return int(self._read("AWAIT_AGGREGATE_MAX_OUTPUT_ITEMS"))

    @cached_property
    def api_rate(self) -> tuple[int, int] | None:
        """How many calls in how many seconds a key or user may make; None for any number."""
        given = self._read("API_RATE")
        try:
            return None if given is None else parse_rate(given)
        except InvalidCall as error:  # the site's mistake, and not the caller's
            raise ImproperlyConfigured(f'WORKFLOWS["API_RATE"]: {error}') from error

    @cached_property
    def dispatch_tries(self) -> int:
        """How often sending a question is tried."""
        return int(self._read("DISPATCH_TRIES"))

    @cached_property
    def kafka(self) -> KafkaSettings | None:
        """Where the broker is, and whose answers are taken from it; None where there is none."""
        given = self._read("KAFKA")
        try:
            return None if given is None else read_kafka(given)
        except InvalidCall as error:
            raise ImproperlyConfigured(f'WORKFLOWS["KAFKA"]: {error}') from error

    @property
    def webhook_secrets(self) -> dict[str, list[str]]:
        """Name -> secrets that sign webhooks, each with all of its name, the newest first."""
        if given := self._read("WEBHOOK_SECRETS"):
            return {str(name): [value] if isinstance(value, str) else list(value) for name, value in given.items()}
        if settings.DEBUG or self.supplies_links:
            key = hmac.digest(settings.SECRET_KEY.encode(), b"holdpoint development webhook secret", "sha256")
            return {"default": [PREFIX + base64.b64encode(key).decode()]}
        return {}

    def find_webhook_keys(self, name: str) -> list[bytes]:
        """The keys that a name means."""
        known = self.webhook_secrets
        if name not in known:
            raise ImproperlyConfigured(
                f'WORKFLOWS["WEBHOOK_SECRETS"] has no {name!r}, and a webhook is signed with it. Add '
                f'{{{name!r}: "whsec_…"}}; `openssl rand -base64 32` makes what comes after the underscore.'
            )
        return [read_secret(one) for one in known[name]]

    @cached_property
    def webhook_guard(self) -> Guard:
        """Which hosts inside webhooks may call."""
        return read_allowed(self._read("WEBHOOK_ALLOWED"), 'name it in WORKFLOWS["WEBHOOK_ALLOWED"] to allow it')

    @cached_property
    def max_waits(self) -> int:
        """How many calls of a process may wait for an instance's end at once."""
        return int(self._read("MAX_WAITS"))

    @cached_property
    def workspaces_for(self) -> Callable[[Any], Any] | None:
        """The project's answer to which workspaces a user may choose."""
        given: Callable[[Any], Any] | str | None = self._read("WORKSPACES_FOR")
        return import_string(given) if isinstance(given, str) else given

    @cached_property
    def metrics_public(self) -> bool:
        """Whether /metrics may be read without a key."""
        return bool(self._read("METRICS_PUBLIC"))

    @cached_property
    def share_commits(self) -> bool:
        """Whether threads that start instances at the same moment share a connection and a commit."""
        return bool(self._read("SHARE_COMMITS"))

    @property
    def base_url(self) -> str:
        """The address of this site as users and partners see it, without a slash at its end."""
        if given := self._read("BASE_URL"):
            return str(given).rstrip("/")
        if settings.DEBUG or self.supplies_links:
            return LOCAL_URL
        raise ImproperlyConfigured('Set WORKFLOWS["BASE_URL"], such as "https://holdpoint.example", to make links.')

    @property
    def token_keys(self) -> dict[str, str]:
        """Key id -> secret of the keys that sign links, the newest first."""
        if given := self._read("TOKEN_KEYS"):
            return {str(name): str(secret) for name, secret in given.items()}
        if settings.DEBUG or self.supplies_links:
            # The same in every process of a developer's site, and of no use elsewhere.
            key = hmac.new(settings.SECRET_KEY.encode(), b"holdpoint development token key", hashlib.sha256)
            return {"debug": key.hexdigest()}
        raise ImproperlyConfigured(
            'Set WORKFLOWS["TOKEN_KEYS"] to {"some id": "a long secret"}: it signs links, and what waits for approval.'
        )


#: Where None says something.
_MAY_BE_NONE = {name for name, value in DEFAULTS.items() if value is None} | {"API_RATE"}

conf = Conf()


@dataclass(frozen=True, slots=True)
class SettingProblem:
    """Something about the setting that cannot be right, and what to write instead."""

    name: str
    what: str
    fix: str


def find_problems() -> Iterator[SettingProblem]:
    """Unknown names and unreadable values."""
    value = getattr(settings, "WORKFLOWS", {})
    if not isinstance(value, Mapping):
        yield SettingProblem("", f"WORKFLOWS is {value!r:.60} and not a dictionary.", "Write WORKFLOWS = {…}.")
        return
    for name, given in value.items():
        if name not in DEFAULTS:
            close = difflib.get_close_matches(str(name).upper(), DEFAULTS, n=1)
            known = f"Did you mean {close[0]}?" if close else f"There are {', '.join(sorted(DEFAULTS))}."
            yield SettingProblem(name, f"WORKFLOWS has no setting {name!r}; it changes nothing.", known)
        elif (given is not None or name not in _MAY_BE_NONE) and (fix := _READERS[name](given)):
            shown = "" if name in SECRET else f" = {given!r:.80}"
            yield SettingProblem(name, f'WORKFLOWS["{name}"]{shown} cannot be read.', fix)


def _want_duration(value: Any) -> str | None:
    try:
        parse_timeout(value)
    except InvalidDuration as error:
        return f'{error}. Write seconds, "90s", "24h" or a timedelta.'
    return None


def _want_number(value: Any) -> str | None:
    good = isinstance(value, int) and not isinstance(value, bool) and value >= 0
    return None if good else "Write a whole number, 0 for none."


def _want_kafka(value: Any) -> str | None:
    try:
        read_kafka(value)
    except InvalidCall as error:
        return f"{error}."
    return None


def _want_flag(value: Any) -> str | None:
    return None if isinstance(value, bool) else "Write True or False."


def _want_function(value: Any) -> str | None:
    dotted = isinstance(value, str) and all(part.isidentifier() for part in value.split(".")) and "." in value
    return None if callable(value) or dotted else 'Write a function or its path, such as "shop.rules.may_start".'


def _want_rate(value: Any) -> str | None:
    try:
        parse_rate(value)
    except InvalidCall:
        return 'Write a number per s, m, h or d, such as "600/m", or None for no limit.'
    return None


def _want_url(value: Any) -> str | None:
    fix = 'Write the scheme and host that users see, such as "https://holdpoint.example".'
    try:
        parts = urlsplit(value) if isinstance(value, str) else None
    except ValueError:
        return fix
    good = parts is not None and parts.scheme in {"http", "https"} and parts.hostname and not parts.query
    return None if good else fix


def _want_keys(value: Any) -> str | None:
    if not isinstance(value, Mapping) or not value:
        return 'Write {"2026-11": "a long secret"}, the newest first.'
    for name, secret in value.items():
        if not isinstance(name, str) or not name or not name.replace("-", "").replace("_", "").isalnum():
            return "A key's id is made of letters, digits, hyphens and underscores."
        if not isinstance(secret, str) or len(secret) < 16:
            return "A secret is a text of at least 16 characters, better of 50 random ones."
    return None


def _want_secrets(value: Any) -> str | None:
    if not isinstance(value, Mapping) or not all(isinstance(name, str) and name for name in value):
        return 'Write {"default": "whsec_…"}, or a list of secrets, the newest first.'
    for name, given in value.items():
        secrets = [given] if isinstance(given, str) else given
        if not isinstance(secrets, list | tuple) or not secrets:
            return f"Of {name!r:.60}: write a secret, or a list of them, the newest first."
        for one in secrets:
            try:
                size = len(read_secret(one)) if isinstance(one, str) else 0
            except InvalidCall:
                size = 0
            if not LEAST_BYTES <= size <= MOST_BYTES:
                return (
                    f"Of {name!r:.60}: a secret is {LEAST_BYTES} to {MOST_BYTES} random bytes in base64, with or "
                    f"without {PREFIX!r} before them: openssl rand -base64 32."
                )
    return None


def _want_hosts(value: Any) -> str | None:
    if not isinstance(value, list | tuple):
        return 'Write a list of hosts and networks, such as ["billing.internal", "10.0.0.0/8"].'
    try:
        read_allowed(value, "")
    except InvalidCall as error:
        return f"{error}."
    return None


_READERS: Mapping[str, Callable[[Any], str | None]] = {
    "BASE_URL": _want_url,
    "TOKEN_KEYS": _want_keys,
    "STEP_TIMEOUT": _want_duration,
    "MAX_BODY": want_count,
    "MAX_BULK_BODY": want_count,
    "AWAIT_AGGREGATE_MAX_INPUT_ITEMS": want_count,
    "AWAIT_AGGREGATE_MAX_OUTPUT_ITEMS": want_count,
    "QUEUES": want_queues,
    "MAX_LIMITS": want_count,
    "MAX_SCHEDULES": want_count,
    "RETENTION": _want_duration,
    "EVENT_LOOKBACK": _want_duration,
    "HOOK_RETENTION": _want_duration,
    "POLICY": _want_function,
    "WORKSPACES_FOR": _want_function,
    "METRICS_PUBLIC": _want_flag,
    "SHARE_COMMITS": _want_flag,
    "API_RATE": _want_rate,
    "MAX_WAITS": _want_number,
    "KAFKA": _want_kafka,
    "DISPATCH_TRIES": want_count,
    "WEBHOOK_SECRETS": _want_secrets,
    "WEBHOOK_ALLOWED": _want_hosts,
}
