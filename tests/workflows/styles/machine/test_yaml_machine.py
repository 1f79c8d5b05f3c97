"""Machines from YAML: the same words, functions by name, and every mistake told with its line."""

import sys
import types
import unicodedata
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

import workflows
from workflows import DuplicateWorkflow, InvalidDefinition, InvalidInput, Machine, action
from workflows.definitions import registry
from workflows.definitions.channel import Channel
from workflows.models import Instance, Interaction
from workflows.testing import advance, assert_awaiting, assert_done, assert_failed, drain

pytestmark = pytest.mark.django_db


@dataclass(frozen=True)
class Payment:
    payment_id: str


class Desk(Channel):
    name = "desk"
    request = {"text": "please"}


def post_charge(ctx: Any) -> dict[str, Any]:
    return {"charged": ctx.input.get("amount"), "address": bool(ctx.steps.payment._resume_url)}


def tell_receipt(ctx: Any) -> dict[str, Any]:
    return {"payment_id": ctx.steps.payment.payment_id}


def tell_timeout(ctx: Any) -> dict[str, Any]:
    return {"payment_status": "timed_out"}


def one(ctx: Any) -> int:
    return 1


def tell_input(ctx: Any) -> Any:
    return ctx.input


def match_order(ctx: Any) -> dict[str, Any]:
    return {"order": ctx.input["order"]}


def choose(ctx: Any) -> str:
    return str(ctx.input["to"])


def make_desk(ctx: Any) -> Desk:
    return Desk()


HERE = sys.modules[__name__]
PAYMENT = """
name: yaml.payment
stages:
  - charge: {action: tests.workflows.styles.machine.test_yaml_machine.post_charge}
  - payment:
      WAIT: {callback: true, timeout: 24h, on_timeout: give_up,
        schema: tests.workflows.styles.machine.test_yaml_machine.Payment}
  - receipt: {action: tests.workflows.styles.machine.test_yaml_machine.tell_receipt}
flows:
  give_up:
    - action: tests.workflows.styles.machine.test_yaml_machine.tell_timeout
"""


def load(text: str, **options: Any) -> Any:
    return Machine.from_yaml(text, **{"functions": HERE} | options)


def run(machine: Any, input: Any = None) -> Instance:
    instance = workflows.start(machine, input)
    drain()
    instance.refresh_from_db()
    return instance


def answer(instance: Instance, data: Any) -> None:
    workflows.complete(Interaction.objects.get(instance=instance, status="pending"), data)
    drain()


# --- what can be written ------------------------------------------------------------------------------

LANGUAGES = ["wait for", "wait_for", "espera", "attend", "wartet auf", "待つ", "等待", "기다리다"]


@pytest.mark.parametrize("word", LANGUAGES)
def test_the_payment_machine_reads_the_same_in_every_language(word: str) -> None:
    machine = Machine.from_yaml(PAYMENT.replace("WAIT", word))
    assert machine.definition.name == "yaml.payment"
    assert list(machine.definition.steps) == ["charge", "payment", "receipt", "give_up.0"]
    answered, late = run(machine, {"amount": 5}), run("yaml.payment", {})
    answer(answered, {"payment_id": "p"})
    assert_done(answered, {"payment_id": "p"})
    advance("24h")
    assert_done(late, {"payment_status": "timed_out"})
    registry._definitions.pop(("yaml.payment", 1))


def test_a_word_may_come_decomposed_as_some_editors_write_it() -> None:
    word = unicodedata.normalize("NFD", "기다리다")
    assert word != "기다리다"
    machine = load(f"name: yaml.decomposed\nstages:\n  - a: {{{word}: {{event: go}}}}\n")
    assert_awaiting(run(machine))


def test_a_machine_is_read_from_a_file(tmp_path: Path) -> None:
    file = tmp_path / "payment.yaml"
    file.write_text("name: yaml.file\nstages:\n  - a: {action: one}\n")
    for given in (file, str(file)):
        machine = load(given)  # type: ignore[arg-type]
        assert machine.definition.source == str(file)
    assert_done(run("yaml.file"), 1)


