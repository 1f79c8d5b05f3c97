"""`manage.py demo`: something to look at after the first start, made once and kept.

What lives here: a login for a developer's machine and a few instances of whatever example workflows
are installed. What must not: anything a real site could need; it refuses to run without DEBUG,
because everybody knows the password.
"""

from typing import Any

from django.conf import settings
from django.contrib.auth import get_user_model
from django.core.management.base import BaseCommand, CommandError

import workflows
from workflows.exceptions import DuplicateKey, UnknownWorkflow

LOGIN = "demo"

# (workflow, key, input): the key makes a second run find what the first one started.
INSTANCES: list[tuple[str, str, dict[str, Any]]] = [
    ("demo.ship", "demo-order-1", {"order": 1, "article": "lamp"}),
    ("demo.ship", "demo-order-2", {"order": 2, "article": "desk"}),
    ("demo.discount", "demo-discount-1", {"customer": "Ann", "percent": 20}),
    ("demo.remind", "demo-reminder-1", {"text": "Water the plants", "times": 3}),
]


class Command(BaseCommand):
    help = "Creates the login demo/demo and starts a few example workflows. Needs DEBUG; may be repeated."

    def handle(self, *args: Any, **options: Any) -> None:
        if not settings.DEBUG:
            raise CommandError("demo makes a superuser with a known password: it runs only with DEBUG=1.")
        create_login()
        for workflow, key, input in INSTANCES:
            try:
                workflows.start(workflow, input, key=key, actor=LOGIN)
            except DuplicateKey:
                continue
            except UnknownWorkflow:
                self.stderr.write(f"{workflow} is not installed: add 'examples' to INSTALLED_APPS to see it.")
        self.stdout.write(f"Log in as {LOGIN} with the password {LOGIN}.")


def create_login() -> None:
    """Make the superuser, unless somebody of that name exists: their password is theirs to keep."""
    users = get_user_model()._default_manager
    if not users.filter(**{get_user_model().USERNAME_FIELD: LOGIN}).exists():
        users.create_superuser(LOGIN, password=LOGIN)
