"""`deployment`: a version goes to production when somebody who has not written it has looked and said why."""

from __future__ import annotations

from typing import Any

from django.utils import timezone

from approvals import Approval, Outcome
from examples.demo.papers import link_row, list_warnings
from examples.models import Service
from workflows import END, Machine, MachineContext, action, branch, flow, wait_for

OUTCOMES = (
    Outcome("approve", "Deploy", presets=("Tested on staging", "Hotfix, agreed by phone", "Same as in the canary")),
    Outcome("reject", "Stop", presets=("Tests are red", "Not on a Friday", "Too much at once")),
)


def ask_for_deploy(ctx: MachineContext) -> Approval:
    """High risk: it takes a reason and a look at what changes; no single key and no program decides it."""
    service = Service.objects.get(pk=ctx.input["service"])
    version = ctx.input["version"]
    return Approval(
        f"Deploy {service} {version} to production",
        why=ctx.input["why"],
        subject=service,
        change={
            "version": version,
            "replicas": ctx.input.get("replicas", service.replicas),
            "released_on": timezone.localdate(),
        },
        request={"changes": ctx.input["changes"]},
        evidence=[
            link_row(f"{service} in production", service),
            ("Release notes", "/static/examples/release-notes.txt"),
            ("All 2,314 tests are green", True),
            ("Ran on staging for", ctx.input.get("staging", "26 h")),
            ("Migrations", ctx.input.get("migrations", 0)),
            *list_warnings(ctx.input),
        ],
        outcomes=OUTCOMES,
        groups=["Release board"],
        risk="high",
        on_decision=roll_out,
        due=ctx.input.get("due", "4h"),
        remind=["2h"],
    )


def roll_out(answer: Any, instance: Any) -> None:
    """With the decision. The day is that of the decision, which may not be the one that was shown."""
    if answer.outcome == "approve":
        found = Service.objects.filter(pk=instance.input["service"])
        found.update(version=instance.input["version"], released_on=timezone.localdate())
        if replicas := instance.input.get("replicas"):
            found.update(replicas=replicas)


def tell_deployed(ctx: MachineContext) -> dict[str, Any]:
    """After the servers took it."""
    service = Service.objects.get(pk=ctx.input["service"])
    return {"ok": True, "told": f"{service} {service.version} runs in production."}


class DeployService(Machine):
    """Parts in their order, with two side paths."""

    name = "deployment"

    gate = wait_for(channel=ask_for_deploy, timeout="3d", on_timeout="late")
    verdict = branch(
        lambda ctx: "deployed" if ctx.steps.gate.outcome == "approve" else "stopped", to=["deployed", "stopped"]
    )
    deployed = action(tell_deployed, then=END)
    stopped = flow(action(lambda ctx: {"ok": False, "told": f"Stopped: {ctx.steps.gate.reason}"}))
    late = flow(action(lambda ctx: {"ok": False, "told": "Nobody decided within three days. Nothing was deployed."}))
