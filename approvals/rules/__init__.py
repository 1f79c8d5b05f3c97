"""The rules of an approval: what can be answered, how many votes decide, who may vote. Pure values and functions.

Nothing here reads a row, a user or the clock: what a rule needs to know is handed to it as facts, so that
every rule can be tried with every combination of them.
"""

from approvals.rules.counting import (
    Ballot,
    Electorate,
    Verdict,
    VoteTally,
    count_electorate,
    count_fixed,
    dump_verdict,
    find_last_concern,
    judge,
)
from approvals.rules.outcomes import KnownOutcome, Outcome, dump_outcomes, find_outcome, load_outcomes, read_outcomes
from approvals.rules.quorum import All, Count, Percent, PerGroup, Quorum, Veto, load_quorum, read_quorum
from approvals.rules.rights import (
    ORDER,
    Attempt,
    Decided,
    Facts,
    Obstacle,
    Rules,
    check_decision,
    describe_four_eyes,
    find_obstacle,
    list_obstacles,
    says_no,
)

__all__ = [
    "ORDER",
    "All",
    "Attempt",
    "Ballot",
    "Count",
    "Decided",
    "Electorate",
    "Facts",
    "KnownOutcome",
    "Obstacle",
    "Outcome",
    "PerGroup",
    "Percent",
    "Quorum",
    "Rules",
    "Verdict",
    "Veto",
    "VoteTally",
    "check_decision",
    "count_electorate",
    "count_fixed",
    "describe_four_eyes",
    "dump_outcomes",
    "dump_verdict",
    "find_last_concern",
    "find_obstacle",
    "find_outcome",
    "judge",
    "list_obstacles",
    "load_outcomes",
    "load_quorum",
    "read_outcomes",
    "read_quorum",
    "says_no",
]
