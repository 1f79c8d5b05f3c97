"""What an object's page and its messages say about proposals: what waits, for whom, and what is in each other's way.

Invariants owned: everything that came from people is escaped; the difference of the first few is shown; and however
many wait, the names of all who asked and are asked take one query for each kind.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.db import models
from django.http import HttpRequest
from django.urls import NoReverseMatch, reverse
from django.utils.html import format_html
from django.utils.safestring import SafeString
from django.utils.translation import gettext

from approvals.asking.approval import Approval
from approvals.people.person import Person
from approvals.people.principals import USER, describe_principals, list_users
from approvals.required.core.proposals import Proposal
from approvals.subjects.diff import FieldDiff, compare
from approvals.subjects.field_display import label_field
from approvals.subjects.reference import find_field
from workflows.wording.punctuation import join_list, join_or

#: Proposals whose difference is shown; the others are named.
SHOWN = 3


@dataclass(frozen=True, slots=True)
class ProposalRow:
    """One proposal that waits."""

    told: str
    since: datetime
    diff: tuple[FieldDiff, ...]
    #: Where it is looked at and decided; None for who may not.
    url: str | None


@dataclass(frozen=True, slots=True)
class Panel:
    """What stands above the fields of an object."""

    rule: str
    rows: tuple[ProposalRow, ...]
    more: int


def make_panel(
    pending: Sequence[Proposal], obj: models.Model | None, request: HttpRequest, site: str, rule: str
) -> Panel:
    """The panel of an object's page."""
    shown = pending[:SHOWN]
    names = _name_all(shown)
    rows = tuple(
        ProposalRow(
            _tell(one, names), one.instance.created_at, _compare(one, obj, request.user), _locate(one, request, site)
        )
        for one in shown
    )
    return Panel(rule, rows, len(pending) - len(shown))


def tell_proposed(made: Proposal, link: str) -> SafeString:
    """The message after Save."""
    told = gettext("Proposed, and not done yet: it waits for %(who)s.") % {"who": _join(made, _name_all([made]))}
    if not link:
        return format_html("{}", told)
    return format_html('{} <a href="{}">{}</a>', told, link, gettext("See how it stands"))


def tell_conflicts(made: Proposal, before: Iterable[Proposal], model: type[models.Model]) -> Iterator[str]:
    """A warning for each proposal that waits already and is in the way of this one."""
    others = [one for one in before if one.overlaps(made.do, made.values)]
    names = _name_all(others)
    for one in others:
        who = names[f"{USER}:{one.requester}"]
        if one.do == "delete":
            told = gettext("%(who)s has proposed to delete it. Once either is approved, the other one has to wait.")
            yield told % {"who": who}
            continue
        shared = [name for name in one.values if made.do == "delete" or name in made.values]
        labels = join_list(label_field(name, find_field(model, name)) for name in shared)
        told = gettext(
            "%(who)s has proposed a change of %(fields)s as well. Once either is approved, whoever decides the other "
            "one is shown what has changed."
        )
        yield told % {"who": who, "fields": labels}


def tell_nobody(made: Proposal, approval: Approval, requester: Any) -> Iterator[str]:
    """A warning where nobody could ever approve it."""
    asked = list_users(made.asked)
    if approval.four_eyes:
        asked = asked.exclude(pk=requester.pk)
    if not asked.exists():
        yield gettext("Nobody can approve it at the moment: of those asked, there is nobody but you.")


def _tell(one: Proposal, names: Mapping[str, str]) -> str:
    given = {"who": names[f"{USER}:{one.requester}"], "asked": _join(one, names)}
    if one.review is not None and one.review.effective_at is not None:
        return gettext("%(who)s asked for it, and it is being decided.") % given
    if one.do == "delete":
        return gettext("%(who)s has proposed to delete it: waiting for %(asked)s.") % given
    return gettext("%(who)s has proposed this change: waiting for %(asked)s.") % given


def _name_all(pending: Iterable[Proposal]) -> dict[str, str]:
    """What people call everybody who asked or is asked."""
    principals = [name for one in pending for name in (f"{USER}:{one.requester}", *one.asked)]
    wanted = list(dict.fromkeys(principals))
    return dict(zip(wanted, describe_principals(wanted), strict=True))


def _join(one: Proposal, names: Mapping[str, str]) -> str:
    told = [names[name] for name in one.asked]
    if len(told) > SHOWN:
        told[SHOWN:] = [gettext("others")]
    return join_or(told)


def _compare(one: Proposal, obj: models.Model | None, user: Person) -> tuple[FieldDiff, ...]:
    if obj is None or one.do != "change":
        return ()
    before: Any = obj if one.review is None else one.review.snapshot or {}
    return compare(before, one.values, model=type(obj), user=user)


def _locate(one: Proposal, request: HttpRequest, site: str) -> str | None:
    user: Any = request.user
    if one.review is None or not user.has_perm("holdpoint_approvals.view_review"):
        return None
    try:
        return reverse("admin:holdpoint_approvals_review_change", args=[one.review.pk], current_app=site)
    except NoReverseMatch:  # this site of the admin does not have them
        return None
