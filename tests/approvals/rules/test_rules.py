"""The rules of an approval: which answers there are, how many votes decide, who may vote, and what a refusal says."""

import copy
import doctest
import importlib
import json
import os
import pickle
import subprocess
import sys
from collections.abc import Iterable, Mapping
from dataclasses import FrozenInstanceError, dataclass, replace
from datetime import UTC, datetime, timedelta
from fractions import Fraction
from itertools import combinations, product
from typing import Any

import pytest
from django.utils import timezone
from django.utils.translation import gettext_lazy, override
from hypothesis import given
from hypothesis import strategies as st

from approvals import exceptions
from approvals.exceptions import (
    AlreadyDecided,
    ApprovalError,
    DecisionRefused,
    InvalidApproval,
    NotAllowed,
    ReasonRequired,
    Stale,
    UnknownOutcome,
    VotedTwice,
)
from approvals.rules import (
    ORDER,
    All,
    Attempt,
    Ballot,
    Count,
    Decided,
    Electorate,
    Facts,
    Outcome,
    Percent,
    PerGroup,
    Quorum,
    Rules,
    Verdict,
    Veto,
    check_decision,
    count_electorate,
    describe_four_eyes,
    dump_outcomes,
    dump_verdict,
    find_obstacle,
    judge,
    list_obstacles,
    load_outcomes,
    load_quorum,
    read_outcomes,
    read_quorum,
)

MODULES = ["exceptions", "rules.outcomes", "rules.quorum", "rules.counting", "rules.rights"]


@pytest.mark.parametrize("name", MODULES)
def test_the_examples_in_the_docstrings_run(name: str) -> None:
    ran = doctest.testmod(importlib.import_module(f"approvals.{name}"))
    assert ran.attempted >= 3
    assert not ran.failed


def test_the_rules_need_neither_settings_nor_models() -> None:
    code = """
import sys
from approvals import rules
from approvals.rules import calendar, escalation
rules.judge(rules.Count(1), rules.read_outcomes(["approve", "reject"]), [], rules.Electorate(1))
escalation.place_rungs(escalation.read_ladder(remind=["1d"]), calendar.FAR_AWAY)
assert "django.db.models" not in sys.modules
ours = {name for name in sys.modules if name.startswith("workflows.")}
errors = {name for name in ours if name.startswith("workflows.exceptions.")}
known = {"exceptions", "importing", "importing.foreign_packages", "importing.moved_modules"}
known |= {"values", "values.durations", "wording", "wording.relative_times", "wording.messages", "wording.punctuation"}
assert ours - errors == {f"workflows.{name}" for name in known}, ours
"""
    env = {name: value for name, value in os.environ.items() if name != "DJANGO_SETTINGS_MODULE"}
    ran = subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stderr


# Outcomes


def test_well_known_outcomes_look_as_people_expect() -> None:
    found = read_outcomes(("approve", "edit_and_approve", "request_changes", "reject", "send_back"))
    assert [(one.label, one.tone, one.requires_reason) for one in found] == [
        ("Approve", "positive", False),
        ("Edit and approve", "positive", False),
        ("Request changes", "warning", False),
        ("Reject", "negative", False),
        ("Send back", "neutral", False),
    ]


def test_what_the_author_says_wins_over_what_is_known() -> None:
    plain = Outcome("reject", "Turn down", "neutral", requires_reason=False, presets=["Too dear", " Twice "])
    assert (plain.label, plain.tone, plain.requires_reason) == ("Turn down", "neutral", False)
    assert plain.presets == ("Too dear", "Twice")
    assert read_outcomes([plain]) == (plain,)


UNUSABLE_NAMES = ["", "two words", "send-back", "1st", "né", "a" * 65, "a\0", " approve", None, 5, True, b"approve", []]


@pytest.mark.parametrize("name", UNUSABLE_NAMES, ids=ascii)
def test_a_name_that_can_stand_nowhere_is_refused(name: Any) -> None:
    with pytest.raises(InvalidApproval, match=r"name of an outcome|write a list"):
        read_outcomes([name])


UNUSABLE_PRESETS = ["No", [""], [5], None, [str(n) for n in range(10)]]


@pytest.mark.parametrize(
    "wrong",
    [{"tone": "red"}, {"label": 5}, {"requires_reason": "yes"}, *({"presets": one} for one in UNUSABLE_PRESETS)],
    ids=str,
)
def test_an_outcome_that_cannot_be_shown_is_refused(wrong: Any) -> None:
    with pytest.raises(InvalidApproval):
        Outcome("approve", **wrong)


