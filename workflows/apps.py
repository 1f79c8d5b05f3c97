"""How Django knows the engine."""

from django.apps import AppConfig, apps
from django.db.models.signals import post_migrate
from django.utils.module_loading import autodiscover_modules
from django.utils.translation import gettext_lazy as _

from workflows.importing import foreign_packages  # noqa: F401 - somebody else's package of this name is told of here


class WorkflowsConfig(AppConfig):
    """The engine; its label is `holdpoint`, so that a host's own app called workflows cannot clash."""

    name = "workflows"
    label = "holdpoint"
    verbose_name = _("Workflows")
    default_auto_field = "django.db.models.BigAutoField"

    def ready(self) -> None:
        """Find every app's workflows.py and hooks.py, check the settings, send what is asked, provide rows."""
        from workflows.channels import dispatcher
        from workflows.definitions.sweeps import Sweep, register_sweep
        from workflows.operations import checks
        from workflows.schedules import tick_sweep
        from workflows.units import unit_sweep
        from workflows.worker import end_sweep
        from workflows.worker.django_q import schedule, watch

        autodiscover_modules("workflows")
        autodiscover_modules("hooks")
        register_sweep(Sweep("units", unit_sweep.seconds_to_next, unit_sweep.work))
        register_sweep(Sweep("schedules", tick_sweep.seconds_to_next, tick_sweep.work))
        end_sweep.register()
        checks.register_checks()
        register_sweep(Sweep("dispatch", dispatcher.seconds_to_next, dispatcher.work))
        post_migrate.connect(schedule.provide_defaults, sender=self, dispatch_uid="holdpoint.provision")
        if apps.is_installed("django_q"):  # a check says so when it is not
            from django_q.signals import post_spawn

            post_spawn.connect(watch.start_watching, dispatch_uid="holdpoint.watch")
