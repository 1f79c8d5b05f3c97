"""The site of a dispatcher in a process of its own."""

from tests.support.apps.hosted.settings import *  # noqa: F403
from tests.support.apps.hosted.settings import WORKFLOWS as GIVEN
from tests.support.webhook.secrets import OLD

WORKFLOWS = {**GIVEN, "WEBHOOK_SECRETS": {"default": OLD}, "WEBHOOK_ALLOWED": ["127.0.0.1"]}
