"""Cost as a contract: how many statements each call takes, and which indexes they use.

Plans are taken from the very statements that the calls execute, with 20,000 parked rows beside the few
that matter: as the pump's connection plans them (sequential scans off) and as a web process does, with
the values known (custom plan) and without (the generic plan that a kept statement ends up with).
"""

import re
from collections.abc import Callable
from typing import Any

import pytest
from django.db import transaction
from django.test.utils import CaptureQueriesContext

import workflows
from tests.support.statements import MODES, db, explain, listen, statements
from workflows import Await, Child, Done, Next, Retry, Spawn, Stop, Workflow, durable, engine, step, store
from workflows.engine.author_calls import Host
from workflows.models import Instance
from workflows.testing import drain

pytestmark = pytest.mark.django_db

PARKED = 20_000


class Parked(Workflow):
    name = "StatementParked"

    @step
    def ask(self, ctx):
        return Await("go", then="end", timeout="24h")

    @step
    def end(self, ctx):
        return Stop("failed") if ctx.awaited and ctx.awaited[0].payload == "stop" else Done()


class Family(Workflow):
    name = "StatementFamily"

    @step
    def a(self, ctx):
        return Spawn([Child(Parked), Child(Parked)], then="b")

    @step
    def b(self, ctx):
        return Done()


# --- how many -------------------------------------------------------------------------------------


def parked(count: int = 1, **more: Any) -> list[Instance]:
    started = workflows.start_many(Parked, [{}] * count, **more)
    drain()
    return started


def test_starting_one_takes_one_statement() -> None:
    with statements(1):
        workflows.start(Parked, {"n": 1}, key="k", actor="somebody")


@pytest.mark.django_db(transaction=True)
def test_starting_one_takes_one_statement_and_no_transaction_of_its_own() -> None:
    with CaptureQueriesContext(db()) as captured:
        workflows.start(Parked)
    assert len(captured) == 1


def test_a_taken_key_costs_three_more_to_name_its_holder() -> None:
    workflows.start(Parked, key="k")
    with statements(4), pytest.raises(workflows.DuplicateKey):
        workflows.start(Parked, key="k")


@pytest.mark.parametrize(("count", "needed"), [(1, 1), (500, 1), (501, 2), (2_000, 4)])
def test_starting_many_takes_one_statement_for_each_500(count: int, needed: int) -> None:
    with statements(needed):
        workflows.start_many(Parked, [{}] * count, keys=[f"k{n}" for n in range(count)])


@pytest.mark.parametrize("wakes", [True, False])
def test_a_signal_takes_one_statement(wakes: bool) -> None:
    [instance] = parked(keys=["k"])
    for target in (instance, instance.pk, "k"):
        with statements(1):
            workflows.signal(target, "go" if wakes else "other", {"n": 1}, dedup_key=f"{target}")


def test_a_duplicate_signal_takes_two() -> None:
    [instance] = parked()
    workflows.signal(instance, "go", dedup_key="d")
    with statements(2):
        workflows.signal(instance, "go", dedup_key="d")


def test_500_signals_by_id_take_one_statement_and_one_to_wake_a_worker() -> None:
    instances = parked(500)
    with statements(1):
        workflows.signal_many([(one, "other", n, f"d{n}") for n, one in enumerate(instances)])
    with statements(2):
        workflows.signal_many([(one, "go", n) for n, one in enumerate(instances)])


def test_500_signals_by_key_take_one_more_to_find_the_holders() -> None:
    keys = [f"k{n}" for n in range(500)]
    parked(500, keys=keys)
    with statements(2):
        workflows.signal_many([(key, "other", n) for n, key in enumerate(keys)])
    with statements(3):
        workflows.signal_many([(key, "go", n) for n, key in enumerate(keys)])


@pytest.mark.parametrize("count", [0, 1, 100])
def test_a_claim_takes_one_statement_with_all_signals(count: int) -> None:
    instances = parked(count)
    workflows.signal_many([(one, "go") for one in instances] * 2)
    with statements(1):
        claims = store.claim(db(), 500)
    assert [len(one.signals) for one in claims] == [2] * count


OUTCOMES: dict[str, Callable[[], Any]] = {
    "next": lambda: Next("b"),
    "delay": lambda: Next("b", {"n": 1}, delay=5),
    "await": lambda: Await("x", then="b", timeout=5),
    "retry": Retry,
    "done": lambda: Done({"n": 1}),
    "stop": lambda: Stop("reason"),
}


