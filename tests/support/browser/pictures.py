"""Pictures of pages, to be looked at, and those of them that the documentation shows.

Lives here: where pictures go and how they are made small. They are made where somebody wants to look at them, with
SCREENSHOTS=1: all into var/screenshots, those of the documentation into docs/images too (`make screenshots`).
"""

from __future__ import annotations

import io
import os
from pathlib import Path

from playwright.sync_api import Page

ROOT = Path(__file__).resolve().parents[3]
EVERY_RUN, DOCS = ROOT / "var" / "screenshots", ROOT / "docs" / "images"


def shoot(page: Page, name: str, *, whole: bool = True, docs: bool = False) -> None:
    """A picture var/screenshots/<name>.png of the whole page, or of its window; with `docs` also for docs/images."""
    if not os.environ.get("SCREENSHOTS"):
        return
    window = page.viewport_size
    if whole and window is not None:
        # A window as high as the page: otherwise what sticks to its lower edge is drawn across the middle.
        height = page.evaluate("document.documentElement.scrollHeight")
        page.set_viewport_size({"width": window["width"], "height": max(height, window["height"])})
    picture = page.screenshot(animations="disabled", caret="hide")
    if whole and window is not None:
        page.set_viewport_size(window)
    _write(EVERY_RUN / f"{name}.png", picture)
    if docs:
        _write(DOCS / f"{name}.png", _shrink(picture))


def _shrink(picture: bytes) -> bytes:
    """In 256 colours: pages of ours have few, and the file has a third of the size."""
    try:
        from PIL import Image
    except ImportError:
        return picture
    made = io.BytesIO()
    with Image.open(io.BytesIO(picture)) as image:
        image.convert("RGB").quantize(256, dither=Image.Dither.NONE).save(made, "PNG", optimize=True)
    return min(made.getvalue(), picture, key=len)


def _write(path: Path, picture: bytes) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(picture)
