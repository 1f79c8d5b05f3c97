"""A pack that is collected: many signals of one kind, until there are enough or no more come."""

from workflows import Await, Done, StepContext, Stop, Workflow, step


class CollectPack(Workflow):
    """What counts is the inbox, which only the step style shows; so these are steps."""

    name = "demo.pack"

    @step
    def open(self, ctx: StepContext) -> Await:
        return Await("item", then="look", timeout="2h")

    @step
    def look(self, ctx: StepContext) -> Await | Done | Stop:
        items = [signal.payload for signal in ctx.awaited]
        if len(items) < ctx.input["size"] and not ctx.timed_out:
            # Waiting again consumes nothing. The next run sees every item so far, is woken by new ones only, and
            # has two hours of its own: the pack closes when nothing came for that long.
            return Await("item", then="look", timeout="2h")
        return Done({"items": items}) if items else Stop("nothing came")
