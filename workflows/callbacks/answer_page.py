"""The page of a resume address: what is asked, a form for the answer, and for ever after how it ended.

Invariants owned: looking changes nothing, only a form of ours that was sent does; the checks and their order are those
of every other door (`complete_at`); this module is never handed the token, so no page, log or redirect of it can
tell one, and a page that finds nothing is the same for whatever is not there.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Callable
from typing import Any, TypeAlias
from uuid import UUID

from django.core.exceptions import ImproperlyConfigured
from django.db import InterfaceError, OperationalError
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.utils.cache import patch_vary_headers
from django.utils.translation import gettext as _

from workflows.api.completions.completion import complete_at
from workflows.api.idempotency import make_once
from workflows.callbacks.asked_question import DOOR
from workflows.callbacks.page_content import (
    AnswerVisit,
    answer_not_found,
    answer_notice,
    answer_trouble,
    make_visit,
    show_form,
    show_outcome,
    show_refused,
    show_stale,
    show_untrusted,
)
from workflows.conf import conf
from workflows.exceptions import (
    AnswerElsewhere,
    IdempotencyConflict,
    InteractionResolved,
    InvalidData,
    InvalidToken,
    NotSerializable,
    PolicyRefused,
    ProjectionFailed,
    StaleVersion,
    TooLarge,
    UnknownInteraction,
)
from workflows.pages.posted_form import FormRefused, read_number, read_posted
from workflows.store import Once
from workflows.values.json_text import MISSING, dump_value

logger = logging.getLogger("workflows")

#: Finds the interaction of the address that was opened, and its workspace.
Find: TypeAlias = Callable[[], tuple[UUID, int]]

_NONCE = re.compile(r"[A-Za-z0-9_-]{16,64}")


def answer_person(request: HttpRequest, find: Find) -> HttpResponse:
    """The answer to a browser: to GET and HEAD a page, to POST of its form the page's address again, or why not."""
    try:
        response = take_answer(request, find) if request.method == "POST" else show_question(request, find)
    except (InvalidToken, UnknownInteraction):
        response = answer_not_found()
    except FormRefused as refused:
        response = answer_notice(refused.status, _("That could not be read"), str(refused))
    except ImproperlyConfigured as error:
        logger.error("/resume cannot be served: %s", error)
        told = _("This site is not set up to take answers. Tell whoever runs it.")
        response = answer_notice(503, _("Not available right now"), told, headers={"Retry-After": "300"})
    except (OperationalError, InterfaceError):
        logger.exception("/resume: the database cannot be used")
        response = answer_trouble(request, 503)
    except Exception:  # Django would log the address
        logger.exception("/resume failed")
        response = answer_trouble(request, 500)
    patch_vary_headers(response, ("Accept", "Accept-Language", "Cookie"))
    return response


def show_question(request: HttpRequest, find: Find) -> HttpResponse:
    """The page as it is opened."""
    visit = _find(request, find)
    if visit.question.state != "open":
        return show_outcome(visit)
    return show_form(visit, visit.question.form.begin())


def take_answer(request: HttpRequest, find: Find) -> HttpResponse:
    """Complete the interaction with what the form holds."""
    interaction, workspace = find()  # first: to read a form takes as long as its sender likes
    posted = read_posted(request)
    visit = make_visit(request, interaction, workspace)
    form = visit.question.form
    typed = form.pick(posted.data)
    if not posted.trusted:
        return show_untrusted(visit, typed)
    if (pressed := form.press(posted.data)) is not None:
        if visit.question.state != "open":
            return show_outcome(visit, typed=typed)
        return show_form(visit, pressed.typed, pressed.errors, focus=pressed.focus)
    reading = form.read(typed, schema=visit.question.schema)
    # What cannot be read is judged last, like what a schema refuses: whoever comes too late should hear that.
    value = MISSING if reading.errors else reading.value
    try:
        complete_at(
            "id",
            visit.interaction,
            value,
            workspace=visit.workspace,
            door=DOOR,
            once=_recognise(visit, posted.data.get("once", ""), value),
            version=read_number(posted.data.get("version", "")),
        )
    except InvalidData as refused:
        if not reading.errors:
            reading.place_errors({"": ["is required"]} if value is MISSING else refused.errors)
        return show_form(visit, typed, reading.errors, status=422)
    except ProjectionFailed as refused:
        told = _("This answer cannot be used: %(reason)s") % {"reason": f"{refused.__cause__}"[:300]}
        return show_form(visit, typed, {"": [told]}, status=422)
    except (NotSerializable, TooLarge) as refused:
        return show_form(visit, typed, {"": [refused.tell()]}, status=413 if isinstance(refused, TooLarge) else 422)
    except PolicyRefused as refused:
        return show_refused(visit, typed, refused)
    except StaleVersion:
        return show_stale(visit.look_again(), typed, reading, posted.data.get("shown", ""))
    except (AnswerElsewhere, IdempotencyConflict):
        return show_outcome(visit.look_again(), status=409, typed=typed, reading=reading)
    except InteractionResolved:
        return show_outcome(visit.look_again(), status=410, typed=typed, reading=reading)
    # To the same address, which from now on shows the outcome; reloading that sends nothing.
    return HttpResponseRedirect(request.path, status=303)


# --- finding and recognising --------------------------------------------------------------------------


def _find(request: HttpRequest, find: Find) -> AnswerVisit:
    interaction, workspace = find()
    return make_visit(request, interaction, workspace)


def _recognise(visit: AnswerVisit, nonce: str, value: Any) -> Once | None:
    """The same form sent twice, by a second click or after a lost connection, is one answer."""
    if value is MISSING or not _NONCE.fullmatch(nonce):
        return None
    body = dump_value(value, "the data", conf.max_body).encode()
    return make_once("POST", f"form {visit.interaction}", nonce, body=body)
