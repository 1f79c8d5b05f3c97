"""System checks of inbound hooks: that an address leads to them, that each has a secret, and that no recording of a
message can be played again.

Invariant owned: no check shows a secret.
"""

from __future__ import annotations

from collections.abc import Iterator

from django.conf import settings
from django.core.checks import CheckMessage, Error, Warning
from django.urls import NoReverseMatch, reverse

from workflows.conf import conf
from workflows.exceptions import WorkflowError
from workflows.hooks.definition import list_hooks
from workflows.hooks.verifiers import NoSecret, Verifier

#: Names of hooks that one message lists.
FEW = 5


def check_hook_routes() -> Iterator[CheckMessage]:
    """Whether there is an address for the hooks that are defined; a process without routes serves none."""
    hooks = list_hooks()
    if not hooks or not getattr(settings, "ROOT_URLCONF", None) or _is_routed(hooks[0].name):
        return
    names = ", ".join(repr(one.name) for one in hooks[:FEW]) + (", …" if len(hooks) > FEW else "")
    yield Warning(
        f"ROOT_URLCONF ({settings.ROOT_URLCONF!r}) has no address for inbound hooks: providers that post to "
        f"{names} are told 404.",
        hint='Add path("", include("workflows.urls")) to its urlpatterns, or "workflows.urls_hooks" for hooks alone.',
        id="holdpoint.W046",
    )


def check_hook_secrets() -> Iterator[CheckMessage]:
    """Whether each hook has a secret; only before a deployment, because a developer's machine need not have any."""
    for one in list_hooks():
        if isinstance(one.verify, Verifier):
            try:
                one.verify.list_keys()
            except NoSecret as error:
                yield Error(
                    f"Hook {one.name!r} ({one.source}) cannot verify anything: {error}. Its provider is told 503.",
                    hint="Set the secret that the provider shows for this address, as its verify= reads it.",
                    id="holdpoint.E034",
                )


def check_hook_retention() -> Iterator[CheckMessage]:
    """Whether a message is known for as long as its signature is good: as far before the clock as behind it."""
    try:
        kept = conf.hook_retention
    except WorkflowError:
        return  # told as a setting that cannot be read
    for one in list_hooks():
        good = 2 * getattr(one.verify, "tolerance", 0) if isinstance(one.verify, Verifier) else 0
        if good > kept:
            yield Error(
                f"Hook {one.name!r} takes what was signed within {good:g} s, but forgets a message after "
                f"{kept:g} s: who has recorded one could send it again.",
                hint='Set WORKFLOWS["HOOK_RETENTION"] to at least a few days, or the tolerance= of the verifier lower.',
                id="holdpoint.E036",
            )


def _is_routed(name: str) -> bool:
    for view in ("workflows:hooks", "hooks"):
        try:
            return bool(reverse(view, kwargs={"name": name}))
        except NoReverseMatch:
            continue
    return False
