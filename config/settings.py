"""Settings of the runnable site, read from the environment.

What lives here: one readable list of decisions for development and production. What must
not: parsing (`environment`) or defaults that belong to the apps (each app's `conf`).
Invariant: without DEBUG nothing is guessed and `manage.py check --deploy` has nothing to say.

SECRET_KEY     Django's; its absence makes this a developer's site
DEBUG          1 or 0, to say so explicitly
DATABASE_URL   postgresql://…; without it, the embedded server under var/
TOKEN_KEYS     id:secret,id:secret; they sign resume links, the first is the newest
BASE_URL       https://…, as users and partners see this site
ALLOWED_HOSTS  host,host; the host of BASE_URL if left out
PORT           8000
KAFKA_BOOTSTRAP  host:port of a broker; without it nothing is asked over Kafka (KAFKA_GROUP: who reads answers)
FROM_EMAIL     who mails to reviewers are from; holdpoint@ the host of BASE_URL if left out
PAYMENTS_SECRETS  secret,secret; what is posted to the demo's hook is signed with one, the first is the newest
"""

import hmac
import logging
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import django

from config.environment import (
    keep_development_secret,
    parse_database_url,
    read_flag,
    read_keys,
    read_list,
    read_number,
    read_text,
    require,
)
from config.postgres import locate_home

BASE_DIR = Path(__file__).resolve().parent.parent
VAR_DIR = BASE_DIR / "var"

# --- who and where -------------------------------------------------------------------------------

# A site that was given no secret is a developer's: it makes its own and answers only to local names,
# so a production site that lost its environment is noticed by its first visitor.
DEBUG = read_flag("DEBUG", default=not read_text("SECRET_KEY"))
PORT = read_number("PORT", default=8000)

if DEBUG:
    SECRET_KEY = read_text("SECRET_KEY") or keep_development_secret(VAR_DIR / "secret_key")
    TOKEN_KEYS = read_keys("TOKEN_KEYS") or {"dev": keep_development_secret(VAR_DIR / "token_key")}
    BASE_URL = read_text("BASE_URL", default=f"http://127.0.0.1:{PORT}").rstrip("/")
    ALLOWED_HOSTS = read_list("ALLOWED_HOSTS", default="localhost,127.0.0.1,[::1],.localhost")
else:
    SECRET_KEY = require("SECRET_KEY", "fifty random characters")
    require("TOKEN_KEYS", "id:secret, signs resume links")
    TOKEN_KEYS = read_keys("TOKEN_KEYS")
    BASE_URL = require("BASE_URL", "https://… as users see this site").rstrip("/")
    ALLOWED_HOSTS = read_list("ALLOWED_HOSTS", default=urlsplit(BASE_URL).hostname or "")

CSRF_TRUSTED_ORIGINS = [BASE_URL]

INSTALLED_APPS = [
    "django.contrib.admin",
    "django.contrib.auth",
    "django.contrib.contenttypes",
    "django.contrib.sessions",
    "django.contrib.messages",
    "django.contrib.staticfiles",
    "django_q",
    "rest_framework",
    "workflows",
    "approvals",
    "examples",
]

MIDDLEWARE = [
    "django.middleware.security.SecurityMiddleware",
    "workflows.rest.shortcut.answer_calls_first",
    "config.policy.say_policy",
    "whitenoise.middleware.WhiteNoiseMiddleware",
    "django.contrib.sessions.middleware.SessionMiddleware",
    "django.middleware.locale.LocaleMiddleware",
    "django.middleware.common.CommonMiddleware",
    "django.middleware.csrf.CsrfViewMiddleware",
    "django.contrib.auth.middleware.AuthenticationMiddleware",
    "django.contrib.messages.middleware.MessageMiddleware",
    "django.middleware.clickjacking.XFrameOptionsMiddleware",
]

ROOT_URLCONF = "config.urls"
WSGI_APPLICATION = "config.wsgi.application"
ASGI_APPLICATION = "config.asgi.application"