def test_an_outcome_may_have_a_long_name_and_nine_presets() -> None:
    assert len(Outcome("a" * 64, presets=[str(n) for n in range(9)]).presets) == 9


@pytest.mark.parametrize("written", [(), "approve", Outcome("approve"), None, 5, ("approve", "approve")], ids=str)
def test_outcomes_are_a_list_of_different_ones(written: Any) -> None:
    with pytest.raises(InvalidApproval, match="outcomes="):
        read_outcomes(written)


def test_outcomes_are_frozen_as_json_and_read_back() -> None:
    outcomes = read_outcomes(
        ("approve", Outcome("reject", "No", presets=("Too dear",)), Outcome("later", tone="warning"))
    )
    stored = json.loads(json.dumps(dump_outcomes(outcomes)))
    assert load_outcomes(stored) == outcomes
    assert copy.deepcopy(outcomes) == pickle.loads(pickle.dumps(outcomes)) == outcomes
    with pytest.raises(FrozenInstanceError):
        outcomes[0].tone = "negative"  # type: ignore[misc]


def test_a_frozen_label_is_still_in_the_readers_language() -> None:
    with override("de"):
        stored = dump_outcomes([Outcome("approve"), Outcome("later", gettext_lazy("Yes"))])
    assert stored[0]["label"] == ""
    assert stored[1]["label"] == "Ja"


# Quorum

READABLE: list[tuple[Any, Quorum]] = [
    (1, Count(1)),
    (12, Count(12)),
    ("50%", Percent(50)),
    (" 1 % ", Percent(1)),
    ("100%", Percent(100)),
    ("all", All()),
    ({"legal": 1, "finance": "all"}, PerGroup((("finance", All()), ("legal", Count(1))))),
    ({"legal": "50%"}, PerGroup((("legal", Percent(50)),))),
    (Veto(2), Veto(2, ("reject",))),
    (Veto({"legal": 1}, ["reject"]), Veto({"legal": 1})),
    (Count(2), Count(2)),
    (PerGroup((("legal", All()),)), PerGroup((("legal", All()),))),
]


@pytest.mark.parametrize(("written", "rule"), READABLE, ids=lambda one: str(one)[:40])
def test_a_quorum_is_read_frozen_and_read_back(written: Any, rule: Quorum) -> None:
    outcomes = read_outcomes(("approve", "reject"))
    assert read_quorum(written, outcomes) == rule
    assert load_quorum(json.loads(json.dumps(rule.dump()))) == rule
    assert hash(rule) == hash(pickle.loads(pickle.dumps(rule)))
    assert rule.describe(outcomes).endswith(".")


UNREADABLE = [0, -1, 1.5, True, "2", "0%", "101%", "50", "1.5%", "ALL", "", None, [], {}, {"": 1}, {5: 1}, {"a": 0}]
UNREADABLE += [{"a": {"b": 1}}, {"a": Veto(1)}, Count(0), Percent(0), PerGroup(()), b"all", object()]


@pytest.mark.parametrize("written", UNREADABLE, ids=lambda one: str(one)[:20])
def test_a_quorum_nobody_can_reach_or_read_is_refused(written: Any) -> None:
    with pytest.raises(InvalidApproval, match="quorum="):
        read_quorum(written)


def test_a_veto_is_for_outcomes_that_there_are() -> None:
    with pytest.raises(InvalidApproval, match="reject is not among the outcomes \\(approve, refuse\\)"):
        read_quorum(Veto(2), read_outcomes(("approve", "refuse")))
    for wrong in ["reject", (), ("reject", "reject"), (5,), None]:
        with pytest.raises(InvalidApproval):
            Veto(2, wrong)  # type: ignore[arg-type]
    with pytest.raises(InvalidApproval, match="another rule"):
        Veto(Veto(2))


@pytest.mark.parametrize(
    "stored", [{}, {"groups": 5}, {"veto": ["reject"]}, {"groups": {"a": 1}, "x": 1}, None, []], ids=str
)
def test_a_stored_quorum_that_nobody_wrote_is_refused(stored: Any) -> None:
    with pytest.raises(InvalidApproval, match=r"Quorum.dump wrote|write a number"):
        load_quorum(stored)


def test_a_group_may_be_an_object_with_a_name() -> None:
    @dataclass(frozen=True)
    class Group:
        name: str

    assert read_quorum({Group("legal"): 1}) == read_quorum({"legal": 1})
    with pytest.raises(InvalidApproval, match="twice"):
        read_quorum({Group("legal"): 1, "legal": 2})


