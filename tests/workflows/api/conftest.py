"""The partner that webhooks are posted to."""

from tests.workflows.channels.conftest import partner as partner
