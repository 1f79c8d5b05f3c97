"""An order that is shipped from several warehouses: one child for each parcel, and one end for all."""

from collections import defaultdict

from workflows import Await, Child, Done, Spawn, StepContext, Stop, Workflow, step


class ShipParcel(Workflow):
    """One parcel on its way."""

    name = "demo.parcel"

    @step
    def hand_over(self, ctx: StepContext) -> Await:
        return Await("delivered", then="close", timeout="7d")

    @step
    def close(self, ctx: StepContext) -> Done | Stop:
        return Done(ctx.input["articles"]) if ctx.awaited else Stop(f"the parcel from {ctx.input['from']} is lost")


class FulfilOrder(Workflow):
    """Start children and wait for all of them: `Spawn`, so these are steps."""

    name = "demo.fulfil"

    @step
    def split(self, ctx: StepContext) -> Spawn:
        parcels: dict[str, list[str]] = defaultdict(list)
        for line in ctx.input["lines"]:
            parcels[line["warehouse"]].append(line["article"])
        return Spawn(
            # The key is what the carrier knows: its message finds the parcel without an id of ours.
            [
                Child(ShipParcel, {"from": place, "articles": articles}, key=f"parcel-{ctx.input['order']}-{place}")
                for place, articles in sorted(parcels.items())
            ],
            then="settle",
        )

    @step
    def settle(self, ctx: StepContext) -> Done:
        # A child that failed does not fail its parent: what a lost parcel means is decided here.
        return Done(
            {
                "delivered": [article for child in ctx.children for article in child.result or ()],
                "refund": [child.error for child in ctx.children if child.status != "done"],
            }
        )
