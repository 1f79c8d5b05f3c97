"""Parts of the API that other apps bring: addresses, the document's words for them, problems that only they have.

Lives here: registering a part in an app's `ready()`, and reading the parts. Must not live here: any part itself; this
package knows none by name. Invariant owned: whatever is registered is routed, documented and explained alike, because
the addresses, the document and its page ask here; and a part that comes too late for one of them is refused.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache

from django.core.exceptions import ImproperlyConfigured
from django.urls import URLPattern
from django.utils.module_loading import import_string

from workflows.rest.protocol.problems import ProblemKind


@dataclass(frozen=True, slots=True)
class ApiPart:
    """What one app adds to `/v1`.

    >>> PART = ApiPart("Invoices", "What customers owe.", [path("v1/invoices", Invoices.as_view(), name="invoices")])
    """

    #: The heading of its operations, and what they are about.
    tag: str
    description: str
    patterns: Sequence[URLPattern]
    #: Kinds of problems that no other part has.
    problems: Sequence[ProblemKind] = ()


#: Where each stands, in the order of the apps.
_places: dict[str, None] = {}


def register_part(place: str) -> None:
    """Add a part, by where it stands; it is imported with the first address that is asked for, and not before.

    >>> register_part("shop.rest.PART")
    """
    if place not in _places and list_parts.cache_info().currsize:
        raise ImproperlyConfigured(
            f"{place} comes too late: the addresses have been read. Register it in your app's ready()."
        )
    _places[place] = None


@cache
def list_parts() -> tuple[ApiPart, ...]:
    """All of them."""
    return tuple(map(import_string, _places))
