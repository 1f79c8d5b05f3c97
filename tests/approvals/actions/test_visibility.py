"""Whose reviews are whose: a list shows what may be decided, a look who has to do with it; and what both cost.

The random worlds compare two ways of saying the same: `for_user` in SQL for a list, the rules of a decision in Python
for one review under its locks. To try a world again: SEED=123 pytest tests/approvals/actions/test_visibility.py
"""

from __future__ import annotations

import contextlib
import itertools
import os
import pickle
import random
from collections.abc import Callable, Iterator
from datetime import timedelta
from typing import Any
from uuid import UUID

import pytest
from django.contrib.auth.models import AnonymousUser, Group, Permission, User
from django.contrib.contenttypes.models import ContentType
from django.db.models import Count, Exists, F, Max, OuterRef, Q

import workflows
from approvals import ApprovalError, candidates, claim, decide, delegate, reassign, release, snooze, undo
from approvals.cards.case_query import load_case
from approvals.models import Review
from approvals.people import principals
from approvals.people.viewer import Viewer
from approvals.reviews.case import Case
from approvals.reviews.permissions import Permissions, sees
from tests.support.review_calls import (
    ask,
    ask_all,
    count_statements,
    grant,
    make_absent,
    make_person,
    start,
    truth,  # noqa: F401 (a fixture)
)
from workflows.clock import read_now
from workflows.models import Instance, Interaction, Workspace
from workflows.rest.base.lists import Segment, find_page
from workflows.testing import advance

pytestmark = pytest.mark.django_db

BY_DUE = (
    Segment(("due_at", "pk"), Q(due_at__isnull=False)),
    Segment(("pk",), Q(due_at__isnull=True), same=("due_at",)),
)


@pytest.fixture(autouse=True)
def own_rules() -> Iterator[None]:
    """What a test registers is gone with it."""
    known = {**principals._rules}
    yield
    principals._rules.clear()
    principals._rules.update(known)


def list_for(user: User, **options: Any) -> list[Review]:
    """As a request lists them: of a user that was loaded for it."""
    return list(Review.objects.for_user(User.objects.get(pk=user.pk), **options))


def make_permission(codename: str) -> Permission:
    kind = ContentType.objects.get_for_model(User)
    return Permission.objects.get_or_create(content_type=kind, codename=codename, defaults={"name": codename})[0]


# --- the list and the rules agree -----------------------------------------------------------------------------


