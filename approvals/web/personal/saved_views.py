"""Saved views: lists that somebody comes back to, under names of their own.

Invariants owned: nobody has two of one name, nor more than the rail has room for; what is kept is a list that can be
shown; nobody changes what is another's.
"""

from __future__ import annotations

from typing import Any

from django import forms
from django.contrib.auth import get_user_model
from django.core.exceptions import ValidationError
from django.db import router, transaction
from django.utils.translation import gettext
from django.utils.translation import gettext_lazy as _

from approvals.models import SavedView
from approvals.people.person import Person
from approvals.web.base.desk import MAX_SAVED, read_query

MAX_NAME = 60
#: Of a query, as the table has it.
MAX_QUERY = 1_000


class NameForm(forms.Form):
    """What a view is called."""

    name = forms.CharField(
        label=_("Name"),
        max_length=MAX_NAME,
        error_messages={
            "required": _("Give it a name."),
            "max_length": _("That is too long: at most %(limit_value)d characters."),
        },
    )

    def clean_name(self) -> str:
        """In one line."""
        return " ".join(self.cleaned_data["name"].split())


class ViewForm(NameForm):
    """A view to be kept."""

    query = forms.CharField(required=False)

    def clean_query(self) -> str:
        """As the list's own address writes it."""
        query = read_query(self.cleaned_data["query"]).write()
        if len(query) > MAX_QUERY:
            raise ValidationError(gettext("This list asks for too much to be kept. Search for fewer words."))
        return query


def keep_view(user: Person, name: str, query: str) -> SavedView:
    """Keep a list; a view of the same name becomes this one. `ValidationError` where there are too many.

    >>> keep_view(ann, "Late", "view=overdue").query
    'view=overdue'
    """
    with transaction.atomic(using=router.db_for_write(SavedView)):
        mine = _lock(user)
        found: SavedView | None = mine.filter(name=name).first()
        if found is not None:
            found.query = query
            found.save(update_fields=["query"])
            return found
        if mine.count() >= MAX_SAVED:
            raise ValidationError(gettext("You have %(n)s of these: remove some first.") % {"n": MAX_SAVED})
        made: SavedView = mine.create(user=user, name=name, query=query)
        return made


def rename_view(user: Person, key: int, name: str) -> SavedView | None:
    """Call it otherwise; None where it is not theirs, `ValidationError` where another one is called so."""
    with transaction.atomic(using=router.db_for_write(SavedView)):
        mine = _lock(user)
        found: SavedView | None = mine.filter(pk=key).first()
        if found is None:
            return None
        if mine.filter(name=name).exclude(pk=key).exists():
            raise ValidationError(gettext("Another one is called so. Choose another name."))
        found.name = name
        found.save(update_fields=["name"])
        return found


def remove_view(user: Person, key: int) -> bool:
    """Forget it; whether it was there."""
    rows: Any = SavedView._default_manager.filter(user_id=user.pk, pk=key)
    return bool(rows.delete()[0])


def _lock(user: Person) -> Any:
    """Theirs, which nobody adds to meanwhile: the account's row is what two tabs of one person meet at."""
    db = router.db_for_write(SavedView)
    list(get_user_model()._default_manager.using(db).select_for_update(no_key=True).filter(pk=user.pk).values("pk"))
    return SavedView._default_manager.using(db).filter(user_id=user.pk)
