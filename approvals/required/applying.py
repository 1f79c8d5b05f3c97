"""Doing what was approved, in the deciding transaction: the built-in `on_decision`.

Invariants owned: only the first of an approval's outcomes does anything; where the object cannot take the change any
more, the decision is refused and nothing is recorded of it; the admin's history tells it in the requester's name, with
who approved.
"""

from __future__ import annotations

from typing import Any

from django.apps import apps
from django.conf import settings
from django.contrib.auth import get_user_model
from django.db import models
from django.db.models import ProtectedError, RestrictedError
from django.utils import translation
from django.utils.translation import gettext

from approvals.exceptions import DecisionFailed
from approvals.people.principals import name_person
from approvals.required.core.new_objects import make_addition
from approvals.required.core.proposal_seal import unseal
from approvals.required.core.proposals import load_kept_subject
from approvals.subjects.change import GONE, UNKNOWN, apply_change
from approvals.subjects.field_display import label_field
from approvals.subjects.reference import InvalidChange, find_field, is_known, load_subject
from workflows.definitions.decision import Answer
from workflows.models import Instance
from workflows.wording.messages import Reason, gettext_noop
from workflows.wording.punctuation import join_list


def apply_proposal(answer: Answer, instance: Instance) -> None:
    """Change, add or delete, once it is approved.

    >>> Approval("Change the price", subject=invoice, change={"amount": 5}, on_decision=apply_proposal).on_decision
    'approvals.required.applying:apply_proposal'
    """
    asked = unseal(instance)
    if answer.outcome != asked["applies"]:
        return
    if not is_known(asked["model"]):
        raise DecisionFailed(UNKNOWN)
    model: type[models.Model] = apps.get_model(asked["model"])
    try:
        if asked["do"] == "add":
            obj = make_addition(model, asked["values"])
            _log(asked, answer, obj, "add")
            return
        found = load_subject(load_kept_subject(asked["subject"]), lock=True)
        if found is None:
            raise DecisionFailed(GONE)
        if asked["do"] == "delete":
            _log(asked, answer, found, "delete")
            found.delete()
        else:
            _log(asked, answer, apply_change(found, asked["values"]), "change")
    except InvalidChange as error:
        raise DecisionFailed(error.reason) from error
    except (ProtectedError, RestrictedError) as error:
        raise DecisionFailed(Reason(gettext_noop("other objects still need it"))) from error


def _log(asked: dict[str, Any], answer: Answer, obj: models.Model, do: str) -> None:
    """A line of the object's history in the admin, where the site has one."""
    if not apps.is_installed("django.contrib.admin"):
        return
    from django.contrib.admin.models import ADDITION, CHANGE, DELETION, LogEntry
    from django.contrib.contenttypes.models import ContentType

    flags = {"add": ADDITION, "change": CHANGE, "delete": DELETION}
    with translation.override(settings.LANGUAGE_CODE):  # that of the site, not of whoever decides
        LogEntry.objects.create(
            user_id=get_user_model()._meta.pk.to_python(asked["requester"]),
            content_type=ContentType.objects.get_for_model(obj, for_concrete_model=False),
            object_id=str(obj.pk),
            object_repr=str(obj)[:200],
            action_flag=flags[do],
            change_message=_word(asked, answer, do),
        )


def _word(asked: dict[str, Any], answer: Answer, do: str) -> str:
    who = _name_deciders(answer)
    if do == "change":
        model = apps.get_model(asked["model"])
        labels = [label_field(name, find_field(model, name)) for name in asked["values"]]
        told = gettext("Changed %(fields)s; approved by %(who)s.")
        return told % {"fields": join_list(labels), "who": who}
    told = gettext("Added; approved by %(who)s.") if do == "add" else gettext("Deleted; approved by %(who)s.")
    return told % {"who": who}


def _name_deciders(answer: Answer) -> str:
    """Those who said so; time, where it was the ladder's last rung."""
    actors = [one.actor for one in answer.decisions if one.outcome == answer.outcome]
    keys = [actor.partition(":")[2] for actor in actors if actor.startswith("user:")]
    people = {str(user.pk): user for user in get_user_model()._default_manager.filter(pk__in=keys)} if keys else {}
    names = [name_person(people[key]) if key in people else gettext("a former user") for key in keys]
    return join_list(names) or gettext("nobody in time, as agreed")