EVERYTHING = """
name: yaml.everything
version: 3
max_attempts: 2
step_timeout: 20s
on_event: everything.begins
accepts: {to: str, order: int | None}
responds: {type: integer}
stages:
  - look: {branch: choose, to: [paid, nap, END, side]}
  - paid:
      wait for:
        event: order.paid
        match: !function match_order
        schema: {type: object, required: [amount]}
  - other: {wait_for: {event: go, match: {deep: {list: [1, two]}}}}
  - asked: {wait for: {channel: chat, input: {question: "ok?"}}}
  - desk: {wait for: {channel: !function make_desk}}
  - told: {wait for: {callback: true, input: !function tell_input}}
  - go: {launch: yaml.launched, input: !function tell_input}
  - plain: {launch: yaml.launched, input: {n: 1}}
  - book: {action: one, atomic: true, then: END}
  - nap: {sleep: 1h}
  - last: {action: one}
flows:
  side:
    - first: {action: one}
    - sleep: 30
    - action: one
"""


def test_every_word_and_option_can_be_written() -> None:
    load("name: yaml.launched\nstages: [{a: {action: tell_input}}]")
    machine = load(EVERYTHING)
    made = machine.definition
    assert (made.version, made.max_attempts, made.step_timeout, made.on_event) == (3, 2, 20.0, "everything.begins")
    assert made.steps["book"].atomic
    assert list(made.steps)[-3:] == ["first", "side.1", "side.2"]

    long = run(machine, {"to": "paid", "order": 7})
    workflows.emit("order.paid", {"order": 7, "amount": 1})
    drain()
    workflows.emit("go", {"deep": {"list": [1, "two"]}, "more": 1})
    drain()
    for request in ({"question": "ok?"}, {"text": "please"}, {"to": "paid", "order": 7}):
        assert Interaction.objects.get(instance=long, status="pending").request == request
        answer(long, "yes")
    assert_done(long, 1)
    inputs = [found.input for found in Instance.objects.filter(workflow="yaml.launched").order_by("id")]
    assert inputs == [{"to": "paid", "order": 7}, {"n": 1}]

    napping, aside = run(machine, {"to": "nap"}), run(machine, {"to": "side"})
    advance("1h")
    assert_done(napping, 1)
    assert_done(aside, 1)
    with pytest.raises(InvalidInput):
        workflows.start(machine, {"order": 7})


def test_functions_come_from_a_dict_a_module_or_a_dotted_path() -> None:
    made = types.ModuleType("made")
    made.two = lambda ctx: 2  # type: ignore[attr-defined]
    for functions, name, result in (
        ({"one": lambda ctx: 1}, "one", 1),
        ({"dotted.name": lambda ctx: 3}, "dotted.name", 3),
        (made, "two", 2),
        (None, "tests.workflows.styles.machine.test_yaml_machine.one", 1),
    ):
        machine = load(f"name: yaml.functions.{name}\nstages: [{{a: {{action: {name}}}}}]", functions=functions)
        assert_done(run(machine), result)


def test_a_stage_may_be_called_like_a_word() -> None:
    machine = load("name: yaml.words\nstages: [{sleep: {action: one}}, {launch: {sleep: 1h}}, {espera: {action: one}}]")
    assert list(machine.definition.steps) == ["sleep", "launch", "espera"]


def test_a_machine_from_yaml_may_extend_a_class() -> None:
    class YamlBase(Machine):
        a = action(lambda ctx: 1)

    machine = YamlBase.from_yaml(
        "name: yaml.extended\nstages: [{b: {action: tests.workflows.styles.machine.test_yaml_machine.one}}]"
    )
    assert list(machine.definition.steps) == ["a", "b"]


def test_the_same_text_again_is_a_reload_and_another_text_of_that_name_is_refused() -> None:
    text = "name: yaml.twice\nstages: [{a: {action: one}}]"
    load(text)
    load(text)
    with pytest.raises(DuplicateWorkflow):
        load(text + "\n# changed")


# --- what cannot ----------------------------------------------------------------------------------------

