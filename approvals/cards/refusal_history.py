"""Refusals in the history: what somebody tried, and which rule forbade it, as others read it.

Invariant owned: the sentence that was said to that person speaks to them, and stands in nobody else's history.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from django.utils.translation import gettext

from approvals.cards.status import quote_outcome
from approvals.display.values import MAX_NAME, show_text
from approvals.reviews.case import Case
from approvals.rules.action_kinds import ACTION_KINDS


def tell_refusal(case: Case, data: Mapping[str, Any]) -> str:
    """What was tried and why it was refused, from a row of the ledger; it follows the name.

    >>> tell_refusal(case, {"outcome": "approve", "rule": "requester"})
    'tried to answer “Approve”, refused: own request (four eyes)'
    """
    tried = str(data.get("outcome", ""))
    given = {"tried": _tell_attempt(case, tried), "why": _tell_rule(tried, data)}
    return gettext("%(tried)s, refused: %(why)s") % given if given["why"] else gettext("%(tried)s, refused") % given


def _tell_attempt(case: Case, tried: str) -> str:
    if any(one.name == tried for one in case.outcomes):
        return gettext("tried to answer %(outcome)s") % {"outcome": quote_outcome(case, tried)}
    if tried in ACTION_KINDS:
        return str(ACTION_KINDS[tried].tried)
    return gettext("tried “%(what)s”") % {"what": show_text(tried, MAX_NAME)}


def _tell_rule(tried: str, data: Mapping[str, Any]) -> str:
    if data.get("rule") == "requester" and tried in ACTION_KINDS and ACTION_KINDS[tried].is_for_requester:
        return gettext("not theirs to do")
    words = {
        "closed": gettext("no longer waiting"),
        "AlreadyDecided": gettext("no longer waiting"),
        "grace": gettext("being decided"),
        "not_candidate": gettext("not among those asked"),
        "requester": gettext("own request (four eyes)"),
        "decided_before": gettext("decided an earlier stage (four eyes)"),
        "voted": gettext("had decided already"),
        "claimed": gettext("claimed by somebody else"),
        "permission": gettext("takes a permission of its own"),
        "UnknownOutcome": gettext("no such answer"),
        "Stale": gettext("changed since it was opened"),
        "high_risk_bulk": gettext("high risk, not together with others"),
        "high_risk_key": gettext("high risk, not by a single key"),
        "high_risk_diff": gettext("high risk, had not seen what changes"),
        "reauthenticate": gettext("high risk, without the password"),
        "ReasonRequired": gettext("without a reason"),
        "TooSoon": gettext("reminded a moment ago"),
        "DecisionFailed": gettext("could not be carried out"),
        "InvalidData": gettext("not filled in as asked"),
        "PolicyRefused": gettext("against the rules of this site"),
    }
    return words.get(str(data.get("rule"))) or words.get(str(data.get("refused"))) or ""
