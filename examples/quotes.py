"""Several suppliers are asked what a part costs, each by itself, and the lowest price is taken.

workflows.start("demo.quotes", {"part": "belt", "suppliers": ["Nord", "Sud"]})
"""

from typing import Any

from workflows import FunctionContext, durable


@durable(name="demo.quotes")
def collect_quotes(ctx: FunctionContext, part: str, suppliers: list[str]) -> dict[str, Any]:
    """Who cannot answer, or does not within three days, spoils nothing for the others."""
    questions = [{"part": part, "supplier": name} for name in suppliers]
    quotes = ctx.wait_for_each("quote", questions, "api", schema={"price": int}, on_item="partial", timeout="3d")
    offers = [
        {"supplier": name, "price": quote.output["price"]}
        for name, quote in zip(suppliers, quotes, strict=True)
        if quote.ok
    ]
    best = min(offers, key=lambda offer: offer["price"], default=None)
    return {"best": best, "without": [name for name, quote in zip(suppliers, quotes, strict=True) if not quote.ok]}
