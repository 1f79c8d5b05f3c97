"""A browser without a browser: the forms of a page, filled in and sent as a browser would.

Lives here: reading the controls of a page, and a text that a page must show as text. What must not: assertions.
"""

import re
from dataclasses import dataclass, field
from html.parser import HTMLParser

from django.http import QueryDict


@dataclass
class Control:
    """An element that a form sends."""

    tag: str
    attributes: dict[str, str | None]
    text: str = ""
    options: list[tuple[str, bool]] = field(default_factory=list)
    in_label: bool = False


class Page(HTMLParser):
    """What a browser makes of a form."""

    def __init__(self, html: str) -> None:
        super().__init__(convert_charrefs=True)
        self.controls: list[Control] = []
        self.ids: list[str] = []
        self.labels: set[str] = set()
        self.references: set[str] = set()
        self.links: set[str] = set()
        self.tags: set[str] = set()
        self.names: set[str] = set()
        self.words = ""
        self._open: Control | None = None
        self._in_label = False
        self.feed(html)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        attributes = dict(attrs)
        assert len(attributes) == len(attrs), f"an attribute twice in {tag}: {attrs}"
        self.tags.add(tag)
        self.names |= set(attributes)
        if identity := attributes.get("id"):
            self.ids.append(identity)
        for reference in ("aria-describedby", "aria-labelledby"):
            self.references |= set((attributes.get(reference) or "").split())
        if tag == "a" and (attributes.get("href") or "").startswith("#"):
            self.links.add(str(attributes["href"])[1:])
        if tag == "label":
            self._in_label = "for" not in attributes
            self.labels.add(attributes.get("for") or "")
        if tag in ("input", "textarea", "select"):
            self._open = Control(tag, attributes, in_label=self._in_label)
            self.controls.append(self._open)
        if tag == "option" and self._open is not None:
            self._open.options.append((attributes.get("value") or "", "selected" in attributes))
        if tag == "input":
            self._open = None

    def handle_endtag(self, tag: str) -> None:
        if tag in ("textarea", "select"):
            self._open = None
        if tag == "label":
            self._in_label = False

    def handle_data(self, data: str) -> None:
        self.words += data
        if self._open is not None and self._open.tag == "textarea":
            self._open.text += data

    def send(self, **changes: str | list[str] | None) -> QueryDict:
        """What is sent: line breaks are two characters, and the first one in a text area is not part of it."""
        sent = QueryDict(mutable=True)
        for control in self.controls:
            name = control.attributes.get("name")
            if name is None or "disabled" in control.attributes:
                continue
            kind = control.attributes.get("type")
            if kind in ("checkbox", "radio") and "checked" not in control.attributes:
                continue
            if control.tag == "textarea":
                values = [control.text.removeprefix("\n")]
            elif control.tag == "select":
                chosen = [value for value, selected in control.options if selected]
                values = chosen or [control.options[0][0]]
            else:
                # A browser takes the line breaks out of what has to be one line.
                values = [re.sub(r"[\r\n]" if kind != "hidden" else "(?!)", "", control.attributes.get("value") or "")]
            sent.setlistdefault(name, [])
            sent.setlist(name, [*sent.getlist(name), *values])
        for name, change in changes.items():
            sent.setlist(name, change if isinstance(change, list) else [] if change is None else [change])
        again = QueryDict(mutable=True)
        for name, values in sent.lists():
            texts = [value.replace("\r\n", "\n").replace("\n", "\r\n") for value in values]
            again.setlist(name.replace("\r\n", "\n").replace("\n", "\r\n"), texts)
        return QueryDict(again.urlencode())

    def check(self) -> None:
        """What everybody's software needs: ids once, a label for each control, references that lead somewhere."""
        assert len(self.ids) == len(set(self.ids)), "an id twice"
        assert self.references <= set(self.ids), self.references - set(self.ids)
        assert self.links <= set(self.ids), self.links - set(self.ids)
        for control in self.controls:
            if control.attributes.get("type") != "hidden":
                assert control.in_label or control.attributes.get("id") in self.labels, control
        assert not {"style", "onclick", "onerror", "onload"} & self.names
        assert not {"script", "style", "img", "iframe", "object"} & self.tags


HOSTILE = '"><script>alert(1)</script><img src=x onerror=alert(1)>\u202e\u200b{{ 7|add:1 }}{% now "Y" %}'