class Various(Workflow):
    name = "StatementVarious"

    @step
    def ask(self, ctx):
        return Await("go", then="a")

    @step
    def a(self, ctx):
        ctx.inbox, ctx.awaited, ctx.state, ctx.input, ctx.now, ctx.id, ctx.key, ctx.timed_out  # noqa: B018
        return OUTCOMES[ctx.input]()

    @step
    def b(self, ctx):
        return Done()


@pytest.mark.parametrize(
    "kinds", [*([one] for one in OUTCOMES), list(OUTCOMES) * 20], ids=lambda kinds: "+".join(kinds)[:9]
)
def test_a_batch_of_outcomes_is_committed_with_one_statement_and_run_with_none(kinds: list[str]) -> None:
    instances = workflows.start_many(Various, kinds)
    drain()
    workflows.signal_many([(one, "go") for one in instances])
    claims = store.claim(db(), 500)
    assert len(claims) == len(kinds)
    with statements(0):
        commits = [engine.run(one, Host(db(), "default")) for one in claims]
    with statements(1):
        applied = engine.settle(db(), [one for one in commits if isinstance(one, store.Commit)])
    assert len(applied) == len(kinds)


def test_a_spawn_takes_three_statements_for_any_number_of_children() -> None:
    class StatementSpawn(Workflow):
        @step
        def a(self, ctx):
            return Spawn([Child(Parked)] * 100, then="b")

        @step
        def b(self, ctx):
            return Done()

    workflows.start(StatementSpawn)
    claims = store.claim(db(), 1)
    with statements(3):
        engine.run(claims[0], Host(db(), "default"))


class Asking(Workflow):
    name = "StatementAsking"

    @step
    def ask(self, ctx):
        asked = ctx.callback("pay")
        if ctx.input == "address":
            assert asked.resume_url
        return Await(asked, then="again")

    @step
    def again(self, ctx):
        return Next("ask")


def run_next(count: int) -> None:
    """Claim and run one step with exactly so many statements of its own, and commit it."""
    [claim] = store.claim(db(), 1)
    with statements(count):
        commit = engine.run(claim, Host(db(), "default", savepoints=True))
    assert isinstance(commit, store.Commit)
    engine.settle(db(), [commit])


@pytest.mark.parametrize(
    ("given", "first", "later"),
    [
        ("none", 1, 2),  # who never asked has no earlier visit to look for
        ("address", 3, 4),  # opened for its address; found and armed by the park
    ],
)
def test_a_question_takes_one_statement_to_open_and_one_to_find_the_visit_before(
    given: str, first: int, later: int
) -> None:
    instance = workflows.start(Asking, given)
    for cost in (first, later, later):
        run_next(cost)
        workflows.complete(f"pay-{instance.pk}", {})
        run_next(0)


def test_the_question_of_a_function_takes_one_statement_with_its_checkpoint() -> None:
    @durable(name="StatementFunction")
    def ask(ctx):
        ctx.wait_for_signal("gate", timeout="1h")
        ctx.wait_for_signal("gate 2", signal="other", timeout="1h")

    instance = workflows.start(ask)
    run_next(1)
    workflows.complete(f"gate-{instance.pk}", {})
    run_next(3)  # the checkpoints, no visit before, and the question


def test_what_a_step_reads_of_other_tables_costs_one_statement_each_and_once() -> None:
    class StatementReads(Workflow):
        @step
        def a(self, ctx):
            return Spawn([Child(Parked)], then="b")

        @step
        def b(self, ctx):
            with statements(1):
                assert len(ctx.children) == len(ctx.children) == 1
            with statements(1):
                assert ctx.workspace == "default"
            return Done()

    instance = workflows.start(StatementReads)
    drain()
    workflows.cancel(instance.children.get())
    drain()
    assert workflows.result(instance) is None


def test_the_pumps_rounds_take_one_statement_each() -> None:
    parked(20)
    workflows.start_many(Parked, [{}] * 20)
    for call in (store.expire_due, store.reclaim, store.seconds_to_next):
        with statements(1):
            call(db())
    claims = store.claim(db(), 20)
    with statements(1):
        store.renew(db(), claims)
    with statements(1):
        store.release(db(), claims)
    with statements(0):
        store.renew(db(), [])


def test_cancelling_takes_as_many_statements_for_a_large_tree_as_for_a_small_one() -> None:
    [alone] = parked()
    family = workflows.start(Family)
    drain()
    with statements(5):
        workflows.cancel(alone)
    with statements(7):
        workflows.cancel(family)


