"""A machine from a YAML file: the same words as in Python, functions by dotted path.

    name: payment
    stages:
      - charge: {action: shop.payments.post_charge}
      - payment: {wait for: {callback: true, timeout: 24h, on_timeout: give_up}}
    flows:
      give_up:
        - action: shop.payments.tell_customer

Lives here: turning the file into the class that could have been written instead. Invariant owned: nothing in
the file is passed over. What is unknown, doubled or of the wrong kind is told with its line.
"""

from __future__ import annotations

import difflib
import re
import types
import unicodedata
from collections.abc import Iterable, Mapping
from typing import Any, NoReturn

from django.utils.module_loading import import_string

from workflows.definitions.awaited_event import event
from workflows.definitions.awaited_kinds import Pause, callback, child, instance, question, received
from workflows.definitions.flow.flow_options import FLOW_OPTIONS
from workflows.definitions.flow.limits import Concurrency, Rate
from workflows.exceptions import InvalidDefinition, WorkflowError, show
from workflows.styles.machine.parallel_stage import Parallel
from workflows.styles.machine.several_stage import WaitForSeveral
from workflows.styles.machine.stages import (
    ActionStage,
    Branch,
    Collect,
    Expand,
    Flow,
    Launch,
    Sleep,
    Stage,
    WaitFor,
)
from workflows.styles.machine.yaml_values import Fields, Named, parse_text, read_text
from workflows.values.schedule_options import SCHEDULE_OPTIONS

#: `wait for` in Spanish, French, German, Japanese, Chinese and Korean.
TRANSLATIONS = ("espera", "attend", "wartet auf", "待つ", "等待", "기다리다")

_OPTIONS = (
    *("name", "version", "max_attempts", "step_timeout", "on_event", "accepts", "responds", "keep_states"),
    *FLOW_OPTIONS,
    *SCHEDULE_OPTIONS,
)
#: What the two limits take, as in Python.
_LIMITS: Mapping[str, tuple[Any, tuple[str, ...]]] = {
    "concurrency": (Concurrency, ("key", "limit", "hold")),
    "rate": (Rate, ("name", "count", "per", "burst", "key", "weight")),
}
_WAIT = (
    "event",
    "callback",
    "signal",
    "channel",
    "match",
    "timeout",
    "on_timeout",
    "schema",
    "cardinality",
    "each",
    "input",
    "projector",
    "body",
    "on_item",
    "concurrency",
    "until",
)
#: Of a wait for several questions: what belongs to the wait itself.
_TIME = ("timeout", "until", "on_timeout")
#: The words of one of several questions, and what may stand beside each.
_QUESTIONS = {
    "event": ("match", "schema", "channel"),
    "signal": (),
    "callback": ("schema", "projector", "channel", "body"),
    "child": ("input", "key"),
    "instance": (),
    "sleep": (),
    "channel": ("input", "schema", "cardinality", "assignee", "group", "projector"),
}
#: A flow may be named with its word: `on_timeout: flow(give_up)`.
_FLOW = re.compile(r"flow\(\s*([^()\s]+)\s*\)")
#: What may stand beside a word in a stage.
_BESIDE = {
    "action": ("then", "atomic"),
    "branch": ("to",),
    "wait_for": (),
    "launch": ("input",),
    "sleep": (),
    "expand": ("on_item", "concurrency"),
    "collect": (),
    "parallel": (),
}
_WORDS = {word: word for word in _BESIDE} | dict.fromkeys(("wait for", *TRANSLATIONS), "wait_for")


def load_machine(base: type, path_or_text: object, functions: object) -> Any:
    """The class that a file, or its text, describes."""
    text, source = read_text(path_or_text)
    return _YamlReader(source, functions).make_class(base, parse_text(text, source))


