"""Somebody at the page of one request, for tests.

Lives here: opening it, sending its form, reading what its answer tells the page. What must not: rules.
"""

from __future__ import annotations

import json
from typing import Any

from django.contrib.auth.models import User
from django.test import Client

from approvals.models import Review


class Desk:
    """Somebody at the page of a request."""

    def __init__(self, user: User) -> None:
        self.user, self.client = user, Client()
        self.client.force_login(user)

    def open(self, review: Review, *, part: bool = False, status: int = 200) -> Any:
        headers = {"HX-Request": "true"} if part else {}
        answer = self.client.get(f"/approvals/{review.pk}/", headers=headers)
        assert answer.status_code == status, answer.text
        return answer

    def send(self, review: Review, *, part: bool = True, status: int = 200, query: str = "", **fields: Any) -> Any:
        """What the form posts: the version and digest that the page showed, and these fields."""
        card = self.open(review, part=True).context["card"]
        shown = {"version": str(card.version), "seen": card.seen}
        return self.post(review, part=part, status=status, query=query, **{**shown, **fields})

    def post(self, review: Review, *, part: bool = True, status: int = 200, query: str = "", **fields: Any) -> Any:
        headers = {"HX-Request": "true"} if part else {}
        answer = self.client.post(f"/approvals/{review.pk}/{query}", fields, headers=headers)
        assert answer.status_code == status, answer.text
        return answer


def tell(answer: Any) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(answer["HX-Trigger"])["holdpoint:done"]
    return found