def test_retrying_takes_four_statements() -> None:
    [instance] = parked()
    workflows.signal(instance, "go", "stop")
    drain()
    with statements(4):
        workflows.retry(instance)


def test_a_result_takes_two_statements() -> None:
    [instance] = parked()
    workflows.signal(instance, "go")
    drain()
    with statements(2):
        workflows.result(instance)


# --- time ---------------------------------------------------------------------------------------------


def test_every_statement_reads_the_time_through_the_two_functions_that_tests_can_move() -> None:
    workspace()
    for name, prepare in CALLS.items():
        for sql, _ in listen(prepare()):
            raw = re.search(
                r"(statement|clock|transaction)_timestamp\(|\bnow\(\)|current_timestamp", sql, re.IGNORECASE
            )
            assert raw is None, f"{name}: {sql}"


def test_moments_are_compared_with_the_time_that_is_constant_within_a_statement() -> None:
    workspace()
    for name in ("claim", "reclaim", "expire"):
        for sql, _ in listen(CALLS[name]()):
            assert re.search(r"due_at <= holdpoint_now\(\)", sql), name
            assert not re.search(r"due_at [<>]=? *holdpoint_clock\(\)", sql), name


@pytest.mark.parametrize("call", ["claim", "deliver", "commit", "expire", "reclaim", "start"])
def test_hot_statements_are_short_enough_for_psycopg_to_remember(call: str) -> None:
    workspace()
    for sql, _ in listen(CALLS[call]()):
        assert len(sql) <= 4096, f"{call}: {len(sql)}"


# --- plans --------------------------------------------------------------------------------------------


def workspace() -> None:
    """Rows that the calls below need."""
    workflows.start_many(Parked, [{}] * 20, keys=[f"own{n}" for n in range(20)])
    family = workflows.start(Family)
    drain()
    workflows.signal("own0", "go", 1, dedup_key="once")
    workflows.signal("own1", "go", "stop")
    drain()
    assert family.children.count() == 2


def own(number: int) -> Instance:
    return Instance.objects.get(key=f"own{number}")


def claimed(count: int, **more: Any) -> list[store.Claim]:
    workflows.start_many(Parked, [{}] * count)
    return store.claim(db(), count, **more)


def prepare_commit() -> Callable[[], object]:
    commits = [engine.run(one, Host(db(), "default")) for one in claimed(20)]
    return lambda: store.commit(db(), commits)


def prepare_end_of_child() -> Callable[[], object]:
    child = Instance.objects.filter(parent__isnull=False, status="awaiting").first()
    workflows.signal(child, "go")
    commits = [engine.run(one, Host(db(), "default")) for one in store.claim(db(), 20)]
    return lambda: store.commit(db(), commits)


def prepare_claim() -> Callable[[], object]:
    workflows.signal("own2", "go")
    workflows.start_many(Parked, [{}] * 20)
    return lambda: store.claim(db(), 20)


def prepare_claimed(call: Callable[[list[store.Claim]], object]) -> Callable[[], object]:
    claims = claimed(20)
    return lambda: call(claims)


def prepare_reclaim() -> Callable[[], object]:
    claimed(5, lease=0.0)
    return lambda: store.reclaim(db())


def prepare_target(number: int, call: Callable[[Instance], object]) -> Callable[[], object]:
    target = own(number)
    return lambda: call(target)


#: name -> prepares, and returns the call whose statements are looked at
CALLS: dict[str, Callable[[], Callable[[], object]]] = {
    "claim": prepare_claim,
    "renew": lambda: prepare_claimed(lambda claims: store.renew(db(), claims)),
    "release": lambda: prepare_claimed(lambda claims: store.release(db(), claims)),
    "reclaim": prepare_reclaim,
    "commit": prepare_commit,
    "commit locked": lambda: prepare_claimed(lambda claims: store.lock_claim(db(), claims[0])),
    "end of a child": prepare_end_of_child,
    "expire": lambda: lambda: store.expire_due(db()),
    "next deadline": lambda: lambda: store.seconds_to_next(db()),
    "start": lambda: lambda: workflows.start_many(Parked, [{}] * 3, keys=["new", None, "own5"], on_duplicate="return"),
    "deliver": lambda: prepare_target(3, lambda one: workflows.signal(one, "go", 1)),
    "deliver by key": lambda: lambda: workflows.signal("own4", "go", 1),
    "deliver again": lambda: (
        lambda: workflows.signal("own6", "go", 1, dedup_key="d") and workflows.signal("own6", "go", 1, dedup_key="d")
    ),
    "deliver many": lambda: prepare_target(7, lambda one: workflows.signal_many([(one, "go")] * 20)),
    "deliver many by key": lambda: lambda: workflows.signal_many([(f"own{n}", "x", n, "d") for n in range(8, 14)] * 2),
    "cancel": lambda: prepare_target(14, workflows.cancel),
    "cancel a tree": lambda: (lambda one: lambda: workflows.cancel(one))(
        Instance.objects.filter(workflow="StatementFamily", status="awaiting_children").latest("id")
    ),
    "retry": lambda: (lambda one: lambda: workflows.retry(one))(Instance.objects.filter(status="failed").latest("id")),
}

