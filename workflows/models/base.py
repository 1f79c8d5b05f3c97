"""What every table of the engine has in common: it reads, and refuses to write.

Invariant owned: rows are written by the store only.
"""

from __future__ import annotations

from typing import Any, ClassVar, NoReturn

from django.apps import apps
from django.core.exceptions import ImproperlyConfigured
from django.db import models

from workflows.exceptions import EngineOwned
from workflows.lifecycle import LIVE, TERMINAL


def require_app(module: str) -> None:
    """Raise where the app of a models module is not installed, before Django fails in words about labels."""
    if apps.apps_ready and apps.get_containing_app_config(module) is None:
        package = module.partition(".")[0]
        raise ImproperlyConfigured(
            f"Code of yours imports {package!r}, and INSTALLED_APPS lacks it: add {package!r}, then run "
            "`python manage.py migrate`."
        )


require_app(__name__)


class ReadQuerySet(models.QuerySet[Any]):
    """Everything that reads; everything that writes refuses, naming the calls to use."""

    def _refuse(self, *args: object, **kwargs: object) -> NoReturn:
        raise EngineOwned(self.model.__name__, getattr(self.model, "calls", ""))

    create = get_or_create = update_or_create = bulk_create = bulk_update = update = delete = _refuse


class InstanceQuerySet(ReadQuerySet):
    """Ways to ask for instances."""

    def live(self) -> InstanceQuerySet:
        """Those that have not ended."""
        return self.filter(status__in=LIVE)

    def ended(self) -> InstanceQuerySet:
        """Instances that have ended."""
        return self.filter(status__in=TERMINAL)


class EngineModel(models.Model):
    """A row that only the store writes. Tables inherit its `Meta`: they can be looked at, and changed by nobody."""

    #: What to call instead of `save()`, where it is not the engine's own calls.
    calls: ClassVar[str] = ""

    objects = ReadQuerySet.as_manager()

    class Meta:
        abstract = True
        base_manager_name = "objects"
        default_permissions: ClassVar[tuple[str, ...]] = ("view",)

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        require_app(cls.__module__)

    def save(self, *args: object, **kwargs: Any) -> NoReturn:
        """Refuse: rows of the engine change through its calls only."""
        raise EngineOwned(type(self).__name__, self.calls)

    def delete(self, *args: object, **kwargs: Any) -> NoReturn:
        """Refuse: rows of the engine go by retention only."""
        raise EngineOwned(type(self).__name__, self.calls)
