"""The admin's pages of reviews, for tests: asking, logging in, and the words of what is seen.

Lives here: what the test modules of the reviews' admin begin with. What must not: assertions about one rule.
"""

from __future__ import annotations

import html
import re
from typing import Any

from django.contrib.auth.models import User
from django.test import Client

import workflows
from approvals import Approval
from approvals.models import Review
from workflows import Await, Done, Workflow, step
from workflows.testing import drain

LIST = "/admin/holdpoint_approvals/review/"


def login(user: User) -> Client:
    client = Client()
    client.force_login(user)
    return client


def ask(
    title: str = "Refund €40.00 to Acme", *, actor: Any = "", workspace: str | None = None, **options: Any
) -> Review:
    given = {"title": title, "assignees": ["ann"], **options}
    instance = workflows.start("approval-admin-asks", given, actor=actor, workspace=workspace)
    drain()
    return Review.objects.get(instance=instance)


def ask_about(order: Any, **options: Any) -> Review:
    given = {"title": "Change the order", "assignees": ["ann"], "order": order.code, **options}
    instance = workflows.start("approval-admin-about", given)
    drain()
    return Review.objects.get(instance=instance)


def page_of(review: Any, tail: str = "change/") -> str:
    return f"{LIST}{review.pk}/{tail}"


def read_rows(page: str) -> list[str]:
    """The rows of the change list, without their markup."""
    body = page.partition('<table id="result_list"')[2].partition("</table>")[0].partition("<tbody>")[2]
    return [" ".join(re.sub(r"<[^>]*>", " ", row).split()) for row in body.split("</tr>") if "<td" in row]


def read_words(html: str) -> str:
    return " ".join(re.sub(r"<[^>]*>", " ", html).split())


def read_messages(response: Any) -> list[str]:
    return [read_words(html.unescape(str(one))) for one in response.context["messages"]]


def fill(client: Client, review: Review, page: str = "decide/", **given: Any) -> dict[str, Any]:
    """What the browser sends: the hidden fields of the page, and what was typed."""
    shown = client.get(page_of(review, page)).text
    hidden = dict(re.findall(r'<input type="hidden" name="(version|seen)" value="([^"]*)"', shown))
    return {**hidden, **given}


class AdminAsks(Workflow):
    """Asks as its input says."""

    name = "approval-admin-asks"

    @step
    def ask(self, ctx: Any) -> Await:
        return Await(Approval(**ctx.input), then="tell", timeout="30d")

    @step
    def tell(self, ctx: Any) -> Done:
        return Done(ctx.answer.outcome)


class AdminAsksAbout(Workflow):
    """Asks about an order."""

    name = "approval-admin-about"

    @step
    def ask(self, ctx: Any) -> Await:
        from tests.support.apps.shop.models import Order

        given = dict(ctx.input)
        subject = Order.objects.get(code=given.pop("order"))
        return Await(Approval(**given, subject=subject), then="tell", timeout="30d")

    @step
    def tell(self, ctx: Any) -> Done:
        return Done(ctx.answer.outcome)