class _YamlReader:
    """Reads one file; every complaint names it and the line."""

    def __init__(self, source: str, functions: object) -> None:
        self.source = source
        self.functions: Any = functions if isinstance(functions, Mapping) else vars(functions) if functions else {}
        self.members: dict[str, Any] = {}

    def make_class(self, base: type, content: object) -> Any:
        top = self._read_fields(content, 1, "a machine", (*_OPTIONS, "stages", "flows"))
        name = top.get("name")
        if not isinstance(name, str):
            self._refuse(top.line, f"a machine needs a name: text, not {show(name)}")
        for line, stage, _ in self._read_stages(top.get("stages"), top.lines.get("stages", top.line), "stages"):
            if stage is None:
                self._refuse(line, "a stage of the main line needs a name: `- name: {action: …}`")
        flows = top.get("flows", Fields())
        for flow, stages in self._read_fields(flows, top.lines.get("flows", 1), "flows", None).items():
            at = flows.lines[flow]
            read = self._read_stages(stages, at, f"flow {flow!r}")
            self._add(flow, Flow(tuple(stage for *_, stage in read), at), at)
        options = {
            key: self._read_limit(key, top) if key in _LIMITS else self._read_plain(top[key], top.lines[key])
            for key in _OPTIONS
            if key in top
        }
        for key in ("accepts", "responds"):
            if isinstance(options.get(key), str):
                options[key] = self._find(options[key], top.lines[key])
        body = {**self.members, **options, "__module__": base.__module__, "__doc__": f"Made from {self.source}."}
        label = name if name.isidentifier() else "YamlMachine"
        return types.new_class(label, (base,), {"source": self.source}, lambda namespace: namespace.update(body))

    def _read_stages(self, content: object, line: int, what: str) -> list[tuple[int, str | None, Stage]]:
        if not isinstance(content, list) or not content:
            self._refuse(line, f"{what} is a list: `- name: {{action: …}}`, one line for each stage")
        found: list[tuple[int, str | None, Stage]] = []
        for one in content:
            if not isinstance(one, Fields) or not one:
                self._refuse(
                    getattr(one, "line", line), f"{what}: a stage is written `- name: {{action: …}}`, not {show(one)}"
                )
            is_named = any(isinstance(body, Fields) and any(map(_find_word, body)) for body in one.values())
            if any(map(_find_word, one)) and not (is_named and len(one) == 1):
                found.append((one.line, None, self._read_stage(one, "a stage")))
                continue
            if len(one) > 1:
                self._refuse(one.line, f"{what}: one name for each stage, here are {', '.join(map(str, one))}")
            [(name, body)] = one.items()
            stage = self._read_stage(body, f"stage {name!r}", one.line)
            self._add(name, stage, one.line)
            found.append((one.line, name, stage))
        return found

    def _read_stage(self, content: object, what: str, line: int = 0) -> Stage:
        body = self._read_fields(content, line, what, None)
        words = [key for key in body if _find_word(key)]
        if len(words) != 1:
            told = f"here are {', '.join(words)}" if words else f"here is none of them ({', '.join(map(str, body))})"
            self._refuse(body.line, f"{what} has one of {', '.join(_BESIDE)}; {told}")
        [key] = words
        word = str(_find_word(key))
        self._read_fields(body, body.line, what, (key, *_BESIDE[word]))
        value, at = body[key], body.lines[key]
        match word:
            case "action":
                given = {name: body[name] for name in ("then", "atomic") if name in body}
                return ActionStage(self._find(value, at), **given, line=at)
            case "branch":
                return Branch(self._find(value, at), body.get("to"), line=at)
            case "wait_for":
                return self._read_wait(value, at, what)
            case "launch":
                return Launch(value, self._read_value(body, "input"), line=at)
            case "sleep":
                return Sleep(value, line=at)
            case "expand":
                return Expand(self._find(value, at), body.get("on_item"), body.get("concurrency"), line=at)
            case "parallel":
                return self._read_parallel(value, at, what)
            case _:
                return Collect(self._find(value, at), line=at)

    def _read_parallel(self, content: object, line: int, what: str) -> Stage:
        branches = self._read_fields(content, line, f"parallel of {what}", None)
        read = {}
        for name, stages in branches.items():
            listed = [stages] if isinstance(stages, Fields) else stages
            found = self._read_stages(listed, branches.lines[name], f"branch {name!r}")
            read[name] = tuple(stage for *_, stage in found)
        return Parallel(read, line=line)

    def _read_wait(self, content: object, line: int, what: str) -> Stage:
        if isinstance(content, Fields) and {"any_of", "all_of"} & set(content):
            several = self._read_several(content, line, what)
            if isinstance(path := several.get("on_timeout"), str) and (named := _FLOW.fullmatch(path)):
                several["on_timeout"] = named[1]
            return WaitForSeveral(**several, line=line)
        body = self._read_fields(content, line, f"wait for of {what}", (*_WAIT, "any_of", "all_of"))
        given = {key: self._read_value(body, key) for key in body}
        if isinstance(path := given.get("on_timeout"), str) and (named := _FLOW.fullmatch(path)):
            given["on_timeout"] = named[1]
        for key in ("schema", "projector"):
            if isinstance(given.get(key), str):
                given[key] = self._find(given[key], body.lines[key])
        return WaitFor(**given, line=line)

    def _read_several(self, content: object, line: int, what: str) -> dict[str, Any]:
        body = self._read_fields(content, line, f"wait for of {what}", ("any_of", "all_of", *_TIME))
        given = {key: self._read_value(body, key) for key in body if key in _TIME}
        for word in ("any_of", "all_of"):
            if word in body:
                asks = self._read_fields(body[word], body.lines[word], f"{word} of {what}", None)
                given[word] = {id: self._read_question(asks[id], asks.lines[id], id, word) for id in asks}
        return given

    def _read_question(self, content: object, line: int, id: str, word: str) -> Any:
        """One question of several, by the word that it has."""
        if isinstance(content, Named):
            return self._find(content, line)
        what = f"{id!r} in {word}"
        body = self._read_fields(content, line, what, None)
        kinds = [
            one for one in _QUESTIONS if one in body and not (one == "channel" and {"event", "callback"} & set(body))
        ]
        if len(kinds) != 1:
            self._refuse(line, f"{what} has one of {', '.join(_QUESTIONS)}; here it has {', '.join(kinds) or 'none'}")
        [kind] = kinds
        self._read_fields(body, line, what, (kind, *_QUESTIONS[kind]))
        given = {key: self._read_plain(body[key], line) for key in body}
        for key in ("schema", "projector"):
            if isinstance(given.get(key), str):
                given[key] = self._find(given[key], line)
        first = given.pop(kind)
        try:
            match kind:
                case "event":
                    return event(first, **given)
                case "signal":
                    return received(*([first] if isinstance(first, str) else first))
                case "callback":
                    return callback(**given)
                case "child":
                    return child(first, **given)
                case "instance":
                    return instance(first)
                case "sleep":
                    return Pause(first)
            return question(first, **given)
        except (WorkflowError, TypeError) as error:
            self._refuse(line, f"{what}: {error}")

    def _read_fields(self, content: object, line: int, what: str, known: Iterable[str] | None) -> Fields:
        if not isinstance(content, Fields):
            hint = "; a path ends in .yaml or .yml" if isinstance(content, str) and what == "a machine" else ""
            self._refuse(line, f"{what} is written as `key: value`, not {show(content)}{hint}")
        allowed = None if known is None else tuple(known)
        for key in content:
            if not isinstance(key, str):
                self._refuse(content.lines[key], f"{what}: the key {show(key)} is not text; put it into quotes")
            if allowed is not None and key not in allowed:
                self._refuse(content.lines[key], f"{what} knows no {key!r}; it has {', '.join(allowed)}")
        return content

    def _read_limit(self, option: str, top: Fields) -> Any:
        make, known = _LIMITS[option]
        line = top.lines[option]
        given = self._read_fields(top[option], line, option, known)
        try:
            return make(**{key: self._read_plain(value, given.lines[key]) for key, value in given.items()})
        except (InvalidDefinition, TypeError) as error:
            self._refuse(line, f"{option}: {error}")

    def _read_value(self, body: Fields, key: str) -> Any:
        value = body.get(key)
        return self._find(value, body.lines[key]) if isinstance(value, Named) else self._read_plain(value, body.line)

    def _read_plain(self, value: object, line: int) -> Any:
        if isinstance(value, Named):
            self._refuse(line, f"!function {value} stands for a whole match, input or channel, and for nothing else")
        if isinstance(value, dict):
            return {key: self._read_plain(one, line) for key, one in value.items()}
        return [self._read_plain(one, line) for one in value] if isinstance(value, list) else value

    def _find(self, name: object, line: int) -> Any:
        """What a name stands for: an entry of `functions`, else whatever its dotted path leads to."""
        if isinstance(name, str) and name in self.functions:
            return self.functions[name]
        if not isinstance(name, str) or "." not in name:
            close = difflib.get_close_matches(str(name), map(str, self.functions), n=1)
            hint = f" (did you mean {close[0]}?)" if close else ""
            self._refuse(
                line, f"{show(name)} names no function; write a dotted path such as shop.payments.charge{hint}"
            )
        try:
            return import_string(name)
        except ImportError as error:
            self._refuse(line, f"{name} cannot be imported: {error}")

    def _add(self, name: object, value: Stage | Flow, line: int) -> None:
        if not isinstance(name, str):
            self._refuse(line, f"the name {show(name)} is not text; put it into quotes")
        if name in self.members:
            self._refuse(line, f"there are two stages or flows {name!r}")
        if not name.isidentifier():
            self._refuse(line, f"{name!r} cannot be the name of a stage or flow: use letters, digits and _ only")
        self.members[name] = value

    def _refuse(self, line: int, problem: str) -> NoReturn:
        raise InvalidDefinition(f"{self.source}: line {line}: {problem}")


def _find_word(key: object) -> str | None:
    return _WORDS.get(unicodedata.normalize("NFC", key)) if isinstance(key, str) else None
