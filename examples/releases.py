"""A release to production: two groups have to agree, each of them can stop it, and nobody waves it through."""

from typing import Any

from approvals import Approval, Outcome, Veto
from workflows import END, Machine, MachineContext, action, branch, flow, wait_for

#: Stands for the servers: what runs there, the newest last.
running: list[str] = []


def ask_for_release(ctx: MachineContext) -> Approval:
    """High risk: it takes a reason and a look at what changes; no single key and no program decides it."""
    version = ctx.input["version"]
    return Approval(
        f"Release {version} to production",
        request={"version": version, "changes": ctx.input["changes"]},
        evidence=[
            ("Build", f"https://ci.example/builds/{version}"),
            ("Migrations", ctx.input.get("migrations", 0)),
        ],
        outcomes=(
            Outcome("approve", "Release", presets=("Tested on staging", "Hotfix, agreed by phone")),
            Outcome("reject", "Stop", presets=("Tests are red", "Not on a Friday")),
        ),
        quorum=Veto({"Site reliability": 1, "Security": 1}),
        risk="high",
        due="4h",
    )


def release(version: str) -> dict[str, Any]:
    """Bring it to the servers. Stages may run twice, so releasing what runs already changes nothing."""
    if running[-1:] != [version]:
        running.append(version)
    return {"released": version}


class ReleaseToProduction(Machine):
    """The groups that are counted are also those that are asked."""

    name = "demo.release"
    accepts = {"version": str, "changes": list[str], "migrations": int | None}

    gate = wait_for(channel=ask_for_release, timeout="2d", on_timeout="late")
    verdict = branch(
        lambda ctx: "deploy" if ctx.steps.gate.outcome == "approve" else "stopped", to=["deploy", "stopped"]
    )
    deploy = action(lambda ctx: release(ctx.input["version"]), then=END)
    stopped = flow(action(lambda ctx: {"released": None, "why": ctx.steps.gate.reason}))
    late = flow(action(lambda ctx: {"released": None, "why": "nobody decided within two days"}))