TEMPLATES = [
    {
        "BACKEND": "django.template.backends.django.DjangoTemplates",
        # In this repository all templates stand in one folder; the wheel packs them beside their apps.
        # The demo adds a link of its own to the inbox, as a project would.
        "DIRS": [BASE_DIR / "examples" / "templates", BASE_DIR / "templates"],
        "APP_DIRS": True,
        "OPTIONS": {
            "context_processors": [
                "django.template.context_processors.request",
                "django.contrib.auth.context_processors.auth",
                "django.contrib.messages.context_processors.messages",
            ],
        },
    },
]

# --- database ------------------------------------------------------------------------------------

# The embedded server's address is known before it runs, so `manage.py shell` beside `make run` works.
database: dict[str, Any] = parse_database_url(read_text("DATABASE_URL") or locate_home().url)
database["OPTIONS"] = {
    # Values travel apart from the statement and plans are kept: both matter for the short,
    # ever-repeating statements of the engine.
    "server_side_binding": True,
    "prepare_threshold": 2,
    # A dead network peer must not hold a row lock, or a worker, for the two hours TCP would wait.
    "connect_timeout": "10",
    "keepalives_idle": "10",
    "keepalives_interval": "5",
    "keepalives_count": "3",
    "tcp_user_timeout": "25000",
    **database["OPTIONS"],
}
# Kept between polls and requests. Never `pool` in OPTIONS: django-q forks, and a forked pool shares
# its sockets between processes.
database["CONN_MAX_AGE"] = 60
database["CONN_HEALTH_CHECKS"] = True
DATABASES = {"default": database}
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"

# --- django-q, the host of the pump --------------------------------------------------------------

Q_CLUSTER = {
    "name": "holdpoint",
    "label": "Task queue",
    "orm": "default",  # the same database, so that enqueuing is part of the caller's transaction
    "workers": read_number("WORKERS", default=2),
    "timeout": 60,
    "retry": 300,  # the lease runs while a task waits in memory: far above timeout x tasks held
    "max_attempts": 5,
    "ack_failures": True,
    "queue_limit": 2,  # tasks held in memory by one cluster; a kill forgets them for `retry` seconds
    "bulk": 1,
    "poll": 0.2,
    "save_limit": -1,  # keep no successes: our own rows are the history
    "catch_up": False,
    "recycle": 500,
}

WORKFLOWS: dict[str, Any] = {
    "BASE_URL": BASE_URL,
    "TOKEN_KEYS": TOKEN_KEYS,
    "MAX_WAITS": 10,  # of the 16 threads that a web process has (see run and wsgi)
}
if DEBUG:
    WORKFLOWS["WEBHOOK_ALLOWED"] = ["127.0.0.1"]  # a developer's partners run beside it
if bootstrap := read_text("KAFKA_BOOTSTRAP"):
    # The topic of examples/csv_payments.
    answers = read_text("CSV_PAYMENTS_ANSWERS", default="csv_payments.answers")
    group = read_text("KAFKA_GROUP", default="holdpoint")
    WORKFLOWS["KAFKA"] = {"BOOTSTRAP": bootstrap, "ANSWERS": {answers: ["default"]}, "GROUP": group}

# The demo's payment service is played by whoever tries it out; without a secret of theirs there is one of this site's.
PAYMENTS_SECRETS = read_list("PAYMENTS_SECRETS") or [hmac.digest(SECRET_KEY.encode(), b"payments", "sha256").hex()]

# --- people, pages, files ------------------------------------------------------------------------

AUTH_PASSWORD_VALIDATORS = [
    {"NAME": f"django.contrib.auth.password_validation.{name}"}
    for name in (
        "UserAttributeSimilarityValidator",
        "MinimumLengthValidator",
        "CommonPasswordValidator",
        "NumericPasswordValidator",
    )
]
AUTHENTICATION_BACKENDS = ["approvals.logins.CountedModelBackend"]  # passwords cannot be guessed
LOGIN_URL = "login"
LOGIN_REDIRECT_URL = "home"
LOGOUT_REDIRECT_URL = "login"
# A developer's mails are files that can be opened; a real site says which server sends them.
MAIL_BACKEND = f"django.core.mail.backends.{'filebased' if DEBUG else 'smtp'}.EmailBackend"
if django.VERSION >= (6, 1):
    MAILERS = {
        "default": {
            "BACKEND": MAIL_BACKEND,
            "OPTIONS": {"file_path": str(VAR_DIR / "mail")} if DEBUG else {"host": "localhost"},
        }
    }
