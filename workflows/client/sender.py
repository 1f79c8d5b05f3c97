"""What every call of the client does: sent once, read as a value, or followed from page to page.

Must not live here: an address. Invariant owned: whatever changes something is sent with an idempotency key.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any
from uuid import uuid4

from workflows.client.errors import refuse_answer
from workflows.client.transport import Call, Reply, Transport, write_query
from workflows.client.values import Value
from workflows.client.wire import check_header, read_page, write_json


class Sender:
    """The connections to one site, and what is done with them."""

    _transport: Transport

    def _look(self, path: str, *, patience: float = 0.0, deadline: float | None = None) -> Reply:
        return self._transport.exchange(Call("GET", path, path, patience=patience, deadline=deadline))

    def _post(
        self, path: str, body: Any, idempotency_key: str | None, *, shown: str | None = None, keyed: bool = True
    ) -> Reply:
        return self._change("POST", path, body, idempotency_key, shown=shown, keyed=keyed)

    def _change(
        self,
        method: str,
        path: str,
        body: Any,
        idempotency_key: str | None,
        *,
        shown: str | None = None,
        keyed: bool = True,
        has_body: bool = True,
    ) -> Reply:
        once = uuid4().hex if idempotency_key is None else check_header(idempotency_key, "the idempotency key")
        return self._transport.exchange(
            Call(
                method,
                path,
                shown or path,
                body=write_json(body) if has_body else None,
                idempotency_key=once,
                keyed=keyed,
            )
        )

    def _delete(self, path: str, idempotency_key: str | None) -> None:
        self._change("DELETE", path, None, idempotency_key, has_body=False)

    def _walk(self, kind: type[Value], path: str, filters: Mapping[str, Any]) -> Iterator[Value]:
        cursor: str | None = None
        while True:
            reply = self._look(path + write_query({**filters, "cursor": cursor}))
            rows, following = read_page(kind, reply, self._transport.host)
            yield from rows
            if following is None:
                return
            if following == cursor:
                raise refuse_answer(reply.status, "a page follows itself")
            cursor = following
