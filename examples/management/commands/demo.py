"""`manage.py demo`: something to look at after the first start, made once and kept.

Lives here: when it may be made. What it is, is in `examples.demo`. Invariant owned: it refuses to run without DEBUG,
because everybody knows the passwords.
"""

from __future__ import annotations

import time
from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand, CommandError

from examples.demo.people import PASSWORD, PEOPLE
from examples.demo.world import count_waiting, make_world


class Command(BaseCommand):
    help = "Makes the demo's people, and on an empty database what waits for them. Needs DEBUG; may be repeated."

    def handle(self, *args: Any, **options: Any) -> None:
        if not settings.DEBUG:
            raise CommandError("demo makes a superuser with a known password: it runs only with DEBUG=1.")
        began = time.monotonic()
        if make_world(self.stdout.write):
            took = time.monotonic() - began
            told = f"{count_waiting()} requests wait for Maya, one of its {len(PEOPLE)} people"
            self.stdout.write(f"The demo is there, made in {took:.1f} s: {told}.")
        else:
            self.stdout.write("The demo's people are there; what else is in this database stays as it is.")
        operator = next(one for one in PEOPLE if one.is_operator)
        self.stdout.write(
            f"Log in as {operator.username} with the password {PASSWORD} (a superuser), or as the others."
        )
