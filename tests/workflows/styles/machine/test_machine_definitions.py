"""Making a Machine: what its class must be, and how it says what is wrong, before any instance exists."""

import functools
import subprocess
import sys
from typing import Any

import pytest

import workflows
from workflows import (
    END,
    FAIL,
    DuplicateWorkflow,
    InvalidDefinition,
    Machine,
    action,
    branch,
    collect,
    expand,
    flow,
    launch,
    sleep,
    wait_for,
)
from workflows.definitions import registry


def define(label: str = "DefinedMachine", /, **members: Any) -> Any:
    """A machine made from its members, as the class statement would."""
    return type(label, (Machine,), {"__qualname__": f"define.<locals>.{label}", "__module__": __name__, **members})


def name_steps(machine: Any) -> list[str]:
    return list(machine.definition.steps)


def nothing(ctx: Any) -> None:
    return None


# --- stages and their order -----------------------------------------------------------------------


def test_stages_are_the_wrapped_attributes_in_the_order_of_their_declaration() -> None:
    class MachineOrder(Machine):
        last = action(nothing)
        first = sleep("1m")
        middle = branch(lambda ctx: END)

        helper = 5

        def help(self) -> None:
            """No stage."""

        plain = lambda ctx: None  # noqa: E731

    assert name_steps(MachineOrder) == ["last", "first", "middle"]
    assert MachineOrder.definition.initial == "last"


def test_a_flow_is_no_stage_of_the_main_line_and_its_stages_are_numbered() -> None:
    class MachineFlow(Machine):
        late = flow(action(nothing), sleep("1m"), action(nothing))
        ask = wait_for(event="paid", timeout="1h", on_timeout="late")

    assert MachineFlow.definition.initial == "ask"
    assert name_steps(MachineFlow) == ["ask", "late.0", "late.1", "late.2"]


def test_a_stage_of_a_flow_that_is_an_attribute_keeps_its_name_and_leaves_the_main_line() -> None:
    class MachineNamedFlow(Machine):
        ask = wait_for(event="paid", timeout="1h", on_timeout="late")
        apologise = action(nothing)
        thank = action(nothing)
        late = flow(apologise, action(nothing))

    assert name_steps(MachineNamedFlow) == ["ask", "thank", "apologise", "late.1"]


def test_a_subclass_adds_stages_at_the_end_and_replaces_them_in_their_place() -> None:
    class MachineBase(Machine):
        a = action(nothing)
        b = action(nothing)

    class MachineChild(MachineBase):
        c = action(nothing)
        a = sleep("1h")

    assert name_steps(MachineBase) == ["a", "b"]
    assert name_steps(MachineChild) == ["a", "b", "c"]
    assert MachineChild.definition.name == "MachineChild"


def test_a_subclass_takes_a_stage_out_with_none() -> None:
    class MachineWhole(Machine):
        a = action(nothing)
        b = action(nothing)

    class MachineShort(MachineWhole):
        a = None

    assert name_steps(MachineShort) == ["b"]


def test_a_subclass_keeps_at_least_one_stage() -> None:
    base = define("MachineEmptied", a=action(nothing))
    with pytest.raises(InvalidDefinition, match="no stage is left of those it inherits"):
        type("MachineEmpty", (base,), {"a": None})


def test_a_subclass_replaces_a_named_stage_inside_a_flow_too() -> None:
    class MachineSide(Machine):
        a = action(nothing)
        sorry = action(nothing)
        late = flow(sorry)

    class MachineOtherSide(MachineSide):
        sorry = action(nothing, atomic=True)

    assert name_steps(MachineOtherSide) == ["a", "sorry"]
    assert MachineOtherSide.definition.steps["sorry"].atomic


def test_a_class_without_stages_is_a_base_and_is_not_registered() -> None:
    class MachineNothing(Machine):
        retries = 5

    assert not hasattr(MachineNothing, "definition")
    assert registry.find("MachineNothing", 1) is None


def test_mixins_may_bring_stages() -> None:
    class Audit:
        audit = action(nothing)

    class MachineMixed(Audit, Machine):
        a = action(nothing)

    assert name_steps(MachineMixed) == ["audit", "a"]