def test_a_quorum_is_told_in_words() -> None:
    told = {
        1: "One answer decides.",
        2: "2 equal answers decide.",
        "50%": "Equal answers from 50% of those asked decide.",
        "all": "Everybody asked must give the same answer.",
    }
    for written, words in told.items():
        assert read_quorum(written).describe() == words
    groups = read_quorum({"A": 2, "B": "50%", "C": "all"})
    assert groups.describe() == "Equal answers decide: 2 from A, 50% from B and all from C."
    veto = Veto(2, ("reject", "send_back"))
    assert veto.describe().endswith("One “Reject” or “Send back” decides at once.")
    assert veto.describe([Outcome("reject", "No")]).endswith("One “No” or “Send back” decides at once.")


# Counting

YES_NO = read_outcomes(("approve", "reject"))
THREE = read_outcomes(("approve", "request_changes", "reject"))


def cast(votes: str, groups: Mapping[int, Iterable[str]] | None = None) -> list[Ballot]:
    """Ballots of the voters 0, 1, …: one letter each, a(pprove), c(hanges), r(eject); "-" has not voted."""
    names = {"a": "approve", "c": "request_changes", "r": "reject"}
    groups = groups or {}
    return [Ballot(n, names[one], frozenset(groups.get(n, ()))) for n, one in enumerate(votes) if one != "-"]


def count(rule: Any, votes: str, waiting: int, *, final: bool = False, outcomes: Any = THREE) -> tuple[str, str | None]:
    verdict = judge(read_quorum(rule), outcomes, cast(votes), Electorate(waiting), final=final)
    return verdict.state, verdict.outcome


COUNTED = [
    (1, "", 3, ("open", None)),
    (1, "a", 2, ("decided", "approve")),
    (1, "r", 2, ("decided", "reject")),
    (2, "ar", 1, ("open", None)),
    (2, "arc", 1, ("open", None)),
    (2, "arr", 0, ("decided", "reject")),
    (2, "acr", 0, ("lost", "reject")),
    (2, "aa", 5, ("decided", "approve")),
    ("50%", "a", 4, ("open", None)),
    ("50%", "aa", 3, ("open", None)),
    ("50%", "aaa", 2, ("decided", "approve")),
    ("50%", "aa", 2, ("decided", "approve")),
    ("1%", "a", 0, ("decided", "approve")),
    ("1%", "a", 199, ("open", None)),
    ("all", "r", 2, ("open", None)),
    ("all", "rr", 0, ("decided", "reject")),
    ("all", "ar", 5, ("lost", "reject")),
    ("all", "", 0, ("open", None)),
    (Veto(3), "aar", 5, ("decided", "reject")),
    (Veto(3), "aac", 5, ("open", None)),
    (Veto("all"), "ac", 1, ("open", None)),  # whoever is left may still veto
    (Veto("all"), "ac", 0, ("lost", "reject")),
    (Veto(2, ("request_changes",)), "aac", 5, ("decided", "request_changes")),
    (Veto(1, ("reject", "request_changes")), "cr", 5, ("decided", "reject")),
]


@pytest.mark.parametrize(("rule", "votes", "waiting", "verdict"), COUNTED, ids=str)
def test_votes_are_counted(rule: Any, votes: str, waiting: int, verdict: Any) -> None:
    assert count(rule, votes, waiting) == verdict


def test_too_few_people_are_not_a_lost_vote_while_more_may_come() -> None:
    assert count(3, "a", 1) == ("open", None)
    assert count(3, "ar", 0) == ("open", None)
    assert count(3, "a", 1, final=True) == ("lost", "reject")
    assert judge(Count(3), YES_NO, cast("a"), Electorate(1)).short == 1
    # Enough people who disagree are lost, whoever may come.
    assert count(2, "ar", 0) == ("lost", "reject")
    # Nobody at all can be unanimous.
    assert count("all", "", 0, final=True) == ("lost", "reject")


def test_the_vote_of_somebody_who_left_stands_and_counts_as_one_of_all() -> None:
    # Three were asked; the first approved and left: the two others still have to, both.
    assert count("all", "aa", 1) == ("open", None)
    assert count("all", "aaa", 0) == ("decided", "approve")
    # Somebody who left without a vote is not waited for.
    assert count("all", "aa", 0) == ("decided", "approve")


def test_when_a_rule_has_shrunk_under_two_outcomes_the_cautious_one_wins() -> None:
    assert count("50%", "ar", 0, outcomes=YES_NO) == ("decided", "reject")
    assert count("30%", "aar", 0, outcomes=YES_NO) == ("decided", "approve")


