"""Pages as answers: rendered apart from the project's own context, under the strictest headers that let them work.

Invariants owned: no page is kept, framed, indexed or able to load or run anything of others; no context processor of
the project sees a page that a secret address leads to, nor can it fail one when the database is away.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from urllib.parse import urlsplit

from django.conf import settings
from django.http import HttpResponse
from django.template.loader import render_to_string
from django.templatetags.static import static

STYLESHEET = "holdpoint/holdpoint.css"

#: A page with a form tells where it comes from, and never its path: with nothing at all the browser would send
#: "Origin: null" with the form, which no check of forms can tell from a stranger's; with "same-origin" the whole
#: address, token and all, would be told with every request for the stylesheet, and so be in the site's logs.
WITH_FORM = "strict-origin"
WITHOUT = "no-referrer"


def answer_page(
    template: str, context: Mapping[str, Any], *, status: int = 200, has_form: bool = False, headers: Any = None
) -> HttpResponse:
    """One page."""
    response = HttpResponse(render_to_string(template, dict(context)), status=status, headers=headers)
    response["Cache-Control"] = "no-store"
    response["Content-Security-Policy"] = write_policy()
    response["Referrer-Policy"] = WITH_FORM if has_form else WITHOUT
    response["X-Content-Type-Options"] = "nosniff"
    response["X-Robots-Tag"] = "noindex, nofollow, noarchive"
    return response


def write_policy(*, has_scripts: bool = False) -> str:
    """The Content-Security-Policy: nothing but our own stylesheet and pictures, and forms to ourselves.

    A page with scripts of ours may run these, ask this site for parts, and show its pictures and files.
    """
    own = f"'self'{_find_elsewhere(static(STYLESHEET))}"
    shown, more = own, ""
    if has_scripts:
        files = f"{own}{_find_elsewhere(settings.MEDIA_URL)}"
        shown = f"{files} data:"
        more = f"script-src {own}; connect-src 'self'; object-src 'self'; frame-src {files}; manifest-src 'self'; "
    return (
        f"default-src 'none'; style-src {own}; img-src {shown}; {more}form-action 'self'; frame-ancestors 'none'; "
        "base-uri 'none'"
    )


def _find_elsewhere(address: str) -> str:
    """A project may serve its static files, or what people upload, from elsewhere."""
    place = urlsplit(address)
    return f" {place.scheme + '://' if place.scheme else ''}{place.netloc}" if place.netloc else ""