# --- options --------------------------------------------------------------------------------------


def test_a_machine_takes_the_options_of_a_workflow() -> None:
    class MachineOptions(Machine):
        name = "machine with options"
        version = 3
        max_attempts = 2
        step_timeout = "20s"
        on_event = "order.paid"
        accepts = {"amount": int}

        a = action(nothing)

    made = MachineOptions.definition
    assert (made.name, made.version, made.max_attempts, made.step_timeout) == ("machine with options", 3, 2, 20.0)
    assert made.on_event == "order.paid"
    assert made.accepts is not None


def test_the_name_defaults_to_the_class_name_and_is_not_inherited() -> None:
    class MachineParent(Machine):
        name = "parent of machines"
        a = action(nothing)

    class MachineOffspring(MachineParent):
        pass

    assert MachineOffspring.definition.name == "MachineOffspring"


@pytest.mark.parametrize(
    ("option", "value", "told"),
    [
        ("name", "", "name: it must not be empty"),
        ("name", 5, "name: it must be text"),
        ("version", 0, "version must be a whole number"),
        ("version", True, "version must be a whole number"),
        ("max_attempts", "3", "max_attempts must be a whole number"),
        ("step_timeout", "soon", "step_timeout"),
        ("on_event", "", "on_event: it must not be empty"),
        ("accepts", 5, "accepts"),
        ("responds", {"type": "nonsense"}, "responds"),
    ],
)
def test_an_option_that_cannot_be_is_refused_by_its_name(option: str, value: Any, told: str) -> None:
    with pytest.raises(InvalidDefinition, match=rf"DefinedMachine.*{told}"):
        define(a=action(nothing), **{option: value})


def test_two_machines_of_one_name_and_version_are_refused() -> None:
    define("MachineTwice", a=action(nothing))
    with pytest.raises(DuplicateWorkflow):
        type("MachineTwice", (Machine,), {"__module__": "elsewhere", "a": action(nothing)})


def test_the_fingerprint_tells_a_changed_order_and_not_a_changed_function() -> None:
    def compute(**members: Any) -> int:
        return int(define("MachinePrint", **members).definition.fingerprint)

    first = compute(a=action(nothing), b=action(nothing))
    assert first != 0
    assert compute(a=action(lambda ctx: 1), b=action(nothing)) == first
    assert compute(b=action(nothing), a=action(nothing)) != first
    assert compute(a=action(nothing, then=END), b=action(nothing)) != first


# --- what is wrong with a stage --------------------------------------------------------------------

