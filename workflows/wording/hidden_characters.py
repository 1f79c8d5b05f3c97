"""Characters that nobody sees: what hides, reorders or fakes the text beside it gets a shape.

Invariant owned: what leaves here holds none of them, but for those that a script or an emoji needs.
"""

from __future__ import annotations

import re

#: Characters without a shape of their own: controls, directions, joiners, fillers, tags, private and broken ones.
UNSEEN = re.compile(
    "[\x00-\x1f\x7f-\x9f\xad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u2028-\u202e\u2060-\u206f"
    "\u2800\u3164\ud800-\uf8ff\ufdd0-\ufdef\ufe00-\ufe0f\ufeff\uffa0\ufff0-\ufffc\ufffe\uffff\U00013430-\U0001345f"
    "\U0001bca0-\U0001bca3\U0001d173-\U0001d17a\U000e0000-\U0010ffff]"
)
_EMOJI = "\u203c\u2049\u2122\u2139\u2190-\u2bff\u3030\u303d\u3297\u3299\U0001f000-\U0001faff"
_HAN = "\u3400-\u9fff\uf900-\ufaff\U00020000-\U0003ffff"
#: What writing needs of these: emoji put together, keycaps, and the variants of Chinese and Japanese characters.
_NEEDED = re.compile(
    f"(?<=[{_EMOJI}])\ufe0f|(?<=[{_EMOJI}\ufe0f])\u200d(?=[{_EMOJI}])|(?<=[0-9#*])\ufe0f(?=\u20e3)"
    f"|(?<=[{_HAN}])[\ufe00-\ufe02\U000e0100-\U000e01ef]"
)


def reveal(text: str, *, lines: bool = False) -> str:
    """The text with a shape for each character that has none; with `lines`, breaks and tabs stay.

    >>> reveal("invoice\\u202egpj.exe")
    'invoice⟨U+202E⟩gpj.exe'
    """
    if text.isascii() and text.isprintable():
        return text
    needed = {match.start() for match in _NEEDED.finditer(text)}

    def give_shape(match: re.Match[str]) -> str:
        char = match[0]
        return char if match.start() in needed or (lines and char in "\n\t") else name_character(char)

    return UNSEEN.sub(give_shape, text)


def name_character(char: str) -> str:
    """A character by its number.

    >>> name_character("\\u200b")
    '⟨U+200B⟩'
    """
    return f"⟨U+{ord(char):04X}⟩"
