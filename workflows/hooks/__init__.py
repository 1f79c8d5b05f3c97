"""Inbound hooks: a provider posts its own shape to one fixed address, and a function makes of it what it means here.

    @hook("stripe", verify=stripe(lambda: settings.STRIPE_SECRETS))
    def payments(message):
        workflows.emit(message.data["type"], message.data["data"]["object"])

Lives here: the names that authors import. Importing them loads no model and needs no configured Django.
"""

from workflows.hooks.definition import Hook as Hook
from workflows.hooks.definition import hook as hook
from workflows.hooks.message import HookMessage as HookMessage
from workflows.hooks.verifiers import NotVerified as NotVerified
from workflows.hooks.verifiers import github as github
from workflows.hooks.verifiers import standard_webhooks as standard_webhooks
from workflows.hooks.verifiers import stripe as stripe

__all__ = ["Hook", "HookMessage", "NotVerified", "github", "hook", "standard_webhooks", "stripe"]