WRONG: dict[str, tuple[Any, str]] = {
    "no function": (lambda: action(5), "a function of ctx, not 5"),
    "a function without ctx": (lambda: action(lambda: 1), "called with ctx alone"),
    "a method": (lambda: action(lambda self, ctx: 1), "called with ctx alone"),
    "unknown then": (lambda: action(nothing, then="nowhere"), "then='nowhere' leads nowhere; it may be a, wrong, END"),
    "then is no text": (lambda: action(nothing, then=5), "then=5 leads nowhere"),
    "atomic is no flag": (lambda: action(nothing, atomic="yes"), "atomic= is True or False"),
    "unknown to": (lambda: branch(nothing, to=["a", "nowhere"]), "to='nowhere' leads nowhere"),
    "to is one text": (lambda: branch(nothing, to="a"), "to= is a list of stages"),
    "wait for nothing": (lambda: wait_for(), "here it has none of them"),
    "wait for two": (lambda: wait_for(event="x", callback=True), "here it has event and callback"),
    "callback is no flag": (lambda: wait_for(callback="yes"), "callback= is True or False"),
    "event is no text": (lambda: wait_for(event=5), "must be text"),
    "match without event": (lambda: wait_for(callback=True, match={"a": 1}), "match= is for events"),
    "match is no dict": (lambda: wait_for(event="x", match=[1]), "must be a mapping"),
    "input for an event": (lambda: wait_for(event="x", input={}), "an event is asked nothing"),
    "input is not JSON": (lambda: wait_for(callback=True, input={"a": object()}), "cannot be stored"),
    "unreadable timeout": (lambda: wait_for(event="x", timeout="soon"), "not a usable duration"),
    "timeout of zero": (lambda: wait_for(event="x", timeout=0), "longer than zero"),
    "unknown flow": (lambda: wait_for(event="x", timeout=1, on_timeout="late"), "on_timeout='late' is no flow"),
    "stage as flow": (lambda: wait_for(event="x", timeout=1, on_timeout="a"), "it is a stage, so put"),
    "flow without timeout": (lambda: wait_for(event="x", on_timeout="late"), "never happen without a timeout"),
    "no schema": (lambda: wait_for(callback=True, schema=5), "cannot be used as a schema"),
    "unknown cardinality": (
        lambda: wait_for(callback=True, cardinality="SOME"),
        "cardinality must be one of ONE_TO_ONE",
    ),
    "each and many": (lambda: wait_for(channel="api", each=True, cardinality="MANY_TO_ONE"), "leave one of them out"),
    "each is no flag": (lambda: wait_for(channel="api", each="yes"), "each= is True or False"),
    "many events": (lambda: wait_for(event="x", cardinality="ONE_TO_MANY"), "an event is asked nothing"),
    "expand without a function": (lambda: expand([1, 2]), r"a function of ctx, not \[1, 2\]"),
    "expand with no policy": (lambda: expand(nothing, on_item="ignore"), 'on_item= is "fail" or "partial"'),
    "expand without room": (lambda: expand(nothing, concurrency=0), "a whole number from 1 to 10000"),
    "a policy of one question": (
        lambda: wait_for(channel="api", on_item="partial"),
        "at the stage that opens a stream",
    ),
    "collect without a stream": (lambda: collect(nothing), "there is no stream to collect"),
    "no channel": (lambda: wait_for(channel=5), "a channel is a label"),
    "launch nothing": (lambda: launch(5), "the workflow to launch"),
    "launch with no JSON": (lambda: launch("Pack", {"a": object()}), "cannot be stored"),
    "launch with a bad function": (lambda: launch("Pack", lambda: 1), "called with ctx alone"),
    "sleep unreadable": (lambda: sleep("a while"), "not a usable duration"),
    "sleep backwards": (lambda: sleep(-1), "negative"),
    "a list": (lambda: (action(nothing),), "a comma too many"),
}


@pytest.mark.parametrize("case", WRONG)
def test_a_wrong_stage_is_refused_when_the_class_is_made_naming_class_and_stage(case: str) -> None:
    make, told = WRONG[case]
    with pytest.raises(
        InvalidDefinition,
        match=rf"machine tests\.workflows\.styles\.machine\.test_machine_definitions\.define"
        rf".*DefinedMachine.*'wrong': .*{told}",
    ):
        define(a=action(nothing), wrong=make())


async def work(ctx: Any) -> None:
    return None


class Worker:
    async def __call__(self, ctx: Any) -> None:
        return None


@pytest.mark.parametrize("fn", [work, Worker(), functools.partial(work)], ids=["function", "object", "partial"])
@pytest.mark.parametrize(
    "make", [lambda fn: action(fn, atomic=True), lambda fn: launch("x", fn), lambda fn: wait_for(event="x", match=fn)]
)
def test_async_functions_are_refused_with_a_hint_where_nothing_may_wait(fn: Any, make: Any) -> None:
    with pytest.raises(InvalidDefinition, match=r"'wrong': its function is async.*await in the function of an action"):
        define(wrong=make(fn))


async def generate(ctx: Any) -> Any:
    yield 1


@pytest.mark.parametrize("make", [action, branch, expand])
def test_async_generators_are_refused(make: Any) -> None:
    with pytest.raises(InvalidDefinition, match="async generator"):
        define(wrong=make(generate))


TAKEN = "id workspace key input attempt now step steps item name version initial accepts definition from_yaml END FAIL"
WORDS = "Machine action branch collect expand flow launch sleep wait_for"