HEAD = "name: yaml.wrong\n"
WRONG: dict[str, tuple[str, str]] = {
    "no YAML": ("name: [", "line 1: .*expected"),
    "no mapping": ("- a", "line 1: a machine is written as `key: value`"),
    "a path that is none": ("machines/payment", "a path ends in .yaml or .yml"),
    "empty": ("", "a machine is written as"),
    "two documents": ("name: a\n---\nname: b", "but found another document"),
    "no name": ("stages: [{a: {action: one}}]", "line 1: a machine needs a name"),
    "name is a number": ("name: 5\nstages: [{a: {action: one}}]", "a machine needs a name: text, not 5"),
    "unknown key": (HEAD + "stage: []", "line 2: a machine knows no 'stage'; it has name, version"),
    "no stages": (HEAD, "line 1: stages is a list"),
    "stages as mapping": (HEAD + "stages:\n  a: {action: one}", "line 2: stages is a list"),
    "empty stages": (HEAD + "stages: []", "line 2: stages is a list"),
    "stage is text": (HEAD + "stages:\n  - a", "line 2: stages: a stage is written"),
    "stage without name": (HEAD + "stages:\n  - action: one", "line 3: a stage of the main line needs a name"),
    "two names": (HEAD + "stages:\n  - a: {action: one}\n    b: {action: one}", "line 3: stages: one name for each"),
    "no word": (
        HEAD + "stages:\n  - a: {do: one}",
        "line 3: stage 'a' has one of action, branch, .*here is none of them",
    ),
    "two words": (HEAD + "stages:\n  - a: {action: one, sleep: 1h}", "here are action, sleep"),
    "unknown beside": (HEAD + "stages:\n  - a:\n      action: one\n      els: b", "line 5: stage 'a' knows no 'els'"),
    "option of another word": (HEAD + "stages:\n  - a: {sleep: 1h, atomic: true}", "stage 'a' knows no 'atomic'"),
    "unknown in wait": (
        HEAD + "stages:\n  - a:\n      wait for:\n        event: x\n        timout: 1h",
        "line 6: wait for of stage 'a' knows no 'timout'; it has event, callback",
    ),
    "wait is text": (HEAD + "stages:\n  - a: {wait for: x}", "line 3: wait for of stage 'a' is written as"),
    "doubled key": (HEAD + "stages: [{a: {action: one}}]\nname: again", "line 3: 'name' is written twice"),
    "doubled inside": (
        HEAD + "stages:\n  - a:\n      action: one\n      action: two",
        "line 5: 'action' is written twice",
    ),
    "doubled stage": (
        HEAD + "stages:\n  - a: {action: one}\n  - a: {sleep: 1}",
        "line 4: there are two stages or flows 'a'",
    ),
    "yes is no name": (HEAD + "stages:\n  - yes: {action: one}", "the name True is not text; put it into quotes"),
    "a name with a space": (HEAD + "stages:\n  - the end: {action: one}", "'the end' cannot be the name"),
    "a reserved name": (HEAD + "stages:\n  - input: {action: one}", "line 3, stage 'input': this word has a meaning"),
    "unknown function": (
        HEAD + "stages:\n  - a: {action: choos}",
        r"line 3: 'choos' names no function; .*\(did you mean choose\?\)",
    ),
    "function is a number": (HEAD + "stages:\n  - a: {action: 5}", "5 names no function"),
    "unknown path": (HEAD + "stages:\n  - a: {action: nowhere.at_all}", "line 3: nowhere.at_all cannot be imported"),
    "unknown attribute": (
        HEAD + "stages:\n  - a: {action: tests.workflows.styles.machine.test_yaml_machine.nobody}",
        "line 3: .* cannot be imported",
    ),
    "not callable": (
        HEAD + "stages:\n  - a: {action: tests.workflows.styles.machine.test_yaml_machine.PAYMENT}",
        "line 3, stage 'a': .*a function of ctx",
    ),
    "unknown target": (HEAD + "stages:\n  - a: {action: one, then: z}", "line 3, stage 'a': then='z' leads nowhere"),
    "unknown flow": (
        HEAD + "stages:\n  - b: {action: one}\n  - a: {wait for: {event: x, timeout: 1h, on_timeout: z}}",
        "line 4, stage 'a': on_timeout='z' is no flow",
    ),
    "bad timeout": (
        HEAD + "stages:\n  - a: {wait for: {event: x, timeout: soon}}",
        "line 3, stage 'a': .*not a usable duration",
    ),
    "two kinds": (HEAD + "stages:\n  - a: {wait for: {event: x, callback: true}}", "stage 'a': .*event and callback"),
    "bad schema": (HEAD + "stages:\n  - a: {wait for: {event: x, schema: {type: thing}}}", "stage 'a': .*as a schema"),
    "schema path": (
        HEAD + "stages:\n  - a: {wait for: {event: x, schema: no.where}}",
        "line 3: no.where cannot be imported",
    ),
    "streams": (HEAD + "stages:\n  - a: {collect: one}", "line 3, stage 'a': there is no stream to collect"),
    "function inside": (
        HEAD + "stages:\n  - a: {wait for: {event: x, match: {a: !function one}}}",
        "!function one stands for a whole",
    ),
    "unknown tag": (
        HEAD + "stages:\n  - a: {action: !!python/name:os.system x}",
        "line 3: could not determine a constructor",
    ),
    "itself": (HEAD + "stages:\n  - a: {launch: x, input: &me [*me]}", "recursive"),
    "a key that is a list": (HEAD + "stages:\n  - ? [a]\n    : x", "line 3: found unhashable key"),
    "flows as list": (HEAD + "stages: [{a: {action: one}}]\nflows: []", "line 3: flows is written as"),
    "a depth bomb": ("name: " + "[" * 5_000, "nested too deeply"),
    "a number of too many digits": ("name: " + "9" * 5_000, "a value that cannot be read: .*digits"),
    "no day": ("name: 2026-99-99", "a value that cannot be read: month must be in"),
    "no truth": ("name: !!bool perhaps", "a value that cannot be read"),
    "no moment": ("name: !!timestamp soon", "a value that cannot be read"),
    "empty flow": (HEAD + "stages: [{a: {action: one}}]\nflows:\n  f: []", "line 4: flow 'f' is a list"),
    "flow like a stage": (
        HEAD + "stages: [{a: {action: one}}]\nflows:\n  a: [{action: one}]",
        "two stages or flows 'a'",
    ),
    "wrong in a flow": (
        HEAD + "stages: [{a: {action: one}}]\nflows:\n  f:\n    - sleep: x",
        "line 5, stage 'f.0': .*not a usable",
    ),
    "bad version": (HEAD + "version: two\nstages: [{a: {action: one}}]", "version must be a whole number"),
}