#: name -> indexes of which each must appear in some plan of the call
INDEXES: dict[str, set[str]] = {
    "claim": {"holdpoint_plain", "holdpoint_instance_pkey", "holdpoint_signal_open"},
    # Few rows run at a time, so the planner may go through those instead of the primary key.
    "renew": {"holdpoint_(instance_pkey|lease)"},
    "release": {"holdpoint_(instance_pkey|lease)"},
    "reclaim": {"holdpoint_lease", "holdpoint_instance_pkey"},
    "commit": {"holdpoint_instance_pkey"},
    "commit locked": {"holdpoint_instance_pkey"},
    "end of a child": {"holdpoint_instance_pkey"},
    "expire": {"holdpoint_deadline", "holdpoint_instance_pkey"},
    "next deadline": {"holdpoint_deadline"},
    "start": {"holdpoint_instance_key"},
    "deliver": {"holdpoint_instance_pkey"},
    "deliver by key": {"holdpoint_instance_key", "holdpoint_instance_pkey"},
    "deliver again": {"holdpoint_instance_key", "holdpoint_signal_dedup"},
    "deliver many": {"holdpoint_instance_pkey"},
    "deliver many by key": {"holdpoint_instance_key", "holdpoint_instance_pkey", "holdpoint_signal_dedup"},
    "cancel": {"holdpoint_instance_pkey", "holdpoint_children"},
    "cancel a tree": {"holdpoint_instance_pkey", "holdpoint_children"},
    "retry": {"holdpoint_instance_pkey"},
}

SMALL_MODES = MODES[4:]
#: What only the pump executes, on its connection without sequential scans.
PUMP_ONLY = {
    "claim",
    "renew",
    "release",
    "reclaim",
    "commit",
    "commit locked",
    "end of a child",
    "expire",
    "next deadline",
}

#: What autovacuum may have looked at, at any moment: the last three with nearly nothing in them.
TABLES = (
    "holdpoint_instance, holdpoint_signal, holdpoint_ledger, "
    "holdpoint_unit, holdpoint_interaction, holdpoint_checkpoint"
)


def fill_tables() -> None:
    """20,000 parked instances, each with a consumed and some with an open signal, and their ledger."""
    rows = f"generate_series(1, {PARKED}) n, holdpoint_workspace w WHERE w.slug = 'default'"
    with db().cursor() as cursor:
        cursor.execute(f"""
            INSERT INTO holdpoint_instance (id, created_at, due_at, workspace_id, fence, seq, inbox, pending, version,
              status, attempt, runs, spawns, timed_out, solo, workflow, step, key, started_by, names, input)
            SELECT md5(n::text)::uuid, now(),
              CASE WHEN mod(n, 2) = 0 THEN now() + n * interval '1 s' + interval '1 d' END, w.id, 1, 3,
              CASE WHEN mod(n, 10) = 0 THEN 1 ELSE 0 END, 0, 1, CASE WHEN mod(n, 100) = 98 THEN 4 ELSE 3 END, 0, 0, 0,
              false, false, 'StatementParked', 'end', CASE WHEN mod(n, 3) > 0 THEN 'key' || n END, '', '{{go}}', '{{}}'
            FROM {rows}
        """)
        cursor.execute(f"""
            INSERT INTO holdpoint_signal (instance_id, received_at, consumed_at, consumed_by, n, workspace_id, name,
              dedup_key, source, payload)
            SELECT md5(n::text)::uuid, now(), now(), 1, 2, w.id, 'go', 'd', '', '1'::jsonb FROM {rows}
            UNION ALL
            SELECT md5(n::text)::uuid, now(), NULL, NULL, 3, w.id, 'other', NULL, '', '1'::jsonb FROM {rows}
              AND mod(n, 10) = 0
        """)
        cursor.execute(f"""
            INSERT INTO holdpoint_ledger (instance_id, at, seq, workspace_id, kind, status, actor)
            SELECT md5(n::text)::uuid, now(), 1, w.id, 1, 1, '' FROM {rows}
        """)
        # Pages of units that are gone: then a whole index looks cheaper to read than the table.
        cursor.execute(f"""
            INSERT INTO holdpoint_unit (id, instance_id, created_at, workspace_id, visit, total, remaining, failed,
              status, cardinality, step)
            SELECT md5(n::text)::uuid, md5(n::text)::uuid, now(), w.id, 1, 1, 1, 0, 1, 1, 'gate' FROM {rows}
        """)
        cursor.execute("DELETE FROM holdpoint_unit")
        cursor.execute(f"ANALYZE {TABLES}")