@pytest.mark.parametrize("name", TAKEN.split())
def test_words_with_a_meaning_are_refused_as_names_of_stages(name: str) -> None:
    with pytest.raises(InvalidDefinition, match=rf"'{name}': this word has a meaning"):
        define(a=action(nothing), **{name: action(nothing)})
    with pytest.raises(InvalidDefinition, match=rf"flow '{name}': this word has a meaning"):
        define(a=action(nothing), **{name: flow(action(nothing))})


@pytest.mark.parametrize("name", ["callback", "state", "event", "sleep", "launch", "items", "result"])
def test_other_words_are_free(name: str) -> None:
    assert name_steps(define("MachineFree", **{name: action(nothing)})) == [name]


def test_a_stages_name_does_not_begin_with_an_underscore() -> None:
    with pytest.raises(InvalidDefinition, match="underscore"):
        define(_a=action(nothing))


def test_flows_hold_stages_and_at_least_one() -> None:
    with pytest.raises(InvalidDefinition, match="flow 'late': a flow needs at least one stage"):
        define(a=action(nothing), late=flow())
    with pytest.raises(InvalidDefinition, match="a flow is made of stages"):
        define(a=action(nothing), late=flow(nothing))
    with pytest.raises(InvalidDefinition, match="a flow is made of stages"):
        define(a=action(nothing), late=flow(flow(action(nothing))))


def test_a_wrong_stage_inside_a_flow_is_named_by_its_number() -> None:
    with pytest.raises(InvalidDefinition, match=r"'late\.1': .*not a usable duration"):
        define(a=action(nothing), late=flow(action(nothing), sleep("x")))


def test_a_stage_stands_in_one_place_only() -> None:
    shared = action(nothing)
    with pytest.raises(InvalidDefinition, match="'shared': it stands in 'one' and again in 'two'"):
        define(a=action(nothing), shared=shared, one=flow(shared), two=flow(shared))
    with pytest.raises(InvalidDefinition, match="'shared': it stands in 'one' twice"):
        define(a=action(nothing), shared=shared, one=flow(shared, shared))


def test_a_function_in_the_place_of_an_inherited_stage_is_refused_with_a_hint() -> None:
    base = define("MachineOverridden", a=action(nothing))
    with pytest.raises(InvalidDefinition, match=r"'a': .*wrap a function in action"):
        type("MachineOverride", (base,), {"a": nothing})


def test_a_flow_nobody_uses_is_fine() -> None:
    assert name_steps(define("MachineUnused", a=action(nothing), late=flow(action(nothing)))) == ["a", "late.0"]


def test_targets_may_be_stages_flows_and_the_end() -> None:
    class MachineTargets(Machine):
        a = action(nothing, then="c")
        b = action(nothing, then=END)
        c = branch(nothing, to=("a", "side", END, FAIL))
        d = action(nothing, then="side")
        side = flow(action(nothing, then="b"))

    assert name_steps(MachineTargets) == ["a", "b", "c", "d", "side.0"]


def test_a_machine_that_ends_by_sleeping_has_a_step_for_its_end() -> None:
    assert name_steps(define("MachineTired", a=sleep(5))) == ["a", "END"]


def test_defining_a_machine_loads_no_model_and_needs_no_settings() -> None:
    script = (
        "import sys\n"
        "from workflows import Machine, action, branch, wait_for, launch, sleep, flow, END, FAIL, expand, collect\n"
        "class Pay(Machine):\n"
        "    accepts = {'amount': int}\n"
        "    a = action(lambda ctx: 1)\n"
        "    b = wait_for(callback=True, timeout='24h', on_timeout='late', schema={'ok': bool})\n"
        "    late = flow(action(lambda ctx: 2))\n"
        "from django.conf import settings\n"
        "print('workflows.models' in sys.modules, settings.configured)"
    )
    ran = subprocess.run(
        [sys.executable, "-W", "error", "-c", script], capture_output=True, text=True, check=False, env={}
    )
    assert ran.returncode == 0, ran.stderr
    assert ran.stdout.strip() == "False False"


@pytest.mark.parametrize("name", WORDS.split())
def test_every_word_says_what_it_is(name: str) -> None:
    assert getattr(workflows, name).__doc__
