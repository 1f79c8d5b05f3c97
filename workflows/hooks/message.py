"""A verified message of a provider, as the function of its hook is handed it.

Invariant owned: nothing is parsed before somebody asks for it, which is after the signature was verified.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from django.http import HttpRequest

    from workflows.hooks.definition import Hook


@dataclass(frozen=True, eq=False)
class HookMessage:
    """What was sent to a hook.

    >>> HookMessage(hook, request, b'{"id": "evt_1"}').data
    {'id': 'evt_1'}
    """

    hook: Hook
    #: The request, with `headers`, `GET`, and `body`.
    request: HttpRequest
    #: The body as it was sent, which is what the provider signed.
    body: bytes

    def __repr__(self) -> str:
        return f"<message to hook {self.hook.name!r}, {len(self.body)} bytes>"

    @property
    def headers(self) -> Mapping[str, str]:
        """The headers of the request; upper and lower case are the same."""
        return self.request.headers

    @cached_property
    def data(self) -> Any:
        """The fields of a form, else the value of a JSON text; 400 for the provider where the body is neither."""
        from workflows.rest.base.json_body import is_form, parse_body, parse_form

        return parse_form(self.request, self.body) if is_form(self.request) else parse_body(self.body)

    @cached_property
    def id(self) -> str:
        """The provider's own id of what it tells: the same each time it sends this; 400 where it names none."""
        from workflows.exceptions import InvalidCall
        from workflows.rest.protocol.problems import INVALID_REQUEST, RequestRefused
        from workflows.values.json_text import check_text

        found = self.hook.find_id(self)
        if isinstance(found, int) and not isinstance(found, bool):
            found = str(found)
        try:
            return check_text(found, "the id of the message", limit=255)
        except InvalidCall as error:
            raise RequestRefused(INVALID_REQUEST, f"The message cannot be told from others: {error}.") from error
