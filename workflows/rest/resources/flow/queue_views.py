"""/v1/queues and /v1/limits: looked at, and set at run time.

Must not live here: what may be set (`api.flow_control`). Invariant owned: they are a whole workspace's, so a key
that is for some workflows only neither sees nor changes them: a number would tell of the others, a limit stop them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, ClassVar, Literal

from django.http import HttpResponse
from drf_spectacular.utils import OpenApiParameter
from rest_framework.request import Request

from workflows.api.flow_control import change_limit, change_queue, find_queue, list_limits, list_queues
from workflows.definitions.flow.key_templates import LONGEST_KEY
from workflows.exceptions import InvalidCall, UnknownLimit, UnknownQueue
from workflows.rest.base.authentication import CONTROL, READ
from workflows.rest.base.endpoint import ChangeAnswer, Endpoint
from workflows.rest.base.ids import refuse_unknown
from workflows.rest.base.known_lists import answer_known
from workflows.rest.base.repeated_calls import answer_json
from workflows.rest.protocol.bodies import read_as
from workflows.rest.protocol.operation import document
from workflows.rest.protocol.problems import FORBIDDEN, RequestRefused
from workflows.rest.protocol.response_bodies import ProblemOut
from workflows.rest.resources.flow.flow_bodies import (
    ConcurrencyBody,
    LimitList,
    LimitOut,
    QueueBody,
    QueueList,
    QueueOut,
    RateBody,
    show_limit,
    show_queue,
)
from workflows.values.json_text import check_text

TAG = "Flow control"
OF_QUEUE = OpenApiParameter("name", str, OpenApiParameter.PATH, description="Its name.")
OF_LIMIT = OpenApiParameter(
    "name", str, OpenApiParameter.PATH, description="Its name, percent-encoded, slashes and braces too."
)
REPEATED = (
    ProblemOut,
    "The workspace has as many as may be set at run time, or the idempotency key came with another body.",
)


class WholeEndpoint(Endpoint):
    """What is of a whole workspace."""

    def judge(self) -> None:
        """A key for some workflows has no say here."""
        super().judge()
        if self.caller.workflows is not None:
            raise RequestRefused(
                FORBIDDEN, "Queues and limits are of a whole workspace: they take a key that is for all workflows."
            )


class Queues(WholeEndpoint):
    """The queues of a workspace."""

    needs: ClassVar = {"GET": READ}

    @document(
        "listQueues",
        TAG,
        "List queues",
        "Those that the code names, with what was set at run time, and with what runs and waits in each.",
        answers={200: (QueueList, "A page of them.")},
        scope="read",
        pages=True,
    )
    def get(self, request: Request) -> HttpResponse:
        """A page of them, by name."""
        return answer_known(request._request, list_queues(), (str,), lambda one: (one.name,), show_queue)


class OneQueue(WholeEndpoint):
    """One queue."""

    needs: ClassVar = {"GET": READ, "PATCH": CONTROL}
    http_method_names = ("get", "head", "patch")

    @document(
        "getQueue",
        TAG,
        "Look at a queue",
        answers={200: (QueueOut, "The queue.")},
        problems=[404],
        scope="read",
        parameters=[OF_QUEUE],
    )
    def get(self, request: Request, name: str) -> HttpResponse:
        """As it is."""
        with _hide_unknown():
            return answer_json(ChangeAnswer(show_queue(find_queue(name))).write())

    @document(
        "changeQueue",
        TAG,
        "Change or pause a queue",
        "What is left out stays; null gives the limit or the rate back to the code. It is in force within seconds on "
        "all workers, and nothing that runs is interrupted.",
        body=QueueBody,
        answers={200: (QueueOut, "As it is now."), 409: REPEATED},
        problems=[404],
        scope="operate",
        posts=True,
        parameters=[OF_QUEUE],
    )
    def patch(self, request: Request, name: str) -> HttpResponse:
        """Change it."""
        raw, value = self.read_body(request, empty=True)
        changes = read_as(QueueBody, value).list_changes()

        def work() -> ChangeAnswer:
            with _hide_unknown():
                found = change_queue(name, **changes, actor=self.caller.actor) if changes else find_queue(name)
            return ChangeAnswer(show_queue(found))

        return self.answer_once(request, raw, work)


class Limits(WholeEndpoint):
    """The limits of a workspace."""

    needs: ClassVar = {"GET": READ}

    @document(
        "listLimits",
        TAG,
        "List limits",
        "Concurrencies and rates that workflows declare, and the keys for which another number was set.",
        answers={200: (LimitList, "A page of them.")},
        scope="read",
        pages=True,
    )
    def get(self, request: Request) -> HttpResponse:
        """A page of them, by kind and name."""
        return answer_known(request._request, list_limits(), (str, str), lambda one: (one.kind, one.name), show_limit)


class _OneLimit(WholeEndpoint):
    needs: ClassVar = {"PATCH": CONTROL}
    http_method_names = ("patch",)
    kind: ClassVar[Literal["concurrency", "rate"]]

    def change(self, request: Request, name: str, read: Callable[[Any], Any]) -> HttpResponse:
        """Set what the body says."""
        raw, value = self.read_body(request)
        wanted = read(value)

        def work() -> ChangeAnswer:
            with _hide_unknown():
                _check_name(name)
                return ChangeAnswer(show_limit(change_limit(self.kind, name, wanted, actor=self.caller.actor)))

        return self.answer_once(request, raw, work)


class OneConcurrency(_OneLimit):
    """How many of a key may be at once."""

    kind = "concurrency"

    @document(
        "changeConcurrency",
        TAG,
        "Set how many of a key may be at once",
        "Of one key, such as `tenant:7`, or of all that a template makes, such as `tenant:{tenant}`. null gives it "
        "back to the code.",
        body=ConcurrencyBody,
        answers={200: (LimitOut, "As it is now."), 409: REPEATED},
        problems=[404],
        scope="operate",
        posts=True,
        parameters=[OF_LIMIT],
    )
    def patch(self, request: Request, name: str) -> HttpResponse:
        """Set it."""
        return self.change(request, name, lambda value: read_as(ConcurrencyBody, value).limit)


class OneRate(_OneLimit):
    """How often what shares a rate may begin."""

    kind = "rate"

    @document(
        "changeRate",
        TAG,
        "Set how often what shares a rate may begin",
        "null gives it back to the code.",
        body=RateBody,
        answers={200: (LimitOut, "As it is now."), 409: REPEATED},
        problems=[404],
        scope="operate",
        posts=True,
        parameters=[OF_LIMIT],
    )
    def patch(self, request: Request, name: str) -> HttpResponse:
        """Set it."""
        return self.change(request, name, lambda value: read_as(RateBody, value).rate)


def _check_name(name: str) -> None:
    """That a key may be called so at all."""
    try:
        check_text(name, "the name", limit=LONGEST_KEY)
    except InvalidCall:
        raise refuse_unknown() from None


@contextmanager
def _hide_unknown() -> Iterator[None]:
    """What an address names and nobody knows is not there, as everywhere."""
    try:
        yield
    except (UnknownQueue, UnknownLimit):
        raise refuse_unknown() from None
