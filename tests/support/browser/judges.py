"""What is true of every good page: axe finds nothing, it fits its window, a finger hits what it aims at, it is light.

Lives here: the judges, which take any page; what they run in it is in `judges.js`. What must not: what one page says.
"""

from __future__ import annotations

import gzip
from collections import Counter
from dataclasses import dataclass, field
from functools import cache
from importlib import resources
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Page, Response

AXE_TAGS = ("wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice")
#: The least side of what is pressed with a finger, and the least text in a field that a phone does not zoom to; in px.
FINGER, LEGIBLE = 44, 16
#: What a theme changes of what axe looks at; the rest is the same in each of them.
COLOUR_RULES = ("color-contrast", "link-in-text-block")
MOST_TOLD = 12


def check_page(page: Page, *, within: str = "") -> None:
    """All of them; whether it is pressed with a finger, the page knows. axe looks `within`, where that is all that is
    new on a page that was judged.
    """
    check_axe(page, within=within)
    check_fits(page)
    if page.evaluate("matchMedia('(pointer: coarse)').matches"):
        check_touch(page)


def check_dark(page: Page, *, within: str = "") -> None:
    """What is dark of a page that is light and was judged so; it stays dark.

    Colours are all that a theme changes, so of axe's rules only theirs are run anew.
    """
    page.emulate_media(color_scheme="dark")
    _run_axe(page, {"type": "rule", "values": list(COLOUR_RULES)}, within)
    check_fits(page)
    if page.evaluate("matchMedia('(pointer: coarse)').matches"):
        check_touch(page)


def check_axe(page: Page, *, within: str = "", without: tuple[str, ...] = ()) -> None:
    """axe finds nothing wrong with the page as it stands.

    `within` is a selector, where the whole page takes too long; `without` names rules that a test leaves out.
    """
    _run_axe(page, {"type": "tag", "values": list(AXE_TAGS)}, within, without)


def _run_axe(page: Page, only: dict[str, Any], within: str = "", without: tuple[str, ...] = ()) -> None:
    assert page.evaluate("!matchMedia('(scripting: none)').matches"), "axe needs scripts: visit(javascript=True)"
    if not page.evaluate("typeof axe === 'object'"):
        page.evaluate(_read_axe())
    found = _judge(page, "runAxe", [only, within, list(without)])
    _fail_with("axe", [_describe(one) for one in found])


def check_fits(page: Page) -> None:
    """Nobody has to scroll sideways."""
    _fail_with("too wide", _judge(page, "findWide"))


def check_touch(page: Page) -> None:
    """What is pressed is large enough for a finger, and what is typed in large enough not to be zoomed to."""
    _fail_with("too small for a finger", _judge(page, "findSmall", [FINGER, LEGIBLE]))


@dataclass(slots=True)
class Weight:
    """What a first visit costs: requests, and bytes as they are and as a server that compresses sends them."""

    requests: int = 0
    bytes: int = 0
    compressed: int = 0
    #: Compressed bytes by kind: document, stylesheet, script, image, fetch …
    kinds: Counter[str] = field(default_factory=Counter)


def weigh(page: Page, address: str) -> Weight:
    """Open the address and weigh all that came until the network was quiet; `page` is new, so nothing is cached."""
    answers: list[Response] = []

    def keep(answer: Response) -> None:
        answers.append(answer)

    page.on("response", keep)
    page.goto(address, wait_until="networkidle")
    page.remove_listener("response", keep)
    weight = Weight(requests=len(answers))
    for answer in answers:
        body = b"" if 300 <= answer.status < 400 else answer.body()
        sent = min(len(body), len(gzip.compress(body, 6)))
        weight.bytes += len(body)
        weight.compressed += sent
        weight.kinds[answer.request.resource_type] += sent
    return weight


def _fail_with(judge: str, found: list[str]) -> None:
    if found:
        told = [*found[:MOST_TOLD], f"… and {len(found) - MOST_TOLD} more"] if len(found) > MOST_TOLD else found
        pytest.fail("\n  * ".join([f"{judge}:", *told]), pytrace=False)


def _judge(page: Page, judge: str, given: Any = None) -> Any:
    return page.evaluate(f"{_read_judges()}.{judge}", given)


@cache
def _read_judges() -> str:
    script = Path(__file__).with_name("judges.js").read_text()
    return script[script.index("({") :].rstrip()


@cache
def _read_axe() -> str:
    return (resources.files("axe_playwright_python") / "axe.min.js").read_text()


def _describe(violation: dict[str, Any]) -> str:
    told = [f"{violation['id']} ({violation['impact']}): {violation['help']}"]
    for node in violation["nodes"]:
        told.append(f"    {' '.join(str(one) for one in node['target'])}")
        told.append(f"      {node['html'][:160]}")
        told.extend(f"      {one['message']}" for kind in ("any", "all", "none") for one in node[kind])
    return "\n".join(told)
