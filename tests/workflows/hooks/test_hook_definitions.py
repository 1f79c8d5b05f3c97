"""`@hook`: what can be one, and what is refused where it is written."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import pytest

import workflows
from tests.support.hook_posts import signed
from workflows import InvalidDefinition, hook
from workflows.hooks import HookMessage
from workflows.hooks.definition import find_hook, list_hooks


def do_nothing(message: HookMessage) -> None:
    pass


def verify(request: Any) -> None:
    pass


def refused(*args: Any, function: Any = do_nothing, **options: Any) -> str:
    with pytest.raises(InvalidDefinition) as caught:
        hook(*args, **options)(function)
    assert list_hooks() == []
    return str(caught.value)


def test_a_hook_without_a_verifier_is_refused() -> None:
    told = refused("open")
    assert "'open' has no verify=" in told
    assert "standard_webhooks(…), stripe(…), github(…)" in told


def test_a_verifier_of_ones_own_comes_with_the_place_of_the_id() -> None:
    assert "id=lambda message" in refused("own", verify=verify)
    hook("own", verify=verify, id=lambda message: "1")(do_nothing)
    assert find_hook("own") is not None


@pytest.mark.parametrize("name", ["", "a/b", "a b", "é", "-a", ".", "..", "a" * 101, None, 7, "a\n"])
def test_a_name_is_part_of_an_address(name: Any) -> None:
    assert "a name is part of an address" in refused(name, verify=signed)


def test_async_functions_and_things_that_are_none_are_refused() -> None:
    async def later(message: Any) -> None:
        pass

    def one_by_one(message: Any) -> Any:
        yield

    for function in (later, one_by_one):
        assert "must be an ordinary function" in refused("x", verify=signed, function=function)
        assert "verify= must be an ordinary" in refused("x", verify=function, id=do_nothing)
        assert "id= must be an ordinary" in refused("x", verify=signed, id=function)
        assert "workspace= must be an ordinary" in refused("x", verify=signed, workspace=function)
    assert "verify= must be a function" in refused("x", verify="secret")
    assert "must be a function" in refused("x", verify=signed, function="f")
    for most in (0, -1, "1", True):
        assert "number of bytes" in refused("x", verify=signed, max_body=most)


def test_a_name_is_one_hook_and_a_module_may_be_loaded_again() -> None:
    hook("one", verify=signed)(do_nothing)
    hook("one", verify=signed)(do_nothing)
    with pytest.raises(InvalidDefinition, match=r"'one' is defined twice, in tests\.workflows\.hooks\.test_"):
        hook("one", verify=signed)(verify)
    found = find_hook("one")
    assert found is not None
    assert found.function is do_nothing


def test_a_function_stays_as_it_was_and_may_take_several_hooks() -> None:
    @hook("second", verify=signed)
    @hook("first", verify=signed)
    def both(message: HookMessage) -> str:
        return message.hook.name

    assert [one.name for one in list_hooks()] == ["first", "second"]
    assert both.__name__ == "both"


def test_it_is_exported_and_defining_one_needs_no_settings() -> None:
    script = (
        "import sys\n"
        "from workflows import hook\n"
        "from workflows.hooks import stripe, github, standard_webhooks\n"
        "hook('x', verify=stripe(lambda: 'later'))(lambda message: None)\n"
        "from django.conf import settings\n"
        "print('workflows.models' in sys.modules, settings.configured)"
    )
    ran = subprocess.run([sys.executable, "-W", "error", "-c", script], capture_output=True, text=True, check=True)
    assert ran.stdout.split() == ["False", "False"]
    assert "hook" in workflows.__all__


def test_hooks_of_an_apps_hooks_module_are_found(tmp_path: Any) -> None:
    app = tmp_path / "paid"
    app.mkdir()
    (app / "__init__.py").touch()
    (app / "hooks.py").write_text(
        "from workflows import hook\n"
        "from workflows.hooks import stripe\n"
        "hook('paid', verify=stripe('s'))(lambda message: None)\n"
    )
    script = (
        "import django\n"
        "from django.conf import settings\n"
        "from config import settings as shipped\n"
        "ours = {name: getattr(shipped, name) for name in dir(shipped) if name.isupper()}\n"
        "settings.configure(**ours | {'INSTALLED_APPS': [*ours['INSTALLED_APPS'], 'paid']})\n"
        "django.setup()\n"
        "from workflows.hooks.definition import find_hook\n"
        "print(find_hook('paid').name)"
    )
    ran = subprocess.run(
        [sys.executable, "-c", f"import sys; sys.path.insert(0, {str(tmp_path)!r})\n{script}"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert ran.stdout.split() == ["paid"], ran.stderr
