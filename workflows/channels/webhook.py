"""`Webhook`: a question is posted to an address, signed, and its answer comes back by the resume URL.

Lives here: what is posted, and which answers mean what. Must not live here: how it is posted (`posting`), where it may
go (`address_guard`), when it is tried again (`dispatcher`). Invariants owned: the row holds the name of a secret and
never the secret; neither the log nor a reason holds the resume token or a signature.
"""

from __future__ import annotations

import json
import time
from typing import Any, ClassVar

import urllib3

from workflows.channels.outgoing import Outgoing, Sent
from workflows.conf import conf
from workflows.definitions.channel import Channel
from workflows.exceptions import DispatchFailed, InvalidCall
from workflows.outbound.address_guard import Guard, Unreachable, find_addresses, show_host
from workflows.outbound.posting import PostLimits, PostReply, PostTarget, post, read_place
from workflows.outbound.webhook_signature import sign
from workflows.schemas.schema import read_schema
from workflows.values.json_text import check_text
from workflows.values.types_of_signatures import A
from workflows.wording.hidden_characters import reveal

#: Characters of an answer that the log keeps.
MOST_RESPONSE = 1000
#: Characters of an address.
MOST_URL = 2000
#: Seconds and bytes of one call.
LIMITS = PostLimits(connect=5.0, silence=10.0, whole=30.0, answer=16 * 1024)
#: The same message would be answered the same: it is not what the other side takes, or nobody is there any more.
FINAL = frozenset({400, 405, 406, 410, 411, 413, 414, 415, 422, 431, 501, 505})
#: Ports of services that take no HTTP lie below; where a site allows a host, any will do.
FIRST_FREE_PORT = 1024


class Webhook(Channel[A]):
    """Post the question to an address, as Standard Webhooks describe it; whoever gets it answers by `resume_url`.

    >>> ctx.wait_for("payout", Webhook("https://bank.example/payouts"), input={"amount": 5}, timeout="2d")
    {'accepted': True}
    """

    name = "webhook"
    sends = True
    resumes = True
    keeps_log = True
    limits: ClassVar[PostLimits] = LIMITS

    def __init__(
        self,
        url: str,
        *,
        request: Any = None,
        schema: Any = None,
        secret: str = "default",
        projector: Any = None,
        assignee: str | None = None,
        group: str | None = None,
        correlation_id: str | None = None,
    ) -> None:
        check_text(url, "the url of a webhook", limit=MOST_URL)
        try:
            read_place(url)
        except Unreachable as error:
            raise InvalidCall(f"this webhook cannot be called: {error}") from None
        check_text(secret, "secret=")
        conf.find_webhook_keys(secret)  # better now than when it is sent
        self.config = {"url": url, "secret": secret}
        self.request = request
        self.schema = read_schema(schema)
        self.projector = projector
        self.assignee, self.group, self.correlation_id = assignee, group, correlation_id

    @classmethod
    def dispatch(cls, question: Outgoing) -> Sent:
        """Post it once; see `Channel.dispatch`."""
        body = json.dumps(question.write_envelope(), ensure_ascii=False, separators=(",", ":")).encode()
        keys = conf.find_webhook_keys(question.config["secret"])
        headers = {"Content-Type": "application/json", **sign(question.key, int(time.time()), body, keys)}
        if question.traceparent:
            headers["traceparent"] = question.traceparent
        began = time.monotonic()
        try:
            place = read_place(question.config["url"])
            posted = post(place, find_place(place, conf.webhook_guard), body, headers, cls.limits)
        except Unreachable as error:
            ms = round((time.monotonic() - began) * 1000)
            raise DispatchFailed(str(error), final=error.forbidden, sent=Sent(ms=ms)) from None
        secrets = [headers["webhook-signature"], *headers["webhook-signature"].split()]
        if question.resume_url:
            secrets += [question.resume_url, question.resume_url.rpartition("/")[2]]
        return _judge(place, posted, Sent(posted.status, posted.ms, _show(posted.body, secrets)))


def find_place(place: PostTarget, guard: Guard) -> list[str]:
    """The addresses of a place that a webhook may call; `Unreachable` where it may not."""
    addresses = find_addresses(place.host, place.port, guard)
    if guard.knows_name(place.host) or all(guard.covers(one) for one in addresses):
        return addresses
    host = show_host(place.host)
    if not place.is_secure:
        raise Unreachable(f"{host} is called by http, and the way there is open to all: write https://", forbidden=True)
    if place.port != 443 and place.port < FIRST_FREE_PORT:
        raise Unreachable(f"{host} is called at port {place.port}, where no webhooks are taken", forbidden=True)
    return addresses


def _judge(place: PostTarget, posted: PostReply, sent: Sent) -> Sent:
    if 200 <= posted.status < 300:
        return sent
    told = f"{show_host(place.host)} answered {posted.status}"
    if 300 <= posted.status < 400:
        told += ": redirects are not followed, write the address that it leads to"
    elif posted.status == 410:
        told += ": it wants no more of these"
    raise DispatchFailed(told, final=posted.status in FINAL, retry_after=_read_retry_after(posted), sent=sent)


def _read_retry_after(posted: PostReply) -> float | None:
    """Seconds or a date, as HTTP has it."""
    text = posted.headers.get("Retry-After")
    if not text:
        return None
    try:
        return float(urllib3.Retry().parse_retry_after(text))
    except (urllib3.exceptions.InvalidHeader, ValueError, OverflowError):
        return None


def _show(body: bytes, secrets: list[str]) -> str:
    """The beginning of an answer, without what it may have taken from our message."""
    text = body.decode(errors="replace")
    for secret in secrets:
        # Many write a slash in JSON with a backslash before it.
        text = text.replace(secret, "…").replace(secret.replace("/", "\\/"), "…")
    return reveal(text.strip(), lines=True)[:MOST_RESPONSE]
