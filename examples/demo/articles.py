"""`text_review`: a text is compared with what is online, sent back as often as it takes, and published."""

from __future__ import annotations

from approvals import Approval, Outcome, apply_requested_change
from examples.demo.papers import link_row, list_papers, list_warnings
from examples.models import Article
from workflows import Await, Done, Next, StepContext, Workflow, step

OUTCOMES = (
    Outcome("approve", "Publish"),
    Outcome(
        "request_changes",
        requires_reason=True,
        presets=("Too long", "Sources are missing", "The price is not in it", "Say it without the jargon"),
    ),
    Outcome("reject", "Not for us", presets=("We said this last month", "Not our voice", "Nobody would look for it")),
)


class ReviewArticle(Workflow):
    """Asked for changes it waits for the signal "revised", with the new text, and is read again."""

    name = "text_review"

    @step
    def ask(self, ctx: StepContext) -> Await:
        article = Article.objects.get(pk=ctx.input["article"])
        approval = Approval(
            ctx.input.get("headline") or f"Publish “{article}”",
            why=ctx.input["why"],
            subject=article,
            change={"body": ctx.state.get("body", ctx.input["body"]), "is_published": True},
            evidence=[
                link_row("As it is online now" if article.is_published else "The draft so far", article),
                *list_papers(*ctx.input.get("papers", ())),
                ("Spelling checked", True),
                ("Goes to", ctx.input.get("place", "the journal of the shop")),
                *list_warnings(ctx.input),
            ],
            outcomes=OUTCOMES,
            groups=["Editors"],
            on_decision=apply_requested_change,
            due=ctx.input.get("due", "3d"),
            remind=["1d", "3d"],
        )
        return Await(approval, then="act", timeout="14d")

    @step
    def act(self, ctx: StepContext) -> Await | Done:
        if not ctx.answered:
            return Done({"ok": False, "told": "Nobody read it within two weeks."})
        if ctx.answer.outcome == "request_changes":
            return Await("revised", then="again", timeout="30d")
        if ctx.answer.outcome == "reject":
            return Done({"ok": False, "told": f"Not published. {ctx.answer.reason}".strip()})
        return Done({"ok": True, "told": f"“{Article.objects.get(pk=ctx.input['article'])}” is online."})

    @step
    def again(self, ctx: StepContext) -> Next | Done:
        if not ctx.awaited:
            return Done({"ok": False, "told": "It was not revised within a month."})
        return Next("ask", {**ctx.state, "body": str(ctx.awaited[0].payload["body"])})
