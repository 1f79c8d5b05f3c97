"""`/v1/docs`: the API's description as a page that needs no network, no script and no login.

Lives here: the view, and what the page says beside the document: the problems with what to do about them, and the
limits of this site. What the API says about itself is the document's (`openapi`), read by `docs_outline`.
Invariants owned: the page is made once per process and language, from nothing of a visitor's; whatever the document
says reaches it as text, never as markup; and it loads nothing but this site's own style sheets.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from django.http import HttpRequest, HttpResponse
from django.template.loader import render_to_string
from django.utils.translation import get_language, override

from workflows.api.idempotency import LONGEST_KEY
from workflows.conf import conf
from workflows.rest.base.extensions import list_parts
from workflows.rest.base.lists import DEFAULT_LIMIT, MOST
from workflows.rest.base.program_views import open_to_machines
from workflows.rest.protocol import problems
from workflows.rest.protocol.problems import METHOD_NOT_ALLOWED, ProblemKind, answer_problem
from workflows.rest.resources.instance_views import MOST_SECONDS
from workflows.rest.schema.docs_outline import Outline
from workflows.rest.schema.docs_text import read_text
from workflows.rest.schema.openapi import describe_api
from workflows.store.outside.stored_answers import KEEP_DAYS
from workflows.values.json_text import MAX_DEPTH

POLICY = "default-src 'none'; style-src 'self'; img-src 'self' data:; base-uri 'none'; frame-ancestors 'none'"


@open_to_machines
def docs(request: HttpRequest) -> HttpResponse:
    """The page, to anybody."""
    if request.method not in {"GET", "HEAD"}:
        return answer_problem(METHOD_NOT_ALLOWED, "Read this page with GET.", headers={"Allow": "GET, HEAD"})
    response = HttpResponse(render_once(get_language() or "en", read_limits()))
    response["Content-Security-Policy"] = POLICY
    response["X-Content-Type-Options"] = "nosniff"
    return response


@dataclass(frozen=True, slots=True)
class SiteLimits:
    """What this site's settings say about calls."""

    url: str
    body: int
    bulk_body: int
    rate: tuple[int, int] | None


def read_limits() -> SiteLimits:
    """The settings as they are now."""
    return SiteLimits(
        str(conf.given.get("BASE_URL") or "").rstrip("/"), conf.max_body, conf.max_bulk_body, conf.api_rate
    )


@lru_cache(maxsize=64)
def render_once(language: str, limits: SiteLimits) -> str:
    """The page for this site's own document."""
    return render_docs(describe_api(), language=language, limits=limits)


def render_docs(document: Mapping[str, Any], *, language: str, limits: SiteLimits) -> str:
    """The page for a document. Without the request, so that nothing of one visitor's reaches the next."""
    kinds = list_kinds()
    context = {
        "api": Outline(document).read(),
        "problems": [(kind, read_text(kind.advice)) for kind in kinds],
        "problem_statuses": {str(kind.status) for kind in kinds},
        "limits": limits,
        "rate": show_rate(limits.rate),
        "body": show_size(limits.body),
        "bulk_body": show_size(limits.bulk_body),
        "depth": MAX_DEPTH,
        "longest_key": LONGEST_KEY,
        "keep_days": KEEP_DAYS,
        "rows": DEFAULT_LIMIT,
        "most_rows": MOST,
        "most_seconds": MOST_SECONDS,
    }
    with override(language):
        return render_to_string("workflows/api_docs.html", context)


def list_kinds() -> list[ProblemKind]:
    """Every kind of problem there is, by status."""
    kinds = [value for value in vars(problems).values() if isinstance(value, ProblemKind)]
    kinds += [kind for part in list_parts() for kind in part.problems]
    return sorted(kinds, key=lambda kind: kind.status)


def show_rate(rate: tuple[int, int] | None) -> str:
    """A rate as people read it.

    >>> show_rate((60_000, 60))
    '60,000 per minute'
    """
    if rate is None:
        return "any number"
    most, seconds = rate
    units = {1: "second", 60: "minute", 3600: "hour", 86400: "day"}
    return f"{most:,} per {units.get(seconds, f'{seconds} seconds')}"


def show_size(size: int) -> str:
    """Bytes as people read them.

    >>> show_size(512 * 1024)
    '512 KiB'
    """
    for unit, factor in (("MiB", 1 << 20), ("KiB", 1 << 10)):
        if size >= factor:
            return f"{size / factor:.4g} {unit}"
    return f"{size} bytes"
