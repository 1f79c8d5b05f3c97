"""The runnable site's settings, and the broker that a test says."""

import json
import os

from config.settings import *  # noqa: F403
from config.settings import WORKFLOWS

WORKFLOWS = {**WORKFLOWS, "KAFKA": json.loads(os.environ["TEST_KAFKA"])}
