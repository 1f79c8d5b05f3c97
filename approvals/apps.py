"""How Django finds the app. Registrations with the engine belong in `ready()`, database access nowhere."""

from django.apps import AppConfig
from django.utils.translation import gettext_lazy as _


class ApprovalsConfig(AppConfig):
    name = "approvals"
    label = "holdpoint_approvals"  # a host may well have an app called approvals
    verbose_name = _("Approvals")
    default_auto_field = "django.db.models.BigAutoField"
