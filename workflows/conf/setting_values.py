"""A dictionary among Django's settings whose values are read once.

Lives here: reading the dictionary, and keeping what was made of its values. Must not live here: names and types of
settings. Invariant owned: a setting that is changed through Django (`override_settings`, pytest's `settings`) is read
anew at the next access.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from typing import Any, ClassVar

from django.conf import settings
from django.core.signals import setting_changed


class SettingValues:
    """Attribute access to one such dictionary. A `cached_property` is read once, a `property` at every access.

    A value that depends on anything but the settings is a `property`.
    """

    #: The name of the dictionary in Django's settings.
    setting: ClassVar[str]
    defaults: ClassVar[Mapping[str, Any]]

    def __init__(self) -> None:
        setting_changed.connect(self._forget)

    @cached_property
    def given(self) -> Mapping[str, Any]:
        """What the project wrote."""
        value = getattr(settings, self.setting, {})
        return value if isinstance(value, Mapping) else {}

    def _read(self, name: str) -> Any:
        return self.given.get(name, self.defaults[name])

    def _forget(self, **changed: Any) -> None:
        # Whichever setting it was: what is kept may be made of others too.
        for name in [name for name in vars(self) if isinstance(getattr(type(self), name, None), cached_property)]:
            vars(self).pop(name, None)
