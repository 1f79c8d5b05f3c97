"""`manage.py demo`: something to look at after the first start, made once and kept.

What lives here: a login for a developer's machine and a few instances of whatever example workflows
are installed. What must not: anything a real site could need; it refuses to run without DEBUG,
because everybody knows the password, and without its workflows, which the package does not bring.
"""

from typing import Any

from django.conf import settings
from django.contrib.auth import get_user_model
from django.contrib.auth.models import Group
from django.core.management.base import BaseCommand, CommandError

import workflows
from workflows.exceptions import DuplicateKey
from workflows.registry import list_definitions

LOGIN = "demo"

# (workflow, key, input): the key makes a second run find what the first one started.
INSTANCES: list[tuple[str, str, dict[str, Any]]] = [
    ("demo.ship", "demo-order-1", {"order": 1, "article": "lamp"}),
    ("demo.ship", "demo-order-2", {"order": 2, "article": "desk"}),
    ("demo.discount", "demo-discount-1", {"customer": "Ann", "percent": 20}),
    ("demo.remind", "demo-reminder-1", {"text": "Water the plants", "times": 3}),
]

#: Those whom these workflows ask; the login is in the first.
GROUPS = ("Sales leads", "Directors")


class Command(BaseCommand):
    help = "Creates the login demo/demo and starts a few example workflows. Needs DEBUG; may be repeated."

    def handle(self, *args: Any, **options: Any) -> None:
        if not settings.DEBUG:
            raise CommandError("demo makes a superuser with a known password: it runs only with DEBUG=1.")
        known = {one.name for one in list_definitions()}
        here = [one for one in INSTANCES if one[0] in known]
        if not here:
            names = ", ".join(sorted({name for name, _, _ in INSTANCES}))
            raise CommandError(
                f"There is nothing to show here, and no login was made: the demo workflows ({names}) belong to the "
                "example site in Holdpoint's own repository, not to the installed package. To see them, run `make run` "
                "in a clone of it; to see your own, start one with workflows.start(…)."
            )
        create_login()
        create_groups()
        for workflow, key, input in here:
            try:
                workflows.start(workflow, input, key=key, actor=LOGIN)
            except DuplicateKey:
                continue
        self.stdout.write(f"Log in as {LOGIN} with the password {LOGIN}.")


def create_login() -> None:
    """Make the superuser, unless somebody of that name exists: their password is theirs to keep."""
    users = get_user_model()._default_manager
    if not users.filter(**{get_user_model().USERNAME_FIELD: LOGIN}).exists():
        users.create_superuser(LOGIN, password=LOGIN)


def create_groups() -> None:
    """Make the groups that are asked, and let the login decide."""
    made = [Group.objects.get_or_create(name=name)[0] for name in GROUPS]
    user = get_user_model()._default_manager.filter(**{get_user_model().USERNAME_FIELD: LOGIN}).first()
    if user is not None and hasattr(user, "groups"):
        user.groups.add(made[0])
