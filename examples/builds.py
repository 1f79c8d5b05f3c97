"""A deployment that begins with one event, a push, and waits for another, the result of the build."""

from typing import Any

from workflows import END, Machine, action, branch, flow, wait_for

#: Stands for the servers: what runs there, the newest last.
deployed: list[str] = []


def release(commit: str) -> dict[str, Any]:
    """Bring a commit to the servers. Stages may run twice, so releasing what runs already changes nothing."""
    if deployed[-1:] != [commit]:
        deployed.append(commit)
    return {"deployed": commit}


class DeployWhenGreen(Machine):
    """Nothing but parts and where they lead, so this is a machine."""

    name = "demo.deploy"
    on_event = "git.pushed"
    accepts = {"commit": str}

    # The build may be quicker than we are: an event from before the wait is found, if we had started by then.
    build = wait_for(
        event="ci.finished",
        match=lambda ctx: {"commit": ctx.input["commit"]},
        schema={"commit": str, "green": bool},
        timeout="2h",
        on_timeout="silent",
    )
    verdict = branch(lambda ctx: "deploy" if ctx.steps.build.green else "broken", to=["deploy", "broken"])
    deploy = action(lambda ctx: release(ctx.input["commit"]), then=END)
    broken = flow(action(lambda ctx: {"deployed": None, "why": "the build is red"}))
    silent = flow(action(lambda ctx: {"deployed": None, "why": "no result of the build within two hours"}))
