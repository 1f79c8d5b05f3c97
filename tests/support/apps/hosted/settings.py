"""The runnable site's settings, and what a test varies: the queue's name and the size of its cluster."""

import os

from config.settings import *  # noqa: F403
from config.settings import INSTALLED_APPS, LOGGING, Q_CLUSTER

INSTALLED_APPS = [*INSTALLED_APPS, "tests.support.apps.hosted"]

Q_CLUSTER = {**Q_CLUSTER, "poll": 0.1, "name": os.environ.get("QUEUE", Q_CLUSTER["name"])}

# Which process is a worker, and what a failed test wants to know, stands in its log.
LOGGING["loggers"]["django-q"]["level"] = "INFO"
