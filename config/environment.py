"""Reads the process environment for the settings.

What lives here: the few shapes a variable can have, the database URL and the development secret.
What must not: any default that names a feature (that is `settings`).
Invariant: a variable that cannot be read stops the start with its name; nothing is guessed.
"""

import os
import secrets
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, unquote, urlsplit

from django.core.exceptions import ImproperlyConfigured

TRUE = {"1", "true", "yes", "on"}
FALSE = {"0", "false", "no", "off", ""}


def read_text(name: str, *, default: str = "") -> str:
    return os.environ.get(name, "").strip() or default


def read_flag(name: str, *, default: bool) -> bool:
    value = os.environ.get(name, str(default)).strip().lower()
    if value not in TRUE | FALSE:
        raise ImproperlyConfigured(f"{name}={value!r} is neither yes nor no: say 1 or 0.")
    return value in TRUE


def read_number(name: str, *, default: int) -> int:
    value = read_text(name, default=str(default))
    if not value.isdecimal():
        raise ImproperlyConfigured(f"{name}={value!r} is not a number.")
    return int(value)


def read_list(name: str, *, default: str = "") -> list[str]:
    return [part.strip() for part in read_text(name, default=default).split(",") if part.strip()]


def read_keys(name: str) -> dict[str, str]:
    """Read `id:secret,id:secret` in its order."""
    pairs = [pair.partition(":") for pair in read_list(name)]
    if not all(key and secret for key, _, secret in pairs):
        raise ImproperlyConfigured(f"{name} must read id:secret,id:secret (newest first).")
    return {key.strip(): secret.strip() for key, _, secret in pairs}


def require(name: str, purpose: str) -> str:
    value = read_text(name)
    if not value:
        raise ImproperlyConfigured(f"Set {name} ({purpose}), or DEBUG=1 on a developer's machine.")
    return value


def parse_database_url(url: str) -> dict[str, Any]:
    """Turn `postgresql://user:password@host:port/name?option=value` into Django's entry.

    A socket's folder is given as `?host=/folder` (as libpq does) or percent-encoded in the host's
    place. Every other option goes to the connection as it is (`sslmode`, `connect_timeout` …).
    """
    parts = urlsplit(url)
    if parts.scheme not in {"postgresql", "postgres"}:
        raise ImproperlyConfigured(
            f"DATABASE_URL starts with {parts.scheme!r}; Holdpoint runs on PostgreSQL: postgresql://…"
        )
    options: dict[str, Any] = dict(parse_qsl(parts.query))
    # `hostname` would lower-case a folder's name, so the host is taken from the raw text.
    raw_host = parts.netloc.rpartition("@")[2]
    host = options.pop("host", None) or (unquote(raw_host) if raw_host.startswith("%2") else parts.hostname)
    port = options.pop("port", None) or ("" if raw_host.startswith("%2") else parts.port) or ""
    return {
        "ENGINE": "workflows.backend",
        "NAME": unquote(parts.path.removeprefix("/")),
        "USER": unquote(parts.username or ""),
        "PASSWORD": unquote(parts.password or ""),
        "HOST": host or "",
        "PORT": str(port),
        "OPTIONS": options,
    }


def keep_development_secret(file: Path) -> str:
    """Return the secret kept in a file, made on first use, so that a restart keeps sessions and links.

    Several processes start at once: an exclusive create, published by a link, lets exactly one win.
    """
    if not file.exists():
        file.parent.mkdir(parents=True, exist_ok=True)
        scratch = file.with_name(f"{file.name}.{os.getpid()}")
        with open(scratch, "x", opener=lambda path, flags: os.open(path, flags, 0o600)) as handle:
            handle.write(secrets.token_urlsafe(48))
        try:
            os.link(scratch, file)
        except FileExistsError:
            pass
        finally:
            scratch.unlink()
    return file.read_text().strip()
