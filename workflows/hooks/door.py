"""`POST /hooks/{name}`: a provider's message becomes a call of the hook's function, once.

Lives here: the order of the questions and the answers to them. Invariants owned: nothing is parsed or stored before the
request is verified; a message and its effect are committed together or not at all, so what failed is tried again by
the provider and doubles nothing; a message that comes again is told the first answer; no log of ours holds a body.
"""

from __future__ import annotations

import inspect
import json
import logging
from dataclasses import dataclass
from typing import Any

from django.core.exceptions import ImproperlyConfigured, PermissionDenied
from django.db import InterfaceError, OperationalError, connections, router
from django.db.backends.base.base import BaseDatabaseWrapper
from django.http import HttpRequest, HttpResponse

from workflows import exceptions, store
from workflows.api.refused import count_hook, count_refusal
from workflows.conf import conf
from workflows.definitions.workspace import act_as, current_workspace, enter
from workflows.engine.author_traceback import log_raised
from workflows.exceptions import UnknownWorkspace, to_one_line
from workflows.hooks.definition import Hook, find_hook
from workflows.hooks.message import HookMessage
from workflows.hooks.verifiers import NoSecret, NotVerified
from workflows.models import HookReceipt
from workflows.rest.base.json_body import read_bytes
from workflows.rest.base.program_views import open_to_machines
from workflows.rest.base.repeated_calls import answer_json
from workflows.rest.base.throttle import count_call
from workflows.rest.protocol.problems import (
    METHOD_NOT_ALLOWED,
    NOT_FOUND,
    NOT_TAKEN,
    NOT_VERIFIED,
    NOTHING_HERE,
    SERVER_ERROR,
    UNAVAILABLE,
    RequestRefused,
    answer_error,
    answer_problem,
)
from workflows.values.json_text import dump_value

logger = logging.getLogger("workflows")

#: What a provider is told whose message was taken by a function that returns nothing.
RECEIVED = json.dumps({"received": True})

#: What the engine says where nothing takes the message now. It may come too early, so the provider shall try again.
#: Not with the statuses that these have elsewhere: 410 makes providers delete the address, 404 looks like a wrong one.
TARGET_REFUSES = (
    exceptions.NoTarget,
    exceptions.NoReader,
    exceptions.InteractionRefused,
    exceptions.InvalidData,
    exceptions.InvalidInput,
    exceptions.DuplicateKey,
    exceptions.NotCancellable,
    exceptions.NotRetryable,
)

#: Seconds after which a provider may try again: once the database is back, once somebody has mended the settings.
SOON, LATER = "5", "300"


@open_to_machines
def receive(request: HttpRequest, name: str) -> HttpResponse:
    """Take a message of a provider."""
    response = _answer(request, name)
    response["Cache-Control"] = "no-store"
    response["X-Content-Type-Options"] = "nosniff"
    if response.status_code >= 500:
        # It has been logged; Django would do so again, and mail the fields of a form to the site's admins.
        response._has_been_logged = True  # type: ignore[attr-defined]
    return response


def _answer(request: HttpRequest, name: str) -> HttpResponse:
    if request.method != "POST":
        return answer_problem(METHOD_NOT_ALLOWED, "Providers post here; there is nothing to read.", headers=_ALLOW)
    hook = find_hook(name)
    if hook is None:
        count_hook(None, "unknown")
        return answer_problem(NOT_FOUND, NOTHING_HERE)
    taking = _Taking(hook)
    outcome, response = taking.answer(request)
    count_hook(taking.workspace, outcome)
    return response


_ALLOW = {"Allow": "POST"}