GROUPS = {0: ["finance"], 1: ["legal"], 2: ["finance", "legal"], 3: ["finance"]}
IN_GROUPS = [
    ({"finance": 1, "legal": 1}, "a", {"legal": 1}, "open", None),
    ({"finance": 1, "legal": 1}, "aa", {}, "decided", "approve"),
    ({"finance": 1, "legal": 1}, "ar", {}, "lost", "reject"),
    ({"finance": 1, "legal": 1}, "ar", {"finance": 1}, "open", None),
    ({"finance": 1, "legal": 1}, "--a", {}, "decided", "approve"),  # in both, counts in both
    ({"finance": 2, "legal": 1}, "aa", {}, "open", None),  # finance is short of one
    ({"finance": "all"}, "a--r", {"finance": 1}, "lost", "reject"),
    ({"finance": "all"}, "a", {"finance": 1}, "open", None),
    ({"finance": "50%", "legal": "all"}, "aa", {"finance": 1}, "decided", "approve"),
    ({"board": 1}, "aar", {}, "open", None),  # none of them is of the board
    (Veto({"finance": 1, "legal": 1}), "a--r", {"legal": 1}, "decided", "reject"),
]


@pytest.mark.parametrize(("rule", "votes", "by_group", "state", "outcome"), IN_GROUPS, ids=str)
def test_votes_are_counted_by_group(rule: Any, votes: str, by_group: Any, state: str, outcome: str | None) -> None:
    electorate = Electorate(sum(by_group.values()), by_group)
    verdict = judge(read_quorum(rule), YES_NO, cast(votes, GROUPS), electorate)
    assert (verdict.state, verdict.outcome) == (state, outcome)


def test_a_verdict_tells_its_figures() -> None:
    verdict = judge(read_quorum("50%"), YES_NO, cast("aar"), Electorate(4))
    assert (verdict.needed, verdict.short, verdict.find_missing("approve"), verdict.find_missing("reject")) == (
        4,
        0,
        2,
        3,
    )
    assert dump_verdict(verdict) == {
        "state": "open", "outcome": None, "by": "", "counts": {"approve": 2, "reject": 1}, "needed": 4, "people": 7,
    }  # fmt: skip
    by_group = judge(
        read_quorum({"finance": 2, "legal": "all"}), YES_NO, cast("aa", GROUPS), Electorate(1, {"finance": 1})
    )
    assert (by_group.needed, by_group.find_missing("approve"), by_group.find_missing("reject")) == (3, 1, 2)
    assert json.loads(json.dumps(dump_verdict(by_group)))["groups"]["finance"] == {
        "counts": {"approve": 1, "reject": 0}, "needed": 2, "people": 2,
    }  # fmt: skip


def test_nothing_is_missing_once_it_is_decided() -> None:
    assert judge(Count(2), YES_NO, cast("aaa"), Electorate(0)).find_missing("approve") == 0


def test_ballots_that_cannot_be_are_refused() -> None:
    with pytest.raises(VotedTwice, match="'ana' has two ballots"):
        judge(Count(1), YES_NO, [Ballot("ana", "approve"), Ballot("ana", "reject")], Electorate(0))
    with pytest.raises(UnknownOutcome, match="choose one of approve, reject"):
        judge(Count(1), YES_NO, [Ballot("ana", "maybe")], Electorate(0))
    for wrong in [(-1, {}), (0, {"legal": -1})]:
        with pytest.raises(InvalidApproval, match="electorate="):
            Electorate(*wrong)


def test_an_electorate_is_counted_from_people_at_hand() -> None:
    found = count_electorate(iter("abc"), voted=["c", "z"], groups={"legal": "ac", "board": "z"})
    assert found == Electorate(2, {"legal": 1, "board": 0})


# Counting, against an oracle that tries everything


