"""Paths that rows, settings and users' code hold."""

import importlib
import inspect
import subprocess
import sys

import pytest
from django.utils.module_loading import import_string

from workflows.importing.moved_modules import MOVED


@pytest.mark.parametrize("old", sorted(MOVED))
def test_an_old_path_gives_the_module_and_says_the_new_one(old: str) -> None:
    sys.modules.pop(old, None)
    with pytest.warns(DeprecationWarning, match=rf"{old} is now {MOVED[old]}\.") as caught:
        module = importlib.import_module(old)
    assert module is sys.modules[MOVED[old]]
    assert len(caught) == 1


def test_the_warning_names_the_line_that_imports() -> None:
    sys.modules.pop("workflows.keys", None)
    with pytest.warns(DeprecationWarning, match="workflows.keys") as caught:
        from workflows.keys import create_key  # type: ignore[import-not-found]
    assert caught[0].filename == __file__
    assert inspect.getmodule(create_key).__name__ == "workflows.access.api_keys"


def test_an_old_path_is_found_before_anything_else_of_ours_was_imported() -> None:
    code = "import sys; from workflows import keys; print(keys.__name__, 'django.db' in sys.modules)"
    environment = {"DJANGO_SETTINGS_MODULE": "config.settings"}
    # The module itself needs Django's settings, not its apps; what is asked here is that Python finds it.
    ran = subprocess.run(
        [sys.executable, "-c", f"import django; django.setup(); {code}"],
        capture_output=True,
        text=True,
        check=False,
        env={**__import__("os").environ, **environment},
    )
    assert ran.stdout.startswith("workflows.access.api_keys"), ran.stderr


@pytest.mark.parametrize(
    "path",
    [
        # In rows of django-q.
        "workflows.tasks.sweep",
        "workflows.tasks.pump",
        # In `on_decision` of reviews.
        "approvals.requested.apply_requested_change",
        "approvals.required.applying.apply_proposal",
        # In migrations.
        "workflows.fields.StatusField",
        "workflows.fields.TextListField",
        "workflows.uuid7.make_uuid7",
        "workflows.ledger.redact",
        # In settings and urls of sites, and in their code.
        "workflows.backend.base.DatabaseWrapper",
        "workflows.rest.shortcut.answer_calls_first",
        "approvals.logins.CountedModelBackend",
        "workflows.client.Client",
        "workflows.clock.Now",
        "workflows.lifecycle.Status",
        "workflows.testing.drain",
        "workflows.exceptions.NoTarget",
        "workflows.hooks.stripe",
        "approvals.testing.decide",
        "approvals.required.ApprovalRequiredMixin",
        "approvals.required.api.ApprovalRequiredMixin",
        "approvals.required.call_view.CallView",
        "approvals.exceptions.NotAllowed",
        *(f"workflows.{name}.urlpatterns" for name in ("urls", "urls_api", "urls_health", "urls_hooks", "urls_resume")),
        "approvals.urls.urlpatterns",
    ],
)
def test_a_path_that_is_held_elsewhere_stays(path: str) -> None:
    assert import_string(path) is not None
