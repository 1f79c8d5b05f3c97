#!/usr/bin/env python3
"""Django's command line for the runnable site."""

import os
import sys


def main() -> None:
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "config.settings")
    try:
        from django.core.management import execute_from_command_line
    except ImportError as error:
        sys.exit(
            f"Django is not installed for {sys.executable} ({error}).\n"
            "Run `make setup` once, then `.venv/bin/python manage.py …`."
        )
    execute_from_command_line(sys.argv)


if __name__ == "__main__":
    main()