@dataclass(frozen=True)
class World:
    """A small world: who is in which group, who has voted for what; the others (None) still may."""

    rule: Quorum
    outcomes: tuple[Outcome, ...]
    groups: tuple[frozenset[str], ...]
    votes: tuple[str | None, ...]

    def judge(self, *, final: bool = True) -> Verdict:
        waiting = [groups for vote, groups in zip(self.votes, self.groups, strict=True) if vote is None]
        by_group = {name: sum(name in groups for groups in waiting) for name in ("x", "y")}
        return judge(self.rule, self.outcomes, self.ballots(), Electorate(len(waiting), by_group), final=final)

    def ballots(self) -> list[Ballot]:
        voted = zip(self.votes, self.groups, strict=True)
        return [Ballot(n, vote, groups) for n, (vote, groups) in enumerate(voted) if vote is not None]

    def completions(self) -> Iterable["World"]:
        names = [None, *(one.name for one in self.outcomes)]
        for votes in product(*(names if vote is None else [vote] for vote in self.votes)):
            yield replace(self, votes=votes)

    def find_reached(self) -> set[str]:
        """Which outcomes the rule allows by what has been voted, as the words of the rule say it."""
        rule, vetoes = (self.rule.rule, self.rule.outcomes) if isinstance(self.rule, Veto) else (self.rule, ())
        if vetoed := set(vetoes) & set(self.votes):
            return {str(name) for name in vetoed}
        if not isinstance(rule, PerGroup):
            return {one.name for one in self.outcomes if _holds(rule, one.name, self.votes)}
        of = {
            name: [vote for vote, groups in zip(self.votes, self.groups, strict=True) if name in groups]
            for name, _ in rule.rules
        }
        return {
            one.name for one in self.outcomes if all(_holds(inner, one.name, of[name]) for name, inner in rule.rules)
        }


def _holds(rule: Any, outcome: str, votes: Iterable[str | None]) -> bool:
    everybody = list(votes)
    equal = sum(vote == outcome for vote in everybody)
    if isinstance(rule, All):
        return bool(everybody) and equal == len(everybody)
    if isinstance(rule, Percent):
        return equal > 0 and Fraction(equal, len(everybody)) >= Fraction(rule.share, 100)
    return equal >= rule.votes


PLAIN: list[Any] = [1, 2, 3, "1%", "34%", "50%", "67%", "all", {"x": 1, "y": 1}, {"x": "all", "y": 2}, {"x": "50%"}]
RULES = [read_quorum(one) for one in [*PLAIN, Veto(2), Veto("all"), Veto({"x": 1, "y": "all"})]]
MEMBERS = [frozenset("x"), frozenset("y"), frozenset("xy"), frozenset[str]()]


def check_world(world: World) -> None:
    verdict, reached = world.judge(), world.find_reached()
    if reached:
        assert verdict.state == "decided"
        assert verdict.outcome in reached
    elif any(one.find_reached() for one in world.completions()):
        assert (verdict.state, verdict.outcome) == ("open", None)
    else:
        assert (verdict.state, verdict.outcome) == ("lost", world.outcomes[-1].name)


@pytest.mark.parametrize("rule", RULES, ids=str)
@pytest.mark.parametrize(("outcomes", "people"), [(YES_NO, 4), (THREE, 3)], ids=["two", "three"])
def test_every_small_world_is_judged_as_by_trying_everything(rule: Quorum, outcomes: Any, people: int) -> None:
    names = [None, *(one.name for one in outcomes)]
    for size in range(people + 1):
        members = tuple(MEMBERS[:size])
        for votes in product(names, repeat=size):
            check_world(World(rule, outcomes, members, votes))


plain_rules = st.one_of(st.integers(1, 6), st.integers(1, 100).map("{}%".format), st.just("all"))
rules = st.one_of(plain_rules, st.dictionaries(st.sampled_from("xy"), plain_rules, min_size=1))
any_rules = st.one_of(rules, rules.map(Veto), rules.map(lambda one: Veto(one, ("request_changes", "reject")))).map(
    read_quorum
)


@st.composite
def worlds(draw: st.DrawFn, people: int = 8) -> World:
    size = draw(st.integers(0, people))
    names = st.sampled_from([None, *(one.name for one in THREE)])
    groups = draw(st.lists(st.sampled_from(MEMBERS), min_size=size, max_size=size))
    votes = draw(st.lists(names, min_size=size, max_size=size))
    return World(draw(any_rules), THREE, tuple(groups), tuple(votes))


@given(worlds(people=5))
def test_any_world_is_judged_as_by_trying_everything(world: World) -> None:
    check_world(world)


@given(worlds(), st.randoms())
def test_the_order_of_votes_does_not_matter(world: World, random: Any) -> None:
    ballots, electorate = world.ballots(), Electorate(2, {"x": 1, "y": 2})
    shuffled = random.sample(ballots, len(ballots))
    assert judge(world.rule, THREE, ballots, electorate) == judge(world.rule, THREE, shuffled, electorate)


