"""Parts of the API that other apps bring: routed, documented and explained where the app is, and not elsewhere."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any

import pytest
from django.core.exceptions import ImproperlyConfigured
from django.urls import resolve

from approvals.rest.api_part import PART
from workflows.rest.base import extensions
from workflows.rest.base.extensions import list_parts, register_part
from workflows.rest.schema.docs_page import list_kinds
from workflows.rest.schema.openapi import describe_api


def test_what_an_app_registers_is_routed_documented_and_explained() -> None:
    assert list_parts() == (PART,)
    told = describe_api()
    for pattern in PART.patterns:
        path = "/" + str(pattern.pattern).replace("<str:id>", "{id}")
        assert resolve(path.replace("{id}", "x")).func is pattern.callback
        assert {operation["tags"][0] for operation in told["paths"][path].values()} == {PART.tag}
    ours = ["Instances", "Signals", "Interactions", "Flow control", "Schedules"]
    assert [one["name"] for one in told["tags"]] == [*ours, PART.tag, "Operating"]
    assert PART.problems
    for kind in PART.problems:
        assert kind in list_kinds()


def test_a_part_that_comes_too_late_is_refused_and_one_that_comes_again_is_not() -> None:
    list_parts()
    with pytest.raises(ImproperlyConfigured, match=r"shop.rest.PART comes too late.*in your app's ready\(\)"):
        register_part("shop.rest.PART")
    register_part("approvals.rest.api_part.PART")
    assert list(extensions._places) == ["approvals.rest.api_part.PART"]


def run_without_approvals(program: str) -> Any:
    """In a process of its own, of a project that has the engine only."""
    setup = """
import json, django
from django.conf import settings
from config import settings as shipped
ours = {name: getattr(shipped, name) for name in dir(shipped) if name.isupper()}
apps = [name for name in shipped.INSTALLED_APPS if name not in ("approvals", "examples")]
settings.configure(**ours | {"INSTALLED_APPS": apps, "ROOT_URLCONF": "workflows.urls"})
django.setup()
"""
    done = subprocess.run(
        [sys.executable, "-c", setup + program], capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_the_engine_alone_has_no_such_address_and_does_not_speak_of_one() -> None:
    paths, slugs, tags, loaded = run_without_approvals("""
import sys
from workflows.rest.schema.docs_page import list_kinds, render_docs, read_limits
from workflows.rest.schema.openapi import describe_api
told = describe_api()
render_docs(told, language="en", limits=read_limits())
print(json.dumps([list(told["paths"]), [one.slug for one in list_kinds()], [one["name"] for one in told["tags"]],
    [name for name in sys.modules if name.partition(".")[0] == "approvals"]]))
""")
    assert "/v1/instances" in paths
    assert not [path for path in paths if "approvals" in path]
    assert "not-now" not in slugs
    assert "Approvals" not in tags
    assert loaded == []
