"""The runnable site's settings, with the workflows of the stress."""

from config.settings import *  # noqa: F403
from config.settings import INSTALLED_APPS

INSTALLED_APPS = [*INSTALLED_APPS, "tests.support.apps.stressed"]