@pytest.mark.parametrize("case", WRONG)
def test_a_mistake_is_told_with_its_file_and_line(case: str, tmp_path: Path) -> None:
    text, told = WRONG[case]
    with pytest.raises(InvalidDefinition, match=rf"yaml:[0-9a-f]{{12}}: .*{told}"):
        load(text)


def test_a_file_is_named_by_its_path_and_one_that_is_not_there_is_told(tmp_path: Path) -> None:
    file = tmp_path / "wrong.yml"
    with pytest.raises(InvalidDefinition, match=r"wrong\.yml cannot be read"):
        load(file)  # type: ignore[arg-type]
    file.write_text("name: x\nstages:\n  - a: {action: nobody.there}")
    with pytest.raises(InvalidDefinition, match=r"wrong\.yml: line 3: nobody\.there"):
        load(str(file))
    file.write_bytes(b"\xff\xfe\xff")
    with pytest.raises(InvalidDefinition, match=r"wrong\.yml cannot be read"):
        load(str(file))


@pytest.mark.parametrize("given", [5, None, {"name": "x"}, b"name: x"])
def test_what_is_neither_path_nor_text_is_refused(given: Any) -> None:
    with pytest.raises(InvalidDefinition, match="takes a path or the text itself"):
        load(given)


def test_a_missing_pyyaml_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "yaml", None)
    with pytest.raises(InvalidDefinition, match=r"pip install 'django-holdpoint\[yaml\]'"):
        load("name: x\nstages: [{a: {action: one}}]")


def test_a_machine_from_yaml_fails_like_any_other() -> None:
    machine = load("name: yaml.fails\nmax_attempts: 1\nstages: [{a: {action: tell_receipt}}]")
    assert_failed(run(machine), "there is no stage 'payment'; there are a")