class World:
    """People, groups, permissions, rules and workspaces, in which anything may happen."""

    def __init__(self, seed: int) -> None:
        self.dice = random.Random(seed)
        slugs = ["default", *(["acme", "zoo"] if self.dice.random() < 0.7 else [])]
        self.workspaces = [Workspace.objects.get_or_create(slug=slug, defaults={"name": slug})[0] for slug in slugs]
        self.groups = [Group.objects.create(name=f"group {n}") for n in range(4)]
        self.permissions = [make_permission(f"perm.{n}") for n in range(3)]
        self.users = [self._make_user(n) for n in range(10)]
        self.reviews: list[UUID] = []
        candidates("evens")(lambda: User.objects.filter(first_name__endswith="0").order_by("username"))
        candidates("first_three")(lambda: User.objects.order_by("username")[:3])
        candidates("either")(lambda: User.objects.filter(username="u1").union(User.objects.filter(username="u2")))

    def _make_user(self, n: int) -> User:
        user = make_person(f"u{n}", is_superuser=n == 9)
        user.first_name = f"U{n % 2}"
        user.save()
        user.groups.set(self.some(self.groups, 2))
        user.user_permissions.set(self.some(self.permissions, 1))
        for one in self.workspaces:
            if self.dice.random() < 0.75:
                one.members.add(user)
        return user

    def some(self, items: list[Any], most: int) -> list[Any]:
        return self.dice.sample(items, self.dice.randint(0, most))

    def someone(self) -> User:
        return User.objects.get(pk=self.dice.choice(self.users).pk)

    def any_review(self) -> Review:
        found: Review = Review.objects.get(pk=self.dice.choice(self.reviews))
        return found

    # What can happen.

    def open_one(self) -> None:
        stages = [self._choose() for _ in range(self.dice.choice([1, 1, 2]))]
        with workflows.workspace(self.dice.choice(self.workspaces).slug):
            instance = start(*stages, actor=self.someone() if self.dice.random() < 0.4 else "")
        self.reviews += Review.objects.filter(instance=instance).values_list("pk", flat=True)

    def _choose(self) -> dict[str, Any]:
        options: dict[str, Any] = {
            "assignees": self.some(self.users, 3),
            "groups": [one.name for one in self.some(self.groups, 2)],
            "four_eyes": self.dice.random() < 0.7,
        }
        if self.dice.random() < 0.3:
            options["permission"] = f"auth.{self.dice.choice(self.permissions).codename}"
        if self.dice.random() < 0.3:
            options["candidates"] = self.dice.choice(["evens", "first_three", "either"])
        if self.dice.random() < 0.5:
            options["requester"] = self.someone()
        if self.dice.random() < 0.5:
            options["due"] = f"{self.dice.randint(1, 9)}h"
        several = options["groups"] or "permission" in options or "candidates" in options
        options["quorum"] = self.dice.choice([1, 2, "all", "60%"]) if several else 1
        return options

    def close_or_count(self) -> None:
        review = self.any_review()
        decide(review, self.dice.choice(["approve", "reject"]), actor=self.someone(), grace=self.dice.random() < 0.3)

    def follow_up(self) -> None:
        """What has been decided may have led to another stage."""
        advance("10s")
        known = Review.objects.values_list("pk", flat=True)
        self.reviews += [pk for pk in known if pk not in self.reviews]

    def take_back(self) -> None:
        undo(self.any_review(), actor=self.someone())

    def take(self) -> None:
        claim(self.any_review(), actor=self.someone())

    def let_go(self) -> None:
        release(self.any_review(), actor=self.someone())

    def hand_on(self) -> None:
        delegate(self.any_review(), to=self.someone(), actor=self.someone())

    def ask_others(self) -> None:
        boss = grant(self.someone(), "reassign_review")
        keep = self.dice.random() < 0.5
        reassign(
            self.any_review(), users=self.some(self.users, 2), groups=self.some(self.groups, 1), keep=keep, actor=boss
        )

    def put_aside(self) -> None:
        snooze(self.any_review(), until=read_now() + timedelta(hours=self.dice.choice([1, 5])), actor=self.someone())

    def go_away(self) -> None:
        user, other = self.someone(), self.someone()
        if user == other:
            return
        since = read_now() + timedelta(hours=self.dice.choice([-2, -1, 2]))
        make_absent(
            user,
            other,
            since=since,
            until=self.dice.choice([None, since + timedelta(minutes=30), since + timedelta(hours=50)]),
            workspace=self.dice.choice([None, None, *self.workspaces]),
            workflows=self.dice.choice([None, None, [], ["approving.ask"], ["another"]]),
        )

    def join_or_leave(self) -> None:
        user, group = self.someone(), self.dice.choice(self.groups)
        (user.groups.remove if self.dice.random() < 0.5 else user.groups.add)(group)

    def gain_or_lose(self) -> None:
        holder = self.dice.choice([self.someone(), self.dice.choice(self.groups)])
        held = holder.user_permissions if isinstance(holder, User) else holder.permissions
        (held.remove if self.dice.random() < 0.5 else held.add)(self.dice.choice(self.permissions))

    def come_or_go(self) -> None:
        members = self.dice.choice(self.workspaces).members
        (members.remove if self.dice.random() < 0.3 else members.add)(self.someone())

    def lock_out(self) -> None:
        user = self.dice.choice(self.users)
        User.objects.filter(pk=user.pk).update(is_active=self.dice.random() < 0.7)

    def happen(self) -> None:
        """One thing or another; what is refused did not."""
        deeds = [self.close_or_count] * 4 + [self.follow_up, self.take_back, self.take, self.take, self.let_go]
        deeds += [self.hand_on] * 4 + [self.ask_others, self.put_aside, self.go_away, self.go_away]
        deeds += [self.join_or_leave, self.gain_or_lose, self.come_or_go, self.lock_out, self.open_one]
        with contextlib.suppress(ApprovalError):
            self.dice.choice(deeds)()

    # What must hold.

    def check(self, turn: int) -> tuple[int, int]:
        """How many pairs of a person and a review were compared, and of how many the person may decide.

        All people share the case of a review, as it stays what it is; in all turns each pair's page is loaded once.
        What narrows a list is asked of the viewer, whose whole list is that of the user.
        """
        pairs = found = 0
        cases = {id: Case(Review.objects.get(pk=id)) for id in self.reviews}
        places = dict(Review.objects.values_list("pk", "workspace_id"))  # of later stages, too
        for place, user in enumerate(User.objects.filter(pk__in=[one.pk for one in self.users]).order_by("pk")):
            viewer = Viewer(User.objects.get(pk=user.pk))
            listed = {one.pk for one in Review.objects.for_user(user, snoozed=None)}
            seen = {one.pk for one in Review.objects.visible_to(viewer)}
            for n, (id, case) in enumerate(cases.items(), place + turn):
                obstacle = Permissions(case, user).find_obstacle("decide")
                told = f"{user.username}, review {id}: {obstacle}"
                assert (id in listed) is (obstacle is None), (
                    f"for_user says {id in listed}, decide says otherwise: {told}"
                )
                assert (id in seen) is sees(case, user), f"visible_to says {id in seen}, sees says otherwise: {told}"
                if n % TURNS:
                    continue
                loaded = load_case(id, viewer)
                assert (id in seen) is (loaded is not None)
                assert loaded is None or loaded.find_facts(user) == case.find_facts(user), told
            assert listed <= seen
            assert listed == {one.pk for one in Review.objects.for_user(viewer, snoozed=None)}
            awake, asleep = ({one.pk for one in Review.objects.for_user(viewer, snoozed=one)} for one in (False, True))
            assert (awake | asleep, awake & asleep) == (listed, set())
            for one in self.workspaces:
                part = {row.pk for row in Review.objects.for_user(viewer, workspace=one.pk, snoozed=None)}
                assert part == {row for row in listed if places[row] == one.pk}
            pairs, found = pairs + len(cases), found + len(listed)
        return pairs, found


