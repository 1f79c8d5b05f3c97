"""A small shop, with every kind of field that a change may touch, as a host's app would have it.

Lives here: how it is installed for a module of tests and removed again. It is never in INSTALLED_APPS, so no other
test and no migration sees its models.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from django.apps import AppConfig, apps
from django.db import connection


@contextmanager
def open_shop() -> Iterator[None]:
    """Install the app and make its tables; both are gone afterwards."""
    config = AppConfig.create("tests.support.apps.shop")
    config.apps = apps
    config.models = apps.all_models["shop"]
    apps.app_configs["shop"] = config
    config.import_models()
    apps.clear_cache()
    models = list(config.get_models())
    tables = [model for model in models if not model._meta.proxy]
    with connection.schema_editor() as editor:
        for model in tables:
            editor.create_model(model)
    try:
        yield
    finally:
        with connection.schema_editor() as editor:
            for model in reversed(tables):
                editor.delete_model(model)
        del apps.app_configs["shop"]
        apps.clear_cache()
