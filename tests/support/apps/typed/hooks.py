"""What providers post."""

from django.http import HttpRequest

from workflows import hook
from workflows.hooks import HookMessage, NotVerified, github, standard_webhooks, stripe


@hook("typed.paid", verify=stripe("secret"))
def paid(message: HookMessage) -> None:
    print(message.data["id"], message.body.decode(), message.headers["Content-Type"], message.request.GET)


@hook("typed.pushed", verify=github(["new", b"old"]), workspace="acme", max_body=1000)
def pushed(message: HookMessage) -> dict[str, str]:
    return {"id": message.id, "hook": message.hook.name}


def find_secrets() -> list[str]:
    return []


def verify(request: HttpRequest) -> None:
    if "X-Token" not in request.headers:
        raise NotVerified


@hook(
    "typed.own",
    verify=verify,
    id=lambda message: message.headers["X-Id"],
    workspace=lambda message: message.request.GET["tenant"],
)
def own(message: HookMessage) -> object:
    return pushed(message)


standard_webhooks(find_secrets, tolerance=60, prefix="svix").sign(b"{}", id="msg_1")
standard_webhooks(7)  # E: arg-type reportArgumentType
hook(7, verify=verify)  # E: arg-type reportArgumentType
hook("typed.wrong", verify="secret")  # E: arg-type reportArgumentType
hook("typed.wrong", verify=verify, workspace=7)  # E: arg-type reportArgumentType


@hook("typed.wrong", verify=verify)  # E: type-var,arg-type,misc reportArgumentType
def wrong(message: int) -> None: ...


kept: int = pushed  # E: assignment reportAssignmentType