TURNS = 3
SEEDS = [int(os.environ["SEED"])] if "SEED" in os.environ else [1, 2, random.randrange(10**9)]


@pytest.mark.parametrize("seed", SEEDS, ids=lambda seed: f"seed{seed}" if seed < 10 else "any")
def test_the_list_shows_what_may_be_decided_and_the_look_whom_it_concerns(seed: int) -> None:
    print(f"SEED={seed}")
    world = World(seed)
    for _ in range(8):
        world.open_one()
    may = 0
    for turn in range(TURNS):
        for _ in range(20):
            world.happen()
        may += world.check(turn)[1]
    assert may > 20, "nobody may decide anything in this world: it compares nothing"


# --- joining and leaving --------------------------------------------------------------------------------------


def test_whoever_joins_a_group_or_leaves_it_sees_that_at_once() -> None:
    ann = make_person("ann")
    finance = Group.objects.create(name="finance")
    review = ask(groups=["finance"])
    assert list_for(ann) == []
    ann.groups.add(finance)
    assert list(Review.objects.for_user(ann)) == [review]
    ann.groups.remove(finance)
    assert list(Review.objects.for_user(ann)) == []
    assert Permissions(Case(review), ann).find_obstacle("decide") is not None


def test_a_permission_that_is_given_or_taken_counts_at_once_also_for_who_is_at_hand() -> None:
    ann = make_person("ann")
    lead = Group.objects.create(name="lead")
    review = ask(permission="auth.change_group")
    assert list(Review.objects.for_user(ann)) == []
    assert not ann.has_perm("auth.change_group")  # which Django remembers at the object
    lead.permissions.add(Permission.objects.get(codename="change_group"))
    ann.groups.add(lead)
    assert list(Review.objects.for_user(ann)) == [review]
    lead.permissions.clear()
    assert list(Review.objects.for_user(ann)) == []


def test_a_rule_is_asked_anew_each_time() -> None:
    ann, ben = make_person("ann"), make_person("ben")
    candidates("on_call")(lambda: User.objects.filter(last_name="on call"))
    review = ask(candidates="on_call")
    assert (list_for(ann), list_for(ben)) == ([], [])
    User.objects.filter(pk=ben.pk).update(last_name="on call")
    assert (list_for(ann), list_for(ben)) == ([], [review])


