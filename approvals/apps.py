"""How Django finds the app. Registrations with the engine belong in `ready()`, database access nowhere."""

from django.apps import AppConfig
from django.utils.translation import gettext_lazy as _


class ApprovalsConfig(AppConfig):
    name = "approvals"
    label = "holdpoint_approvals"  # a host may well have an app called approvals
    verbose_name = _("Approvals")
    default_auto_field = "django.db.models.BigAutoField"

    def ready(self) -> None:
        """Make the channel known, and let the engine's pump look at what time does to reviews."""
        from approvals import channel as channel  # its answers are read by name
        from approvals import timers
        from workflows.sweeps import Sweep, register_sweep

        register_sweep(Sweep("reviews", timers.seconds_to_next, timers.work))
