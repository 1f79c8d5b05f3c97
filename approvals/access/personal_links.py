"""One-person links: an address by which one user, and nobody else, decides one review, or looks at what became of it.

Lives here: making and reading them. Invariants owned: a link is derived from the review, the user and a key of
`TOKEN_KEYS`, so it is stored nowhere and lives as long as the key is listed; it is good for this user and this review
only, whoever is logged in; and no message or log line of this module contains one.
"""

from __future__ import annotations

from dataclasses import dataclass
from urllib.parse import urlencode
from uuid import UUID

from django.core.exceptions import ValidationError
from django.urls import NoReverseMatch, reverse

from approvals.models import Review
from approvals.people.person import Person
from approvals.people.principals import load_user
from workflows.api.completions import owned_answers
from workflows.definitions import callback_tokens
from workflows.exceptions import InvalidToken

#: Of a token: "review:<key of the user>".
PURPOSE = "review"
_VIEW = "approvals.web.request.link_view"


@dataclass(frozen=True, slots=True)
class Visitor:
    """Whose link it is, and to what."""

    user: Person
    review: Review


def make_link(review: Review, user: Person, *, outcome: str = "") -> str:
    """The address of a review for one user; with `outcome`, that answer is put first on the page.

    >>> make_link(review, ann)
    'https://holdpoint.example/approvals/link/AQNkZXYIcmV2aWV3OjU…/'
    """
    token = make_link_token(review, user)
    path = callback_tokens.find_path(token, names=("approvals:link",), view=_VIEW) or f"/approvals/link/{token}/"
    return callback_tokens.write_url(path) + (f"?{urlencode({'outcome': outcome})}" if outcome else "")


def make_link_token(review: Review, user: Person) -> str:
    """The token in such an address, made with the newest key.

    >>> make_link_token(review, ann) == make_link_token(review, ann)
    True
    """
    token, _ = callback_tokens.make_token(
        review.pk, workspace=review.workspace_id, visit=0, purpose=f"{PURPOSE}:{user.pk}"
    )
    return token


def read_link(token: str) -> Visitor:
    """Whose it is; `InvalidToken` where it is none of ours, or its review or its user is gone.

    >>> read_link(make_link_token(review, ann)).user
    <User: ann>
    """
    id, claimed = callback_tokens.verify_token(token)
    purpose, colon, key = claimed.partition(":")
    if purpose != PURPOSE or not colon:
        raise InvalidToken
    review = Review.objects.using(owned_answers.reach().alias).filter(pk=id).first()
    if review is None or not callback_tokens.check_token(token, workspace=review.workspace_id, visit=0):
        raise InvalidToken
    try:
        user = load_user(key)
    except (ValueError, TypeError, ValidationError):
        user = None
    if user is None:
        raise InvalidToken
    return Visitor(user, review)


def find_inbox() -> str:
    """The address at which somebody who logs in finds all that waits for them.

    >>> find_inbox()
    'https://holdpoint.example/approvals/'
    """
    try:
        return callback_tokens.write_url(reverse("approvals:inbox"))
    except NoReverseMatch:  # a worker's project need not have pages
        return callback_tokens.write_url("/approvals/")


def find_page(id: UUID) -> str:
    """The address of a review, for whoever logs in.

    >>> find_page(review.pk)
    'https://holdpoint.example/approvals/01995c0e-…/'
    """
    return f"{find_inbox()}{id}/"
