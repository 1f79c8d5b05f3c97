"""Ids in addresses: one way to write each, and one answer for whatever is not there."""

from __future__ import annotations

from uuid import UUID

from workflows.rest.protocol.problems import NOT_FOUND, NOTHING_HERE, RequestRefused


def read_id(text: str) -> UUID:
    """An id as the API writes it; 404 for any other text."""
    try:
        id = UUID(text)
    except ValueError:
        raise refuse_unknown() from None
    if str(id) != text.lower():  # braces, no hyphens and the like: one address per instance
        raise refuse_unknown()
    return id


def refuse_unknown() -> RequestRefused:
    """The one answer for whatever is not there for this caller."""
    return RequestRefused(NOT_FOUND, NOTHING_HERE)
