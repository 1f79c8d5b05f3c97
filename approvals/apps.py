"""How Django finds the app. Registrations with the engine belong in `ready()`, database access nowhere."""

from django.apps import AppConfig, apps
from django.core.exceptions import ImproperlyConfigured
from django.utils.translation import gettext_lazy as _

from workflows.importing.foreign_packages import refuse_foreign

refuse_foreign("approvals")

#: Apps whose tables those of approvals point to.
NEEDED = ("django.contrib.contenttypes", "django.contrib.auth", "workflows")


class ApprovalsConfig(AppConfig):
    name = "approvals"
    label = "holdpoint_approvals"  # a host may well have an app called approvals
    verbose_name = _("Approvals")
    default_auto_field = "django.db.models.BigAutoField"

    def import_models(self) -> None:
        """Say which app is missing, before Django fails over its models in words about something else."""
        if missing := [name for name in NEEDED if not apps.is_installed(name)]:
            raise ImproperlyConfigured(
                f"approvals needs {' and '.join(map(repr, missing))} in INSTALLED_APPS: who decides is a user, a group "
                "or whoever has a permission, and what is decided is a question of a workflow. Add it, or leave out "
                "'approvals'."
            )
        super().import_models()

    def ready(self) -> None:
        """Make the channel known, let the engine's pump see what time does and what is to be told, extend the API."""
        import approvals.asking.approval  # noqa: F401 - its answers are read by name
        from approvals.deciding import stranding, timers
        from approvals.notify import notify_sweep as notices
        from approvals.operations import checks
        from workflows.definitions.sweeps import Sweep, register_sweep
        from workflows.operations.gauges import Gauge, register_gauge
        from workflows.rest.base.extensions import register_part

        register_sweep(Sweep("reviews", timers.seconds_to_next, timers.work))
        register_sweep(Sweep("notices", notices.count_seconds_to_next, notices.work))
        every = stranding.EVERY_SECONDS
        register_sweep(Sweep("stranded", stranding.seconds_to_next, stranding.work, every=every))
        told = f"Open reviews that nobody can decide any more; of more than {stranding.MOST_COUNTED} so many."
        register_gauge(Gauge("holdpoint_stranded_reviews", told, stranding.count_stranded))
        register_part("approvals.rest.api_part.PART")
        checks.register_checks()
