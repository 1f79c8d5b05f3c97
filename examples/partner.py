"""Another program, which has no Django: it starts an order over HTTP, reports the payment, and waits for the end."""

import os
from typing import Any

from workflows.client import Client, DuplicateKey, InstanceFailed


def sell(client: Client, order: int, amount: int) -> dict[str, Any]:
    """Place an order and report that it is paid; what became of it.

    It may be killed anywhere and run again with the same arguments: its keys are made of the order's number, so
    nothing is started or paid twice.
    """
    try:
        placed = client.start("demo.ship", {"order": order}, key=f"order-{order}", idempotency_key=f"order-{order}")
    except DuplicateKey as taken:  # somebody else has placed it
        return {"order": order, "placed_as": str(taken.existing)}
    client.signal(placed, "payment_confirmed", {"amount": amount}, dedup_key=f"payment-{order}")
    try:
        return {"order": order, **client.wait(placed, timeout=60)}
    except InstanceFailed as failed:
        return {"order": order, "failed": failed.instance.error}


if __name__ == "__main__":
    with Client(os.environ["HOLDPOINT_URL"], os.environ["HOLDPOINT_KEY"]) as site:
        print(sell(site, order=7, amount=120))