@dataclass(slots=True)
class _Taking:
    """One request to a hook."""

    hook: Hook
    #: The id of the workspace, once it is known.
    workspace: int | None = None

    def answer(self, request: HttpRequest) -> tuple[str, HttpResponse]:
        """What became of it, and what the provider is told."""
        try:
            message = self.read(request)
            count_call(self.hook.actor, conf.api_rate)
            return self.take(message)
        except NotVerified as refused:
            return "unverified", answer_problem(NOT_VERIFIED, f"{refused}.", headers=_CHALLENGE)
        except RequestRefused as refused:
            outcome = {429: "throttled", 503: "failed"}.get(refused.kind.status, "unreadable")
            return outcome, answer_error(refused) or self.fail(refused)
        except TARGET_REFUSES as refused:
            return "not_taken", self.refuse(refused)
        except (ImproperlyConfigured, NoSecret) as error:
            logger.error("hook %r cannot take anything: %s", self.hook.name, error)
            told = "This site is not set up to take messages of this hook. Send it again later."
            return "failed", answer_problem(UNAVAILABLE, told, headers={"Retry-After": LATER})
        except (OperationalError, InterfaceError) as error:
            log_raised(logger, logging.ERROR, f"hook {self.hook.name!r}: the database cannot be used", error)
            told = "It is not certain that the message was taken: send it again."
            return "failed", answer_problem(UNAVAILABLE, told, headers={"Retry-After": SOON})
        except Exception as error:
            return "failed", self.fail(error)

    def read(self, request: HttpRequest) -> HookMessage:
        """The message, once it is known to be the provider's."""
        raw = read_bytes(request, limit=self.hook.max_body, any_type=True)
        request._body = raw  # verifiers read `request.body`, and those of forms `request.POST`
        self.verify(request)
        return HookMessage(self.hook, request, raw)

    def verify(self, request: HttpRequest) -> None:
        """That the request is the provider's. A verifier that does not say so has verified nothing."""
        try:
            answer = self.hook.verify(request)
        except (NotVerified, NoSecret, ImproperlyConfigured, OperationalError, InterfaceError):
            raise
        except PermissionDenied:
            raise NotVerified from None
        except Exception as error:
            # It may be a mistake in the verifier, which nobody would find otherwise.
            why = to_one_line(f"{type(error).__name__}: {error}")[:200]
            logger.warning("hook %r: a request was not verified: %s", self.hook.name, why)
            raise NotVerified from None
        _refuse_awaitable(answer, "its verify=")
        if not answer:
            if answer is None:
                # Such as `headers.get(…) and …` where there is no header; or a `return True` that was forgotten.
                logger.warning("hook %r: its verify= returned None, which refuses: return True", self.hook.name)
            raise NotVerified

    def take(self, message: HookMessage) -> tuple[str, HttpResponse]:
        """Call the function, or tell the first answer again: of equal messages at once, the others wait for one."""
        db = connections[router.db_for_write(HookReceipt)]
        event = message.id

        def carry_out() -> tuple[str, str]:
            self.workspace = workspace = self.find_workspace(db, message)
            before = store.reserve_receipt(db, workspace, self.hook.name, event)
            if before is not None:
                return "repeated", before
            with enter(workspace), act_as(self.hook.actor):
                value = self.hook.function(message)
            _refuse_awaitable(value, "its function")
            answer = RECEIVED if value is None else dump_value(value, "what its function returned", conf.max_body)
            store.keep_receipt(db, workspace, self.hook.name, event, answer)
            return "taken", answer

        outcome, answer = store.in_transaction(db, carry_out)
        return outcome, answer_json(answer, replayed=outcome == "repeated")

    def find_workspace(self, db: BaseDatabaseWrapper, message: HookMessage) -> int:
        """The id of the workspace that the hook names for this message."""
        named = self.hook.workspace(message) if callable(self.hook.workspace) else self.hook.workspace
        slug = current_workspace(named)
        found = store.resolve_workspaces(db, [slug]).get(slug)
        if found is None:
            raise UnknownWorkspace(slug)
        return found

    def refuse(self, error: Exception) -> HttpResponse:
        """Nothing takes it now: rolled back, and counted where it was an answer to a question."""
        if not isinstance(error, exceptions.UnknownInteraction):  # which was counted where it was looked for
            count_refusal(self.workspace, error)  # its row in the ledger went with the transaction
        log_raised(logger, logging.WARNING, f"hook {self.hook.name!r}: nothing takes a message now", error)
        told = "What this message is about cannot take it now. Nothing was stored: send it again later."
        return answer_problem(NOT_TAKEN, told)

    def fail(self, error: Exception) -> HttpResponse:
        """A mistake of this site."""
        log_raised(logger, logging.ERROR, f"hook {self.hook.name!r} failed; its provider may send it again", error)
        told = "Something failed here, and has been logged. Nothing was stored: send it again later."
        return answer_problem(SERVER_ERROR, told)


#: RFC 9110 wants one with every 401; how the provider signs is known to whoever set it up.
_CHALLENGE = {"WWW-Authenticate": 'Signature realm="holdpoint"'}


def _refuse_awaitable(value: Any, what: str) -> None:
    if inspect.isawaitable(value):
        if inspect.iscoroutine(value):
            value.close()
        raise ImproperlyConfigured(f"{what} is async, and was not run: write an ordinary function")
