"""How Django finds the examples; their workflows are found in `workflows.py` by autodiscovery."""

from django.apps import AppConfig


class ExamplesConfig(AppConfig):
    name = "examples"
    label = "holdpoint_examples"
    verbose_name = "Holdpoint examples"
    default_auto_field = "django.db.models.BigAutoField"