def test_a_rule_that_fails_or_names_no_users_keeps_nobody_from_their_other_reviews(caplog: Any) -> None:
    ann = make_person("ann")
    review = ask(assignees=["ann"])
    candidates("broken")(lambda: 1 / 0)  # type: ignore[arg-type,return-value]
    candidates("groups")(lambda: Group.objects.all())
    candidates("nothing")(lambda: None)  # type: ignore[arg-type,return-value]
    assert list_for(ann) == [review]
    assert [name for name in ("broken", "groups", "nothing") if f"'{name}'" in caplog.text] == [
        "broken",
        "groups",
        "nothing",
    ]


def test_a_rule_that_is_no_longer_there_names_nobody_and_the_others_decide() -> None:
    ann = make_person("ann")
    candidates("gone")(lambda: User.objects.all())
    review = ask(candidates="gone", assignees=["ann"], quorum=1)
    del principals._rules["gone"]
    assert list_for(ann) == [review]
    assert decide(review, "approve", actor=ann).state == "decided"


def test_who_may_not_log_in_has_no_list() -> None:
    ann = make_person("ann", "finance")
    ask(assignees=["ann"], groups=["finance"])
    User.objects.filter(pk=ann.pk).update(is_active=False)
    assert list_for(ann) == []
    assert list(Review.objects.visible_to(User.objects.get(pk=ann.pk))) == []


def test_nobody_in_particular_has_no_list() -> None:
    ask(permission="auth.change_group")
    assert list(Review.objects.for_user(AnonymousUser())) == []
    assert list(Review.objects.visible_to(AnonymousUser())) == []


# --- it is a queryset like any other --------------------------------------------------------------------------


def make_many() -> tuple[User, list[Review]]:
    """Somebody who is asked under several names, some twice; and theirs, in the order in which they are due."""
    ann = make_person("ann", "finance", "legal")
    asked: list[dict[str, Any]] = [{"assignees": ["ann"]}, {"groups": ["finance"]}, {"groups": ["finance", "legal"]}]
    asked += [{"groups": ["legal"], "assignees": ["ann"]}, {"permission": "auth.change_group", "groups": ["finance"]}]
    ask_all(
        {**options, "due": f"{9 - n % 4}h" if n % 5 else None, "title": f"Request {n}", "risk": ["low", "high"][n % 2]}
        for n, options in enumerate(asked * 3)
    )
    ask(groups=["finance"], assignees=["ann"], requester="ann")
    ask(assignees=[make_person("ben")])
    found = Review.objects.filter(open=True, requester=None, candidates__principal=f"user:{ann.pk}")
    found |= Review.objects.filter(open=True, requester=None, candidates__principal__startswith="group:")
    return ann, list(found.distinct().by_due())