@given(worlds(), st.permutations([one.name for one in THREE]))
def test_no_outcome_is_easier_to_reach_than_another(world: World, names: list[str]) -> None:
    rule = world.rule.rule if isinstance(world.rule, Veto) else world.rule
    other = dict(zip([one.name for one in THREE], names, strict=True))
    renamed = replace(world, rule=rule, votes=tuple(vote and other[vote] for vote in world.votes))
    assert renamed.judge().state == replace(world, rule=rule).judge().state


@given(worlds(), st.sampled_from(MEMBERS), st.booleans())
def test_what_is_decided_stays_decided_when_equal_votes_follow(world: World, groups: Any, final: bool) -> None:
    verdict = world.judge(final=final)
    if verdict.state != "decided":
        return
    voices = [n for n, vote in enumerate(world.votes) if vote is None]
    followed = [
        replace(world, votes=tuple(verdict.outcome if n == one else v for n, v in enumerate(world.votes)))
        for one in voices
    ]
    joined = replace(world, groups=(*world.groups, groups), votes=(*world.votes, verdict.outcome))
    for later in [*followed, joined]:
        assert (later.judge(final=final).state, later.judge(final=final).outcome) == ("decided", verdict.outcome)


@given(worlds(people=5), st.booleans())
def test_what_is_lost_stays_lost_however_the_others_vote(world: World, final: bool) -> None:
    if world.judge(final=final).state == "lost":
        assert all(later.judge(final=final).state == "lost" for later in world.completions())


@given(worlds())
def test_an_open_vote_needs_no_fewer_votes_when_more_people_come(world: World) -> None:
    joined = replace(world, groups=(*world.groups, frozenset("xy")), votes=(*world.votes, None))
    before, after = world.judge(), joined.judge()
    assert after.needed >= before.needed
    assert before.state == "decided" or after.state != "decided"


@given(worlds(people=5))
def test_people_who_may_still_join_only_matter_where_some_are_missing(world: World) -> None:
    final, open_ended = world.judge(), world.judge(final=False)
    if final.state != "lost" or not final.short:
        assert open_ended == final
        return
    newcomers = [
        groups
        for tally in final.tallies
        if tally.short
        for groups in [frozenset([tally.group]) & frozenset("xy")] * tally.needed
    ]
    joined = replace(world, groups=(*world.groups, *newcomers), votes=(*world.votes, *[None] * len(newcomers)))
    can_veto = isinstance(world.rule, Veto)
    if not can_veto:
        assert open_ended.state == joined.judge().state


# Who may

CAREFUL = Rules(outcomes=THREE, risk="high", reauthenticate=True, who="Lena Fischer or anyone else in Finance")
CANDIDATE = Facts(is_candidate=True)
DONE_RIGHT = Attempt(outcome="approve", reason="Checked", saw_diff=True, has_reauthenticated=True)
#: For each rule, what makes it forbid, and nothing else.
BREAKS: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "closed": ({"is_open": False}, {}),
    "grace": ({"in_grace": True}, {}),
    "not_candidate": ({"is_candidate": False}, {}),
    "requester": ({"is_requester": True}, {}),
    "decided_before": ({"decided_earlier_stage": True}, {}),
    "voted": ({"voted_before": True}, {}),
    "claimed": ({"claimed_by_other": True}, {}),
    "unknown_outcome": ({}, {"outcome": "maybe"}),
    "stale": ({}, {"is_current": False}),
    "high_risk_bulk": ({}, {"via_bulk": True}),
    "high_risk_key": ({}, {"single_key": True}),
    "high_risk_diff": ({}, {"saw_diff": False}),
    "reauthenticate": ({}, {"has_reauthenticated": False}),
    "reason_required": ({}, {"reason": " \n"}),
}


def break_rules(names: Iterable[str]) -> tuple[Facts, Attempt]:
    facts, attempt = CANDIDATE, DONE_RIGHT
    for name in names:
        facts, attempt = replace(facts, **BREAKS[name][0]), replace(attempt, **BREAKS[name][1])
    return facts, attempt


def test_a_candidate_who_does_everything_right_may() -> None:
    assert find_obstacle(CAREFUL, CANDIDATE, DONE_RIGHT) is None
    assert check_decision(CAREFUL, CANDIDATE, DONE_RIGHT) == Outcome("approve")
    assert tuple(BREAKS) == ORDER


