"""The little of Markdown that descriptions use: paragraphs, lists, code, and what is strong.

Lives here: reading it into values that a template writes out. Invariant owned: the result holds text only, no markup
and no address that leads anywhere; what is not understood stays as it was written.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

_PIECES = re.compile(r"`(?P<code>[^`\n]+)`|\*\*(?P<strong>[^*\n]+)\*\*|\[(?P<link>[^\]\n]+)\]\([^)\s]*\)")
_ITEM = re.compile(r"\s*(?:[-*]|\d{1,3}\.)\s+(?=\S)")
_HEADING = re.compile(r"#{1,6}\s+(?=\S)")
_FENCE = re.compile(r"\s*```")


@dataclass(frozen=True, slots=True)
class TextRun:
    """A piece of a line; `kind` is "code", "strong" or nothing."""

    text: str
    kind: str = ""


Line = tuple[TextRun, ...]


@dataclass(frozen=True, slots=True)
class Block:
    """A paragraph (`p`, of one line), a list (`ul`, a line each) or something to be copied (`pre`)."""

    kind: str
    lines: tuple[Line, ...]


Text = tuple[Block, ...]


def read_text(source: object) -> Text:
    """The blocks of a description.

    >>> read_text("Send `data`")
    (Block(kind='p', lines=((TextRun(text='Send ', kind=''), TextRun(text='data', kind='code')),)),)
    """
    return tuple(_read_blocks(str(source or "").expandtabs(4).splitlines()))


def _read_blocks(lines: list[str]) -> Iterator[Block]:
    """Line by line; an item goes on over the indented or plain lines after it."""
    kind, held = "", list[str]()
    for line in [*lines, ""]:
        if kind == "pre":
            if not _FENCE.match(line):
                held.append(line)
                continue
            yield _close(kind, held)
            kind, held = "", []
        elif _FENCE.match(line) or not line.strip() or _HEADING.match(line):
            if held:
                yield _close(kind, held)
            kind, held = ("pre" if _FENCE.match(line) else ""), []
            if heading := _HEADING.match(line):
                yield Block("p", ((TextRun(line[heading.end() :].strip(), "strong"),),))
        elif item := _ITEM.match(line):
            if held and kind != "ul":
                yield _close(kind, held)
                held = []
            kind = "ul"
            held.append(line[item.end() :].strip())
        elif held:
            held[-1] = f"{held[-1]} {line.strip()}"
        else:
            kind, held = "p", [line.strip()]
    if held:
        yield _close(kind, held)


def _close(kind: str, held: list[str]) -> Block:
    if kind == "pre":
        return Block(kind, ((TextRun("\n".join(held)),),))
    return Block(kind, tuple(tuple(_read_runs(line)) for line in held))


def _read_runs(line: str) -> Iterator[TextRun]:
    end = 0
    for piece in _PIECES.finditer(line):
        if piece.start() > end:
            yield TextRun(line[end : piece.start()])
        kind = str(piece.lastgroup)
        yield TextRun(piece[kind], "" if kind == "link" else kind)
        end = piece.end()
    if end < len(line):
        yield TextRun(line[end:])
