"""`/approvals/link/{token}/`: one person's page of one review, without any sign-in.

Lives here: methods, headers and failures. Must not live here: what is done (`form_actions`) and shown (`link_page`).
Invariants owned: GET and HEAD change nothing, whoever asks (a mail scanner, a prefetcher, a browser that runs
scripts); only a form of ours that was posted does; the person is the link's, whoever is logged in; no log line of ours
or Django's holds the address; what is no link of ours is told the same 404, byte for byte.
"""

from __future__ import annotations

import logging

from django.core.exceptions import ImproperlyConfigured, SuspiciousOperation
from django.db import InterfaceError, OperationalError
from django.http import HttpRequest, HttpResponse
from django.utils.cache import patch_vary_headers
from django.views.decorators.debug import sensitive_post_parameters, sensitive_variables

from approvals.access.personal_links import read_link
from approvals.exceptions import UnknownReview
from approvals.notify.failures import describe_error, describe_place
from approvals.web.base.page import speaking_to
from approvals.web.request.form_actions import note_attempt, take_deed
from approvals.web.request.link_page import answer_no_link, answer_refused, answer_trouble, find_refusal, make_visit
from workflows.exceptions import InvalidToken
from workflows.pages.posted_form import FormRefused
from workflows.rest.base.program_views import open_to_machines

logger = logging.getLogger("approvals")

METHODS = ("GET", "HEAD", "POST")


@open_to_machines
@sensitive_variables("token")
@sensitive_post_parameters("password")
def link(request: HttpRequest, token: str) -> HttpResponse:
    """Show the page, or do what was posted from it."""
    response = _answer(request, token.removesuffix("/"))
    response["X-Frame-Options"] = "DENY"
    response["Cache-Control"] = "no-store"
    patch_vary_headers(response, ("Accept-Language", "Cookie"))
    # Django logs the address of every answer from 400 up, unless somebody has done so already.
    response._has_been_logged = True  # type: ignore[attr-defined]
    return response


@sensitive_variables("token")
def _answer(request: HttpRequest, token: str) -> HttpResponse:
    if request.method not in METHODS:
        return answer_refused(405, headers={"Allow": ", ".join(METHODS)})
    try:
        visit = make_visit(request, read_link(token))
        with speaking_to(visit.reader):
            if (refusal := find_refusal(visit)) is not None:
                if request.method == "POST":
                    note_attempt(request, visit.review.pk, visit.user, visit.door)
                return refusal
            return take_deed(visit) if request.method == "POST" else visit.show()
    except (InvalidToken, UnknownReview):
        return answer_no_link()
    except FormRefused as refused:
        return answer_refused(refused.status, text=str(refused))
    except SuspiciousOperation:  # more parameters in the address than Django reads
        return answer_refused(400)
    except ImproperlyConfigured as error:
        logger.error("/approvals/link cannot be served: %s", describe_error(error))
        return answer_trouble(request, 503)
    except (OperationalError, InterfaceError) as error:
        _log(error)
        return answer_trouble(request, 503)
    except Exception as error:  # Django would log the address
        _log(error)
        return answer_trouble(request, 500)


def _log(error: Exception) -> None:
    """Not as an exception: what it says, and what stands around it, may hold the address."""
    logger.error("/approvals/link failed: %s\n%s", describe_error(error), describe_place(error))
