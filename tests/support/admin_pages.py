"""The admin's pages of instances and questions, for tests: people who log in, and the words of what they see.

Lives here: browsers of operators and staff, addresses, rows of a list. What must not: assertions.
"""

import re
from typing import Any

import pytest
from django.contrib.auth import get_user_model
from django.contrib.auth.models import Permission
from django.test import Client

import workflows
from workflows import Await, Done, Stop, Workflow, step
from workflows.models import Instance
from workflows.testing import drain

LIST = "/admin/holdpoint/instance/"
HOSTILE = "<script>alert('x')</script>"
ESCAPED = "&lt;script&gt;"


@pytest.fixture(name="operator")
def log_operator_in() -> Client:
    """A superuser's browser."""
    return login(get_user_model().objects.create_superuser("ada"))


def login(user: Any) -> Client:
    client = Client()
    client.force_login(user)
    return client


def staff(*permissions: str) -> Client:
    """The browser of somebody who may enter the admin and do only this."""
    user = get_user_model().objects.create_user("bob", is_staff=True)
    user.user_permissions.set(Permission.objects.filter(codename__in=permissions))
    return login(user)


def page_of(instance: Instance, tail: str = "") -> str:
    return f"{LIST}{instance.pk}/{tail or 'change/'}"


def read_rows(page: str) -> list[str]:
    """The rows of the change list, without their markup."""
    body = page.partition('<table id="result_list"')[2].partition("</table>")[0].partition("<tbody>")[2]
    return [" ".join(re.sub(r"<[^>]*>", " ", row).split()) for row in body.split("</tr>") if "<td" in row]


SCHEMA = {"title": "Payment", "type": "object", "required": ["amount"]}


class AdminAsks(Workflow):
    """Asks as its input says."""

    @step
    def begin(self, ctx: Any) -> Await:
        ask = ctx.callback("pay", schema=SCHEMA)
        ctx.input.get("url") and ask.resume_url
        return Await(ask, then="end", timeout="24h")

    @step
    def end(self, ctx: Any) -> Done:
        return Done(ctx.answer)


def waiting(workflow: str, input: Any, **options: Any) -> Instance:
    instance = workflows.start(workflow, input, **options)
    drain()
    return Instance.objects.get(pk=instance.pk)


def words_of(page: str) -> str:
    return " ".join(re.sub(r"<[^>]*>", " ", page).split())


def part(page: str, name: str) -> str:
    return words_of(page.partition(f'id="{name}-page"')[2].partition('class="module')[0])


class AdminWaits(Workflow):
    """AdminWaits for `go`, then tells what came."""

    @step
    def ask(self, ctx: Any) -> Await:
        return Await("go", then="tell", timeout="24h")

    @step
    def tell(self, ctx: Any) -> Done | Stop:
        return Done(ctx.awaited[0].payload) if ctx.awaited else Stop("nobody came")
