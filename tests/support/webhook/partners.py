"""A partner at 127.0.0.1 that takes webhooks, and workflows that ask it."""

from __future__ import annotations

import json
from typing import Any

from standardwebhooks import Webhook as Reference

import workflows
from tests.support.notices import Place
from tests.support.webhook.secrets import OLD
from workflows import Await, Done, Workflow, durable, step
from workflows.channels.webhook import Webhook
from workflows.models import Interaction
from workflows.testing import drain


@durable(name="partners.ask")
def ask_partner(ctx, url, request=None, secret="default"):
    return ctx.wait_for("ask", Webhook(url, secret=secret), input=request, timeout="30d")


class AskPartner(Workflow):
    name = "partners.step"

    @step
    def ask(self, ctx):
        return Await(Webhook(ctx.input["url"], schema={"paid": bool}), then="end", timeout="30d")

    @step
    def end(self, ctx):
        return Done(ctx.answer)


def allow(settings: Any, *hosts: str, **more: Any) -> None:
    """Hosts that may be called, and a secret."""
    settings.WORKFLOWS = {
        **settings.WORKFLOWS,
        "WEBHOOK_SECRETS": {"default": OLD},
        "WEBHOOK_ALLOWED": list(hosts),
        **more,
    }


def verify(got: tuple[dict[str, str], bytes], secret: str = OLD) -> Any:
    """What the reference library makes of a message; it raises where the signature is not good."""
    headers, body = got
    read = Reference(secret).verify(body, {name.lower(): value for name, value in headers.items()})
    assert read == json.loads(body)
    return read


def find_ids(place: Place) -> list[str]:
    """The `webhook-id` of all that was sent."""
    return [{name.lower(): value for name, value in headers.items()}["webhook-id"] for headers, _ in place.got]


def newest() -> Interaction:
    found: Interaction = Interaction.objects.filter(channel="webhook").order_by("-id")[0]
    return found


def ask(place: Place | str, **more: Any) -> Any:
    url = place if isinstance(place, str) else place.url
    instance = workflows.start("partners.ask", {"url": url, **more})
    drain()
    return instance