def test_the_list_can_be_filtered_ordered_paged_and_counted() -> None:
    ann, mine = make_many()
    rows = Review.objects.for_user(ann)
    plain = Review.objects.filter(pk__in=[one.pk for one in mine])
    assert list(rows) == list(rows.by_due()) == mine
    assert len(mine) == 15
    asked: list[Any] = [
        lambda rows: list(rows.by_due()),
        lambda rows: list(rows.by_due()[4:9]),
        lambda rows: list(rows.by_due().reverse()[:4]),
        lambda rows: list(rows.order_by("-due_at", "-pk")[:7]),
        lambda rows: list(rows.order_by("title")[:3]),
        lambda rows: list(rows.order_by("-created_at").filter(risk="high")),
        lambda rows: list(rows.filter(due_at__isnull=True).order_by("pk")),
        lambda rows: list(rows.exclude(due_at__isnull=True).by_due()),
        lambda rows: list(rows.filter(Q(due_at=mine[2].due_at) | Q(pk=mine[-1].pk)).by_due()),
        lambda rows: list(rows.filter(Q(due_at__gt=mine[3].due_at) | Q(risk="high")).by_due()),
        lambda rows: list(rows.filter(due_at__gte=F("created_at")).by_due()),
        lambda rows: list(rows.filter(interaction__channel="approval", instance__workflow="approving.ask").by_due()),
        lambda rows: list(rows.select_related("interaction", "instance").by_due().values_list("interaction__channel")),
        lambda rows: rows.count(),
        lambda rows: rows[:7].count(),
        lambda rows: rows.filter(risk="low")[:100].count(),
        lambda rows: rows.exists(),
        lambda rows: rows.filter(pk=mine[5].pk).exists(),
        lambda rows: rows.filter(pk__in=[mine[5].pk, mine[1].pk]).by_due().first(),
        lambda rows: rows.by_due().last(),
        lambda rows: rows.get(pk=mine[6].pk).title,
        lambda rows: list(rows.none()),
        lambda rows: sorted(rows.in_bulk([mine[0].pk, mine[3].pk])),
        lambda rows: rows.aggregate(Count("pk"), Max("due_at")),
        lambda rows: list(rows.order_by().values("risk").annotate(many=Count("pk")).order_by("risk")),
        lambda rows: list(
            rows.annotate(many=Count("candidates")).filter(many__gt=1).by_due().values_list("pk", "many")
        ),
        lambda rows: list(rows.filter(candidates__principal=f"user:{ann.pk}").by_due()),
        lambda rows: list(rows.dates("created_at", "year")),
        lambda rows: sorted(Review.objects.filter(pk__in=rows).values_list("pk")),
        lambda rows: Review.objects.exclude(pk__in=rows[:3]).filter(open=True).count(),
        lambda rows: sorted(rows.filter(risk="low").union(rows.filter(risk="high")).values_list("pk")),
        lambda rows: sorted((Review.objects.filter(risk="low") & rows).values_list("pk")),
        lambda rows: sorted((rows & Review.objects.filter(risk="low")).values_list("pk")),
        lambda rows: sorted((Review.objects.filter(pk=mine[0].pk) | rows.filter(risk="high")).values_list("pk")),
        lambda rows: sorted((rows.filter(risk="high") | Review.objects.filter(pk=mine[0].pk)).values_list("pk")),
        lambda rows: sorted((rows ^ Review.objects.filter(risk="low", open=True)).values_list("pk")),
        lambda rows: sorted((rows | rows).values_list("pk")),
        lambda rows: [one.pk for one in rows.by_due().iterator(chunk_size=2)],
        lambda rows: list(pickle.loads(pickle.dumps(rows.by_due()))),
        lambda rows: list(Instance.objects.filter(reviews__in=rows).order_by("pk")),
        lambda rows: list(
            Interaction.objects.annotate(mine=Exists(rows.filter(pk=OuterRef("pk")))).filter(mine=True).order_by("pk")
        ),
    ]
    for place, ask_both in enumerate(asked):
        assert ask_both(rows.all()) == ask_both(plain.all()), f"the {place}th is not the same"


def test_a_list_that_was_narrowed_before_or_after_is_narrowed() -> None:
    ann, mine = make_many()
    before = Review.objects.filter(risk="high", due_at__isnull=False).for_user(ann)
    after = Review.objects.for_user(ann).filter(risk="high", due_at__isnull=False)
    assert list(before) == list(after) == [one for one in mine if one.risk == "high" and one.due_at]
    assert 0 < len(before) < len(mine)


@pytest.mark.parametrize("size", [1, 4, 100])
def test_pages_by_place_show_each_review_once_in_both_directions(size: int) -> None:
    ann, mine = make_many()
    rows = Review.objects.for_user(ann)
    there: list[str] = []
    place = None
    while True:
        page = find_page(rows, BY_DUE, place, size, write=lambda row: str(row.pk))
        there += page.rows
        if page.next is None:
            break
        place = page.next
    assert there == [str(one.pk) for one in mine]
    back = find_page(rows, BY_DUE, place, 1, write=lambda row: str(row.pk)).previous if place else None
    seen: list[str] = []
    while back is not None:
        page = find_page(rows, BY_DUE, back, size, write=lambda row: str(row.pk))
        seen = page.rows + seen
        back = page.previous
    assert seen == there[: len(seen)]
    assert place is None or len(seen) == len(there) - len(find_page(rows, BY_DUE, place, size, str).rows)


def test_what_is_put_aside_comes_back_by_itself() -> None:
    ann, mine = make_many()
    snooze(mine[0], until=read_now() + timedelta(hours=2), actor=ann)
    assert list_for(ann) == mine[1:]
    assert list_for(ann, snoozed=True) == mine[:1]
    assert list_for(ann, snoozed=None) == mine
    advance("3h")
    assert list_for(ann) == mine


