"""The runnable site with the payments installed; its keys come from the environment, as on every site."""

from config.settings import *  # noqa: F403
from config.settings import INSTALLED_APPS

INSTALLED_APPS = [*INSTALLED_APPS, "tests.support.apps.restarted"]