@pytest.mark.parametrize("name", ORDER)
def test_each_rule_forbids_alone(name: str) -> None:
    facts, attempt = break_rules([name])
    assert [one.rule for one in list_obstacles(CAREFUL, facts, attempt)] == [name]
    with pytest.raises(DecisionRefused) as refused:
        check_decision(CAREFUL, facts, attempt)
    obstacle = find_obstacle(CAREFUL, facts, attempt)
    assert obstacle is not None
    assert len(obstacle.message) > 20
    assert obstacle.message.endswith(".")
    if isinstance(refused.value, NotAllowed):
        assert refused.value.obstacle == obstacle
        assert str(refused.value) == obstacle.message


@pytest.mark.parametrize(("first", "second"), list(combinations(ORDER, 2)))
def test_of_two_rules_the_earlier_in_order_is_named(first: str, second: str) -> None:
    obstacle = find_obstacle(CAREFUL, *break_rules([second, first]))
    assert obstacle is not None
    assert obstacle.rule == first


def test_all_that_is_missing_can_be_listed_in_order() -> None:
    facts, attempt = break_rules(one for one in ORDER if one != "unknown_outcome")
    assert [one.rule for one in list_obstacles(CAREFUL, facts, attempt)] == [n for n in ORDER if n != "unknown_outcome"]
    # Without an attempt only the person is asked about, as for a button.
    assert [one.rule for one in list_obstacles(CAREFUL, facts)] == list(ORDER[: ORDER.index("claimed") + 1])


@given(st.fixed_dictionaries({name: st.booleans() for name in ORDER}))
def test_whatever_comes_together_the_order_is_kept(broken: dict[str, bool]) -> None:
    facts, attempt = break_rules(name for name in ORDER if broken[name])
    found = [one.rule for one in list_obstacles(CAREFUL, facts, attempt)]
    # What to write as a reason depends on the outcome, so an unknown one is not asked for it.
    hidden = {"reason_required"} if broken["unknown_outcome"] else set()
    assert found == [name for name in ORDER if broken[name] and name not in hidden]


def test_without_four_eyes_requester_and_earlier_deciders_may() -> None:
    facts = replace(CANDIDATE, is_requester=True, decided_earlier_stage=True)
    rules = Rules(outcomes=YES_NO, four_eyes=False)
    assert find_obstacle(rules, facts, Attempt(outcome="approve")) is None
    assert describe_four_eyes(rules) == ""
    assert "no requester is excluded" in describe_four_eyes(Rules(outcomes=YES_NO))
    assert "Ben Okafor" in describe_four_eyes(Rules(outcomes=YES_NO, requester="Ben Okafor"))


def test_a_stranger_may_nothing_and_a_stand_in_may() -> None:
    rules = Rules(outcomes=YES_NO)
    assert find_obstacle(rules, Facts()).rule == "not_candidate"  # type: ignore[union-attr]
    assert find_obstacle(rules, Facts(on_absence=True)) is None
    assert find_obstacle(rules, Facts(on_absence=True, is_requester=True)).rule == "requester"  # type: ignore[union-attr]


@pytest.mark.parametrize("risk", ["low", "medium"])
def test_below_high_risk_bulk_keys_and_unseen_changes_are_fine(risk: Any) -> None:
    rules = Rules(outcomes=YES_NO, risk=risk, reauthenticate=True)
    assert find_obstacle(rules, CANDIDATE, Attempt(outcome="approve", via_bulk=True, single_key=True)) is None
    automated = replace(CANDIDATE, is_automated=True)
    assert find_obstacle(rules, automated, Attempt(outcome="approve")) is None


def test_no_program_decides_what_is_of_high_risk() -> None:
    found = list_obstacles(CAREFUL, replace(CANDIDATE, is_automated=True), DONE_RIGHT)
    assert [one.rule for one in found] == ["high_risk_diff", "reauthenticate"]
    assert "Lena Fischer or anyone else in Finance can." in found[0].message


@pytest.mark.parametrize("name", ["reject", "request_changes"])
def test_saying_no_to_high_risk_needs_a_reason_but_no_password(name: str) -> None:
    assert find_obstacle(CAREFUL, CANDIDATE, Attempt(outcome=name, reason="Wrong IBAN")) is None
    assert find_obstacle(CAREFUL, CANDIDATE, Attempt(outcome=name)).rule == "reason_required"  # type: ignore[union-attr]
    bulk = Attempt(outcome=name, reason="Wrong IBAN", via_bulk=True)
    assert find_obstacle(CAREFUL, CANDIDATE, bulk).rule == "high_risk_bulk"  # type: ignore[union-attr]