@pytest.fixture(scope="module")
def plans(django_db_setup: None, django_db_blocker: Any) -> dict[tuple[str, str], list[str]]:
    """(call, mode) -> the plans of its statements. Filled once, in one transaction that is rolled back."""
    found: dict[tuple[str, str], list[str]] = {}
    with django_db_blocker.unblock(), transaction.atomic():
        for mode in SMALL_MODES:
            with transaction.atomic():
                with db().cursor() as cursor:
                    if "new" in mode:
                        cursor.execute("TRUNCATE holdpoint_instance, holdpoint_signal, holdpoint_ledger")
                    workspace()
                    if "small" in mode:
                        cursor.execute(f"ANALYZE {TABLES}")
                for name, prepare in CALLS.items():
                    found[name, mode] = [explain(mode, *one) for one in listen(prepare())]
                transaction.set_rollback(True)
        fill_tables()
        workspace()
        for name, prepare in CALLS.items():
            heard = listen(prepare())
            for mode in MODES[:4]:
                found[name, mode] = [explain(mode, *one) for one in heard]
        transaction.set_rollback(True)
    return found


def looked_at(modes: list[str]) -> Any:
    """Pairs of call and mode that happen: the pump's calls on its connection, all others everywhere."""
    pairs = [(call, mode) for call in CALLS for mode in modes if mode.startswith("web") != (call in PUMP_ONLY)]
    return pytest.mark.parametrize(("call", "mode"), pairs)


@looked_at(MODES)
def test_no_statement_reads_a_whole_table(plans: dict[tuple[str, str], list[str]], call: str, mode: str) -> None:
    for plan in plans[call, mode]:
        assert not re.search(r"Seq Scan on holdpoint_(instance|signal|ledger)", plan), plan


#: Partial indexes that hold so little that reading all of them is no harm.
SMALL = {"holdpoint_plain", "holdpoint_lease"}


@looked_at(MODES)
def test_no_statement_reads_a_whole_index_either(plans: dict[tuple[str, str], list[str]], call: str, mode: str) -> None:
    for plan in plans[call, mode]:
        for node in re.split(r"\n *(?=->|CTE|InitPlan|SubPlan)", plan):
            scan = re.search(r"Index (?:Only )?Scan (?:Backward )?(?:using|on) (holdpoint_\w+)", node)
            if scan and scan[1] not in SMALL and call != "next deadline":
                assert "Index Cond" in node, plan


@looked_at(MODES[:4])
def test_each_call_uses_the_indexes_that_were_made_for_it(
    plans: dict[tuple[str, str], list[str]], call: str, mode: str
) -> None:
    told = "\n\n".join(plans[call, mode])
    for index in INDEXES[call]:
        assert re.search(rf"\b{index}\b", told), f"{index} is not used:\n{told}"


@pytest.mark.parametrize("mode", MODES[:2])
@pytest.mark.parametrize("call", ["claim", "reclaim", "expire", "next deadline"])
def test_what_is_due_is_read_in_the_order_of_the_index_and_bounded_by_it(
    plans: dict[tuple[str, str], list[str]], call: str, mode: str
) -> None:
    index = {"claim": "holdpoint_plain", "reclaim": "holdpoint_lease"}.get(call, "holdpoint_deadline")
    [plan] = plans[call, mode]
    at = plan.index(index)
    assert "Sort Key" not in plan[:at].split("CTE c")[-1], plan
    if call != "next deadline":
        assert re.search(r"Index Cond: .*due_at <= statement_timestamp\(\)", plan[at:]), plan
