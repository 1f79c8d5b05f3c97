"""Declarative style: a class whose attributes are the stages, in the order in which they are declared.

    class PaymentMachine(Machine):
        charge = action(lambda ctx: post_charge(ctx.input["amount"], ctx.steps.payment._resume_url))
        payment = wait_for(callback=True, timeout="24h", on_timeout="give_up", schema=Payment)
        receipt = action(lambda ctx: {"payment_id": ctx.steps.payment.payment_id})
        give_up = flow(action(lambda ctx: {"payment_status": "timed_out"}))

Lives here: the class, and the one `Definition` that it becomes. Invariant owned: a machine whose class was
made can run. Stages, targets, schemas and options are checked by the class statement, not when the first
instance reaches them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any, ClassVar

from workflows.definitions import registry
from workflows.definitions.fingerprint import compute_fingerprint
from workflows.definitions.flow.flow_options import DEFAULT_QUEUE, read_flow_options
from workflows.definitions.flow.limits import Concurrency, Rate
from workflows.definitions.outcomes import Outcome
from workflows.definitions.registry import DEFAULT_MAX_ATTEMPTS, Definition, StepOptions
from workflows.engine.context import Context, StepContext
from workflows.exceptions import InvalidDefinition, WorkflowError
from workflows.schemas.schema import read_schema
from workflows.styles.machine.stage_plan import Plan, plan_machine
from workflows.styles.machine.stage_run import read_results
from workflows.styles.machine.streams.stream_ends import run_line, run_machine
from workflows.styles.retryable_errors import settle_error
from workflows.styles.schedule_option import declare_schedule
from workflows.values.durations import parse_timeout
from workflows.values.json_text import check_signal_name, check_text
from workflows.values.schedule_options import CatchUp, Overlap
from workflows.values.types_of_signatures import Duration


class Machine:
    """Base of machines. Subclasses with stages register themselves under `name` and `version`."""

    #: Defaults to the class name.
    name: ClassVar[str]
    version: ClassVar[int] = 1
    #: How many consecutive runs of a stage may fail: an exception, a dead worker, a timeout of the step.
    max_attempts: ClassVar[int] = DEFAULT_MAX_ATTEMPTS
    #: How long one run of a stage may take; None means the setting WORKFLOWS["STEP_TIMEOUT"].
    step_timeout: ClassVar[Duration | None] = None
    #: Each event of this name starts an instance, with the event's data as its input.
    on_event: ClassVar[str | None] = None
    #: The schedule that starts it, without an input: a cron expression in a time zone (None: the project's), or an
    #: interval; what a tick does while the last instance lives ("skip"); missed ticks that are made up for ("last").
    cron: ClassVar[str | None] = None
    every: ClassVar[Duration | None] = None
    tz: ClassVar[str | None] = None
    overlap: ClassVar[Overlap | None] = None
    catch_up: ClassVar[CatchUp | None] = None
    #: Schema of the input.
    accepts: ClassVar[Any] = None
    #: Schema of the result.
    responds: ClassVar[Any] = None
    #: The queue of its instances, and their place in it: the higher first, -100 to 100.
    queue: ClassVar[str] = DEFAULT_QUEUE
    priority: ClassVar[int] = 0
    #: How many of a key may run at once, and how often runs may begin.
    concurrency: ClassVar[Concurrency | None] = None
    rate: ClassVar[Rate | None] = None
    #: Whose turn it is goes round what this makes of the input.
    fair_by: ClassVar[str | Callable[[Any], object] | None] = None
    #: How many states are kept, so that `fork` can begin with one of the latest so many stages as it was.
    keep_states: ClassVar[int] = 0
    definition: ClassVar[Definition]

    def __init_subclass__(cls, *, source: str | None = None, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        source = source or f"{cls.__module__}.{cls.__qualname__}"
        definition = _define(cls, source)
        if definition is not None:
            cls.definition = declare_schedule(
                definition,
                cron=cls.cron,
                every=cls.every,
                tz=cls.tz,
                overlap=cls.overlap,
                catch_up=cls.catch_up,
            )
            registry.register(cls.definition)
        elif hasattr(cls, "definition"):
            raise InvalidDefinition(f"machine {source}: no stage is left of those it inherits")

    @classmethod
    def from_yaml(cls, path_or_text: object, *, functions: object = None) -> type[Machine]:
        """Make a machine of a YAML file, or of its text.

        Functions are named by dotted path, or by their name in `functions`, a module or a dict. Such a file is
        code: it names functions that will be called.
        """
        from workflows.styles.machine.yaml_machine import load_machine

        made: type[Machine] = load_machine(cls, path_or_text, functions)
        return made


def _define(cls: type[Machine], source: str) -> Definition | None:
    plan = plan_machine(cls, source)
    if plan is None:
        return None
    at = "name"
    try:
        name = check_text(vars(cls).get("name", cls.__name__), "it")
        at = "step_timeout"
        step_timeout = None if cls.step_timeout is None else parse_timeout(cls.step_timeout)
        at = "on_event"
        on_event = None if cls.on_event is None else check_signal_name(cls.on_event, "it")
        at = "accepts"
        accepts = read_schema(cls.accepts)
        at = "responds"
        responds = read_schema(cls.responds)
    except WorkflowError as error:
        raise InvalidDefinition(f"machine {source}: {at}: {error}") from error
    for option in ("version", "max_attempts"):
        registry.check_count(source, option, getattr(cls, option))
    registry.check_kept(source, cls.keep_states)
    if hasattr(cls, "late_signals"):
        raise InvalidDefinition(f"machine {source}: late_signals= is of the step style")
    plan = replace(plan, accepts=accepts, responds=responds)
    flow = read_flow_options(source, cls.queue, cls.priority, cls.concurrency, cls.rate, cls.fair_by)

    def run(ctx: Context) -> Outcome:
        assert isinstance(ctx, StepContext)
        return run_machine(plan, ctx)

    def run_item(ctx: Context) -> Outcome:
        assert isinstance(ctx, StepContext)
        return run_line(plan, ctx)

    def list_steps(names: list[str]) -> dict[str, StepOptions]:
        return {one: StepOptions(one in plan.nodes and plan.nodes[one].stage.atomic) for one in names}

    whole = Definition(
        name=name,
        version=cls.version,
        max_attempts=cls.max_attempts,
        step_timeout=step_timeout,
        initial=plan.initial,
        steps=list_steps(plan.steps),
        run=run,
        handle=settle_error,
        source=source,
        accepts=accepts,
        on_event=on_event,
        reads_signals=any(node.stage.list_signals() for node in plan.nodes.values()),
        fingerprint=_compute(plan),
        flow=flow,
        keep_states=cls.keep_states,
        read_state=lambda state: read_results(plan, state),
    )
    if not (names := plan.line_steps):
        return whole
    lines = replace(
        whole,
        name=f"{name}{registry.LINES}",
        initial=names[0],
        steps=list_steps(names),
        run=run_item,
        accepts=None,
        on_event=None,
        flow=None,
        reads_signals=any(plan.list_signals(one) for of in plan.parallels.values() for one in of.values()),
        keep_states=0,
    )
    return replace(whole, lines=lines)


def _compute(plan: Plan) -> int:
    """Names, kinds and order. What a function does may change while instances wait to call it."""
    return compute_fingerprint(
        "machine",
        [
            f"{name} {type(node.stage).__name__} {node.next} {' '.join(map(str, node.stage.list_targets()))}"
            for name, node in plan.nodes.items()
        ],
    )
