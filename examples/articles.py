"""A text that is read before it is published, as often as it takes."""

from typing import Any

from approvals import Approval, Outcome
from examples.models import Article
from workflows import Await, Done, Next, StepContext, Workflow, step


def publish(answer: Any, instance: Any) -> None:
    """The decision puts it online."""
    if answer.outcome == "approve":
        Article.objects.filter(pk=instance.input["article"]).update(is_published=True)


class PublishArticle(Workflow):
    """A loop: asked for changes, the author works on it and says so, and it is read again."""

    name = "demo.article"

    @step
    def review(self, ctx: StepContext) -> Await:
        article = Article.objects.get(pk=ctx.input["article"])
        approval = Approval(
            f"Publish “{article}”",
            subject=article,
            change={"is_published": True},
            outcomes=(
                "approve",
                Outcome("request_changes", requires_reason=True, presets=("Too long", "Sources are missing")),
                Outcome("reject", "Not for us"),
            ),
            groups=["Editors"],
            on_decision=publish,
            remind=["1d", "3d"],
        )
        return Await(approval, then="act", timeout="14d")

    @step
    def act(self, ctx: StepContext) -> Await | Done:
        if not ctx.answered:
            return Done({"published": False, "why": "nobody read it"})
        if ctx.answer.outcome == "request_changes":
            # The reason was mailed to the author. Saving the text sends this signal: workflows.signal(…, "revised").
            rounds = ctx.state.get("rounds", 0) + 1
            return Await("revised", then="again", state={**ctx.state, "rounds": rounds}, timeout="30d")
        return Done({"published": ctx.answer.outcome == "approve", "rounds": ctx.state.get("rounds", 0)})

    @step
    def again(self, ctx: StepContext) -> Next | Done:
        return Next("review") if ctx.awaited else Done({"published": False, "why": "it was not revised"})
