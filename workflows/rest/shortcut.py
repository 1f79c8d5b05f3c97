"""An optional middleware: calls that bring a key are answered before the middleware that pages need.

    MIDDLEWARE = [
        "django.middleware.security.SecurityMiddleware",
        "workflows.rest.shortcut.answer_calls_first",
        …

Lives here: nothing that the API needs; without it every call works alike, and takes about a fifth more of a process;
and a host that is none of the site's is refused in Django's HTML.
Invariant owned: only views that are made for machines are answered here, and only for who brings a key; sessions,
pages and everything of the project's own go their usual way.
"""

from __future__ import annotations

from collections.abc import Callable

from django.core.exceptions import DisallowedHost, SuspiciousOperation
from django.http import HttpRequest, HttpResponseBase
from django.urls import Resolver404, ResolverMatch, resolve
from django.utils import timezone, translation

from workflows.rest.base.authentication import read_key
from workflows.rest.base.endpoint import Endpoint, answer_exception, answer_unknown

GetResponse = Callable[[HttpRequest], HttpResponseBase]


def answer_calls_first(get_response: GetResponse) -> GetResponse:
    """Make the middleware."""

    def answer(request: HttpRequest) -> HttpResponseBase:
        if hasattr(request, "urlconf"):
            return get_response(request)  # somebody before us has chosen other routes
        try:
            request.get_host()
        except DisallowedHost as error:
            # Refused further in, as everywhere; but Django would tell a program so in HTML.
            found = _find_view(request)
            told = found is not None and (_is_call(found) or found.func is answer_unknown)
            return answer_exception(error, {}) if told else get_response(request)
        if read_key(request) is None or (match := _find_view(request)) is None or not _is_call(match):
            return get_response(request)
        request.resolver_match = match
        # Whoever used this thread before may have left a language or a zone: a program has the site's.
        translation.deactivate()
        timezone.deactivate()
        response: HttpResponseBase = match.func(request, *match.args, **match.kwargs)
        if not response.streaming and not response.has_header("Content-Length"):
            response["Content-Length"] = str(len(response.content))  # type: ignore[attr-defined]
        return response

    return answer


def _find_view(request: HttpRequest) -> ResolverMatch | None:
    try:
        return resolve(request.path_info)
    except (Resolver404, SuspiciousOperation):
        return None


def _is_call(match: ResolverMatch) -> bool:
    return issubclass(getattr(match.func, "cls", object), Endpoint)