def test_nothing_is_taken_as_done_that_nobody_said() -> None:
    found = list_obstacles(CAREFUL, CANDIDATE, Attempt(outcome="approve"))
    assert [one.rule for one in found] == ["high_risk_diff", "reauthenticate", "reason_required"]
    optional = replace(CAREFUL, reauthenticate=Rules(outcomes=()).reauthenticate)
    assert find_obstacle(optional, CANDIDATE, replace(DONE_RIGHT, has_reauthenticated=False)) is None


def test_a_red_button_that_does_something_is_not_a_no() -> None:
    delete, keep = Outcome("delete", tone="negative"), Outcome("keep")
    rules = Rules(outcomes=(delete, keep), risk="high")
    assert find_obstacle(rules, CANDIDATE, Attempt(outcome="delete", reason="x")).rule == "high_risk_diff"  # type: ignore[union-attr]
    assert find_obstacle(rules, CANDIDATE, Attempt(outcome="keep", reason="x")) is None
    only = Rules(outcomes=(Outcome("acknowledge"),), risk="high")
    assert find_obstacle(only, CANDIDATE, Attempt(outcome="acknowledge", reason="x")).rule == "high_risk_diff"  # type: ignore[union-attr]


def test_a_refusal_says_which_rule_and_who_can() -> None:
    told = find_obstacle(CAREFUL, replace(CANDIDATE, is_requester=True))
    assert told is not None
    assert told.message == (
        "You can’t decide because you asked for this (four eyes). Lena Fischer or anyone else in Finance can."
    )
    at = datetime(2026, 7, 14, 8, 43, tzinfo=UTC)
    now = at + timedelta(days=1)
    closed = replace(CANDIDATE, is_open=False, decided=Decided("Ana Ruiz", at, "approve", now=now))
    with timezone.override("Europe/Berlin"):
        assert find_obstacle(CAREFUL, closed).message == (  # type: ignore[union-attr]
            "Ana Ruiz has decided this already: “Approve”, yesterday at 10:43."
        )
    closed = replace(CANDIDATE, is_open=False, decided=Decided("Ana Ruiz", at, "approve"))
    assert find_obstacle(CAREFUL, closed).message == (  # type: ignore[union-attr]
        "Ana Ruiz has decided this already: “Approve”."
    )
    grace = replace(CANDIDATE, in_grace=True, decided=Decided("Ana Ruiz", at, "reject", until=at.replace(second=8)))
    assert find_obstacle(CAREFUL, grace).message == (  # type: ignore[union-attr]
        "Ana Ruiz is deciding this: “Reject”. It can be undone until 08:43:08."
    )
    with timezone.override("Europe/Berlin"):
        assert "until 10:43:08." in find_obstacle(CAREFUL, grace).message  # type: ignore[union-attr]
    claimed = replace(CANDIDATE, claimed_by_other=True, claimed_by="Jon Park")
    assert "Jon Park has claimed this" in find_obstacle(CAREFUL, claimed).message  # type: ignore[union-attr]


def test_each_refusal_has_a_type_with_what_a_page_needs() -> None:
    at = datetime(2026, 7, 14, 8, 43, tzinfo=UTC)
    closed = replace(CANDIDATE, is_open=False, decided=Decided("Ana Ruiz", at, "approve"))
    with pytest.raises(AlreadyDecided, match="'approve', by Ana Ruiz, 2026-07-14 08:43 UTC") as decided:
        check_decision(CAREFUL, closed, DONE_RIGHT)
    assert (decided.value.by, decided.value.at, decided.value.outcome) == ("Ana Ruiz", at, "approve")
    difference = {"IBAN": ("DE12", "DE13")}
    with pytest.raises(Stale, match="changed since it was opened: IBAN") as stale:
        check_decision(CAREFUL, CANDIDATE, replace(DONE_RIGHT, is_current=False, difference=difference))
    assert stale.value.difference == difference
    with pytest.raises(UnknownOutcome) as unknown:
        check_decision(CAREFUL, CANDIDATE, replace(DONE_RIGHT, outcome="maybe"))
    assert unknown.value.known == ("approve", "request_changes", "reject")
    asking = (Outcome("approve"), Outcome("reject", requires_reason=True))
    with pytest.raises(ReasonRequired, match="'reject' needs a reason"):
        check_decision(Rules(outcomes=asking), CANDIDATE, Attempt(outcome="reject"))


def test_all_errors_are_one_tree_drawn_in_its_module() -> None:
    found = [one for one in vars(exceptions).values() if isinstance(one, type) and issubclass(one, Exception)]
    assert all(issubclass(one, ApprovalError) for one in found)
    assert exceptions.__doc__ is not None
    assert [one.__name__ for one in found if one.__name__ not in exceptions.__doc__] == []
