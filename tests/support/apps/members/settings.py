"""The runnable site's settings with another user model: MEMBERS names it."""

import os

from config.settings import *  # noqa: F403
from config.settings import DATABASES, INSTALLED_APPS

AUTH_USER_MODEL = f"members.{os.environ['MEMBERS']}"
INSTALLED_APPS = [*INSTALLED_APPS, "tests.support.apps.members"]
DATABASES["default"]["TEST"] = {"NAME": f"test_members_{os.environ['MEMBERS'].lower()}_{os.getpid()}"}