def test_in_two_workspaces_a_list_is_of_both_or_of_one_and_of_no_other() -> None:
    ann = make_person("ann", "finance")
    made: dict[str, Review] = {}
    for slug in ("default", "acme", "zoo"):
        Workspace.objects.get_or_create(slug=slug, defaults={"name": slug})
        with workflows.workspace(slug):
            made[slug] = ask(groups=["finance"])
    workspaces = {one.slug: one for one in Workspace.objects.all()}
    assert list_for(ann) == []
    for slug in ("acme", "zoo"):
        workspaces[slug].members.add(ann)
    assert list_for(ann) == [made["acme"], made["zoo"]]
    assert list_for(ann, workspace=workspaces["zoo"].pk) == [made["zoo"]]
    assert list_for(ann, workspace=workspaces["default"].pk) == []
    assert list_for(ann, workspace=10**6) == []


# --- what it costs --------------------------------------------------------------------------------------------


def test_a_list_takes_six_statements_however_much_is_in_it() -> None:
    """Who she is: her workspaces; groups, rules and absences; permissions, by Django's own two statements. Then under
    which of her names something waits, and the list."""
    ann = make_person("ann")
    empty = count_statements(lambda: list(Review.objects.for_user(ann)))
    make_many_for(ann, groups=5, reviews=3)
    asked = count_statements(lambda: list(Review.objects.for_user(ann)))
    told = ["_workspace", "_absence", "_user_permissions", "_group_permissions", "LATERAL", "UNION ALL"]
    assert [(name, sql) for name, sql in zip(told, asked, strict=True) if name not in sql] == []
    assert len(empty) == len(asked) - 1  # nothing waits: no list is read


def test_a_viewer_pays_once_for_who_it_is_and_then_one_statement_for_each_list() -> None:
    ann, _ = make_many()
    viewer = Viewer(User.objects.get(pk=ann.pk))
    workspace = Workspace.objects.get().pk
    lists: list[Callable[[Any], Any]] = [
        lambda who: list(Review.objects.for_user(who)[:50]),
        lambda who: list(Review.objects.for_user(who, snoozed=True)),
        lambda who: list(Review.objects.for_user(who, workspace=workspace)),
        lambda who: Review.objects.for_user(who, snoozed=None)[:100].count(),
        lambda who: Review.objects.for_user(who).filter(risk="low").count(),
        lambda who: list(Review.objects.visible_to(who)[:5]),
    ]
    assert len(count_statements(lambda: lists[0](viewer))) == 6
    assert [len(count_statements(lambda one=one: one(viewer))) for one in lists] == [1] * len(lists)
    assert [one(viewer) for one in lists] == [one(User.objects.get(pk=ann.pk)) for one in lists]


def make_many_for(user: User, *, groups: int, reviews: int) -> None:
    names = [f"g{n}" for n in range(groups)]
    user.groups.add(*(Group.objects.create(name=name) for name in names))
    ask_all([{"groups": [name]} for name in names] * reviews)


def test_rules_are_asked_together_and_each_absence_adds_the_same() -> None:
    ann = make_person("ann")
    candidates("one")(lambda: User.objects.filter(username="ann"))
    alone = len(count_statements(lambda: list_for(ann)))
    for n in range(7):
        candidates(f"rule_{n}")(lambda: User.objects.filter(username="ann"))
    assert len(count_statements(lambda: list_for(ann))) == alone
    costs = [alone]
    for n in range(3):
        away = make_person(f"away{n}", "finance")
        make_absent(away, ann)
        costs.append(len(count_statements(lambda: list_for(ann))))
    added = [after - before for before, after in itertools.pairwise(costs)]
    # Who is away, all in one statement; then the workspaces of each, groups with rules, and permissions (two).
    assert added == [5, 4, 4]


def test_a_badge_takes_no_more_than_a_list() -> None:
    ann, _ = make_many()
    page = count_statements(lambda: list(Review.objects.for_user(ann)[:50]))
    badge = count_statements(lambda: Review.objects.for_user(ann)[:100].count())
    assert len(badge) == len(page)
