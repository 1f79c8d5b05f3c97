"""How Django knows the engine."""

from django.apps import AppConfig
from django.db.models.signals import post_migrate
from django.utils.module_loading import autodiscover_modules
from django.utils.translation import gettext_lazy as _


class WorkflowsConfig(AppConfig):
    """The engine; its label is `holdpoint`, so that a host's own app called workflows cannot clash."""

    name = "workflows"
    label = "holdpoint"
    verbose_name = _("Workflows")
    default_auto_field = "django.db.models.BigAutoField"

    def ready(self) -> None:
        """Find every app's workflows.py; make the default workspace after each migrate."""
        from django_q.signals import post_spawn

        from workflows import provision, watch

        autodiscover_modules("workflows")
        post_spawn.connect(watch.start_watching, dispatch_uid="holdpoint.watch")
        post_migrate.connect(provision.provide_defaults, sender=self, dispatch_uid="holdpoint.provision")
