"""The words of streams in a YAML file."""

from typing import Any

import pytest

import workflows
from workflows import InvalidDefinition, Machine
from workflows.models import Interaction
from workflows.testing import assert_done, drain

pytestmark = pytest.mark.django_db

FUNCTIONS = {
    "split": lambda ctx: ctx.input["orders"],
    "book": lambda ctx: {"order": ctx.item, "paid": ctx.steps.payment.paid},
    "report": lambda ctx, items: [one.output for one in items],
    "shout": lambda ctx: ctx.item.upper(),
    "join": lambda ctx: " ".join(ctx.items),
}


def test_a_stream_is_written_with_the_same_words() -> None:
    machine = Machine.from_yaml(
        """
name: streams.yaml
stages:
  - orders: {expand: split, concurrency: 1}
  - payment: {wait for: {channel: api, each: true, schema: {type: object, required: [paid]}, on_item: partial}}
  - booked: {action: book}
  - report: {collect: report}
""",
        functions=FUNCTIONS,
    )
    one = workflows.start(machine, {"orders": ["a", "b"]})
    drain()
    assert Interaction.objects.filter(status="pending", queued=False).count() == 1
    for n in range(2):
        workflows.complete(f"payment.{n}-{one.pk}", {"paid": n})
        drain()
    assert_done(one, [{"order": "a", "paid": 0}, {"order": "b", "paid": 1}])


def test_cardinalities_are_written_with_the_same_words() -> None:
    machine = Machine.from_yaml(
        """
name: streams.yaml.many
stages:
  - names: {wait for: {channel: api, cardinality: ONE_TO_MANY}}
  - loud: {action: shout}
  - check: {wait for: {channel: api, cardinality: MANY_TO_ONE}}
""",
        functions=FUNCTIONS,
    )
    one = workflows.start(machine)
    drain()
    workflows.complete(Interaction.objects.get(status="pending"), ["ann", "ben"])
    drain()
    asked = Interaction.objects.get(status="pending")
    assert asked.request == ["ANN", "BEN"]
    workflows.complete(asked, "fine")
    drain()
    assert_done(one, "fine")


WRONG = {
    "collect alone": ("  - a: {collect: join}", "line 4, stage 'a': there is no stream to collect"),
    "a policy": ("  - a: {expand: split, on_item: ignore}", "line 4, stage 'a': on_item= is"),
    "more beside collect": ("  - a: {expand: split}\n  - b: {collect: join, on_item: fail}", "line 5: .*'b' knows no"),
    "a stream in a flow": ("  - a: {action: join}\nflows:\n  side:\n    - expand: split", "a flow holds no stream"),
}


@pytest.mark.parametrize("case", WRONG)
def test_a_mistake_is_told_with_its_line(case: str) -> None:
    text, message = WRONG[case]
    with pytest.raises(InvalidDefinition, match=message):
        Machine.from_yaml(f"name: streams.wrong\n# streams\nstages:\n{text}\n", functions=FUNCTIONS)


def test_nothing_is_registered_for_a_file_that_is_refused() -> None:
    with pytest.raises(InvalidDefinition):
        Machine.from_yaml("name: streams.refused\nstages:\n  - a: {collect: join}\n", functions=FUNCTIONS)
    refused: Any = "streams.refused"
    with pytest.raises(workflows.UnknownWorkflow):
        workflows.start(refused)