else:
    EMAIL_BACKEND = MAIL_BACKEND
    EMAIL_FILE_PATH = str(VAR_DIR / "mail")
DEFAULT_FROM_EMAIL = read_text("FROM_EMAIL", default=f"holdpoint@{urlsplit(BASE_URL).hostname}")

LANGUAGE_CODE = "en"
# What our pages speak; Django's own list has a hundred.
LANGUAGES = [
    ("en", "English"),
    ("es", "Spanish"),
    ("fr", "French"),
    ("de", "German"),
    ("ja", "Japanese"),
    ("zh-hans", "Simplified Chinese"),
    ("ko", "Korean"),
]
TIME_ZONE = "UTC"
USE_I18N = True
USE_TZ = True

STATIC_URL = "static/"
STATIC_ROOT = VAR_DIR / "static"
# Straight from the apps on a developer's machine; collected, hashed and compressed in production.
WHITENOISE_USE_FINDERS = WHITENOISE_AUTOREFRESH = DEBUG
STORAGES = {
    "default": {"BACKEND": "django.core.files.storage.FileSystemStorage"},
    "staticfiles": {
        "BACKEND": "django.contrib.staticfiles.storage.StaticFilesStorage"
        if DEBUG
        else "whitenoise.storage.CompressedManifestStaticFilesStorage"
    },
}

# --- security ------------------------------------------------------------------------------------

if not DEBUG:
    SECURE_SSL_REDIRECT = read_flag("SECURE_SSL_REDIRECT", default=True)
    SECURE_REDIRECT_EXEMPT = [r"^healthz$", r"^readyz$"]  # probes come from inside, without TLS
    SECURE_HSTS_SECONDS = 31_536_000
    SECURE_HSTS_INCLUDE_SUBDOMAINS = True
    SECURE_HSTS_PRELOAD = True
    SESSION_COOKIE_SECURE = True
    CSRF_COOKIE_SECURE = True
    # Only behind a proxy that sets the header itself; from anybody else it would be a lie.
    if read_flag("BEHIND_PROXY", default=False):
        SECURE_PROXY_SSL_HEADER = ("HTTP_X_FORWARDED_PROTO", "https")
SESSION_COOKIE_HTTPONLY = True
X_FRAME_OPTIONS = "DENY"
SECURE_REFERRER_POLICY = "same-origin"

# --- logs ----------------------------------------------------------------------------------------


def is_no_probe(record: logging.LogRecord) -> bool:
    request = getattr(record, "request", None)
    return getattr(request, "path", "") not in {"/healthz", "/readyz"}


LOGGING = {
    "version": 1,
    "disable_existing_loggers": False,
    "formatters": {"line": {"format": "%(asctime)s %(levelname)s %(name)s: %(message)s"}},
    # A probe that is answered "not ready" is news for whoever asked, once a second.
    "filters": {"no_probes": {"()": "django.utils.log.CallbackFilter", "callback": is_no_probe}},
    "handlers": {
        "console": {"class": "logging.StreamHandler", "formatter": "line", "filters": ["no_probes"]},
    },
    "root": {"handlers": ["console"], "level": "WARNING"},
    "loggers": {
        # Configured here, before it is imported: otherwise django-q installs a handler of its own
        # and writes a line per enqueued task in every web process.
        "django-q": {"handlers": ["console"], "level": "WARNING", "propagate": False},
        "django": {"handlers": ["console"], "level": "INFO", "propagate": False},
        "workflows": {"handlers": ["console"], "level": "INFO", "propagate": False},
        "approvals": {"handlers": ["console"], "level": "INFO", "propagate": False},
    },
}
