"""The tests whose rows no event tells: they write them behind the engine's back.

Lives here: their names and the reasons, so that the list can be read in one place. What must not: imports; the
table is read while tests are collected.
"""

_BY_SQL = "it writes instances by SQL, which no event tells"
#: Tests beside those marked `no_fold` whose rows no event tells, and why.
NOT_TOLD = {
    "test_atomic_steps.py::test_a_lost_claim_rolls_back_the_authors_writes": "a rival cancels by SQL",
    "test_cancel.py::test_finding_the_descendants_reads_no_table_however_large_other_families_are": _BY_SQL,
    "test_definitions.py::test_a_steps_own_limit_counts_before_its_workflows_and_that_before_the_setting": _BY_SQL,
    "test_event_cost.py::test_an_emit_beside_30_000_parked_wakes_the_right_ones_and_reads_few_pages": _BY_SQL,
    "test_lifecycle.py::test_a_row_that_contradicts_itself_cannot_be_committed": _BY_SQL,
    "test_lifecycle.py::test_ended_rows_leave_their_key_free": _BY_SQL,
    "test_lifecycle.py::test_the_database_accepts_exactly_the_edges_of_the_lifecycle": _BY_SQL,
    "test_lifecycle.py::test_two_live_rows_of_a_workspace_cannot_hold_one_key": _BY_SQL,
    "test_instance_races.py::test_control_a_park_in_one_statement_that_looks_at_the_signals_itself_loses_the_wake_up": (
        "its park is a wrong one on purpose, and writes no event"
    ),
    "test_token_view.py::test_the_check_asks_nothing_of_a_database_without_tables": "it takes a table away",
    "test_workflows_command.py::test_a_child_that_outlives_its_root_keeps_the_whole_tree": "it ends a root by SQL",
    "test_workflows_command.py::test_everything_that_belongs_to_an_instance_goes_with_it_and_nothing_else": (
        "it inserts questions by SQL"
    ),
}
