"""`ApprovalRequiredMixin` for a ModelAdmin: Save proposes, and who approves it does it.

Lives here: what the admin does instead of saving. Must not live here: what is proposed (`proposals`, `admin_forms`),
done (`applying`) and shown (`panel`). Invariants owned:

* What needs approval is turned aside before any of the project's own saving runs, so no `save_model` gets past it; what
  a saving of the project's own derives of it is taken back with all else that it wrote, and proposed.
* Nobody is let past: not superusers, not whoever may approve. A proposal of one's own is decided by somebody else.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from django.contrib import admin, messages
from django.contrib.admin.options import TO_FIELD_VAR
from django.contrib.admin.utils import quote, unquote
from django.core import checks
from django.core.exceptions import ImproperlyConfigured
from django.db import router, transaction
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.template.loader import select_template
from django.urls import reverse
from django.utils.translation import gettext

from approvals.asking.approval import Approval
from approvals.cards.refusal_message import tell_unasked
from approvals.display.values import show_text
from approvals.exceptions import ApprovalError
from approvals.required.admin_checks import find_problems
from approvals.required.admin_forms import ProposingForm, make_proposing, read_difference
from approvals.required.core.new_objects import describe_addition
from approvals.required.core.options import GateOptions
from approvals.required.core.proposals import AlreadyProposed, TooManyProposals, list_pending, propose
from approvals.required.core.row_diff import Stored, find_changes, is_gone, read_stored
from approvals.required.panel import make_panel, tell_conflicts, tell_nobody, tell_proposed
from approvals.subjects.field_display import label_field
from approvals.subjects.reference import InvalidChange, find_alias, find_field, name_object
from workflows.exceptions import WorkflowError
from workflows.wording.messages import tell_reason
from workflows.wording.punctuation import join_list

if TYPE_CHECKING:
    _ModelAdmin = admin.ModelAdmin[Any]
else:
    _ModelAdmin = object

logger = logging.getLogger("approvals")

#: Characters of a name in the sentence that says what will happen.
MAX_NAME = 100


class _TurnedAside(Exception):
    """What was about to be saved or deleted, on its way past the project's own saving."""

    def __init__(
        self, do: str, *rows: Any, proposed: Mapping[str, Any] | None = None, found: Mapping[str, Any] | None = None
    ) -> None:
        self.do, self.rows = do, rows
        #: The change or the values as JSON; or what it was that had been written.
        self.proposed, self.found = proposed, found


class ApprovalRequiredMixin(GateOptions, _ModelAdmin):
    """Put it first: changes of this model are proposed, and made once somebody else approves.

    >>> class InvoiceAdmin(ApprovalRequiredMixin, admin.ModelAdmin):
    ...     approval_groups = ["finance"]
    ...     approval_fields = ("amount", "due")
    """

    class Media:
        css = {"all": ["workflows/admin.css", "approvals/admin.css"]}

    #: What takes an approval: any of "change", "add" and "delete".
    approval_for: Iterable[str] = ("change",)
    #: Fields whose change takes one; a change of any of them is proposed with all else that was changed. None: all.
    approval_fields: Iterable[str] | None = None

    # --- hooks --------------------------------------------------------------------------------------

    def get_approval(self, request: HttpRequest, obj: Any, change: Mapping[str, Any] | None) -> Approval:
        """Who is asked, and how. `change` is what would change as JSON; None where the object is added or deleted.

        >>> def get_approval(self, request, obj, change):
        ...     approval = super().get_approval(request, obj, change)
        ...     approval.risk = "high" if obj.amount > 10_000 else "low"
        ...     return approval
        """
        if obj._state.adding:
            return self.make_approval(self.get_approval_title(request, obj, change))
        return self.make_approval(self.get_approval_title(request, obj, change), subject=obj, change=change)

    def get_approval_title(self, request: HttpRequest, obj: Any, change: Mapping[str, Any] | None) -> str:
        """The sentence that says what will happen."""
        names = {"kind": self.opts.verbose_name, "name": name_object(obj, MAX_NAME)}
        if obj._state.adding:
            told = gettext("Add %(kind)s “%(name)s”") % names
        elif change is None:
            told = gettext("Delete %(kind)s “%(name)s”") % names
        else:
            labels = join_list(label_field(name, find_field(self.model, name)) for name in change)
            told = gettext("Change %(kind)s “%(name)s”: %(fields)s") % {**names, "fields": labels}
        return show_text(told)

    # --- turning aside ------------------------------------------------------------------------------

    def get_form(self, request: HttpRequest, obj: Any = None, change: bool = False, **kwargs: Any) -> Any:
        """The project's form; where it takes an approval, one that says what cannot be proposed."""
        form = super().get_form(request, obj, change=change, **kwargs)
        do = "add" if obj is None else "change"
        return make_proposing(form, do, self._needing(do)) if self._takes(do) else form

    def save_form(self, request: HttpRequest, form: Any, change: bool) -> Any:
        """Turn aside what takes an approval; `save_model` and all that follows is for the rest."""
        do = "change" if change else "add"
        if self._takes(do):
            if not isinstance(form, ProposingForm):
                told = (
                    "a form of {}.get_form() cannot propose, so nothing is saved: return what super().get_form() makes"
                )
                raise ImproperlyConfigured(told.format(type(self).__name__))
            if form.needs_approval():
                raise _TurnedAside(do, form.instance, proposed=form.proposed)
        return super().save_form(request, form, change)

    def construct_change_message(self, request: HttpRequest, form: Any, formsets: Any, add: bool = False) -> Any:
        """The first thing after all of the project's own saving, and before anybody is told that it is done."""
        do = "add" if add else "change"
        if self._takes(do) and isinstance(form, ProposingForm):
            if form.needs_approval():  # and a `save_form` of the project's own has let it past
                raise _TurnedAside(do, form.instance, proposed=form.proposed)
            self._look_again(form.stored)
        return super().construct_change_message(request, form, formsets, add)

    def log_deletions(self, request: HttpRequest, queryset: Any) -> Any:
        """The first thing that the admin does when a deletion was confirmed."""
        self._turn_deletions_aside(queryset)
        return super().log_deletions(request, queryset)

    def delete_model(self, request: HttpRequest, obj: Any) -> None:
        """Where a `log_deletions` of the project's own logs nothing."""
        self._turn_deletions_aside([obj])
        super().delete_model(request, obj)

    def delete_queryset(self, request: HttpRequest, queryset: Any) -> None:
        """The same for the action of the list."""
        self._turn_deletions_aside(queryset)
        super().delete_queryset(request, queryset)

    def changeform_view(
        self, request: HttpRequest, object_id: str | None = None, form_url: str = "", extra_context: Any = None
    ) -> HttpResponse:
        """The page of one, where Save proposes."""
        try:
            with self._hold(request, object_id, "change") as stored:
                response = super().changeform_view(request, object_id, form_url, extra_context)
                self._look_again(stored)
                return response
        except _TurnedAside as aside:
            return self._propose_form(request, aside)

    def delete_view(self, request: HttpRequest, object_id: str, extra_context: Any = None) -> HttpResponse:
        """The question before a deletion, which then is proposed."""
        try:
            with self._hold(request, object_id, "delete") as stored:
                response = super().delete_view(request, object_id, extra_context)
                if stored is not None and is_gone(stored):
                    raise _TurnedAside("delete", stored.row)
                return response
        except _TurnedAside as aside:
            self._propose_deletions(request, aside.rows)
            return HttpResponseRedirect(self._locate(request, aside.rows[0]))

    def changelist_view(self, request: HttpRequest, extra_context: Any = None) -> HttpResponse:
        """The list, whose action to delete proposes."""
        try:
            return super().changelist_view(request, extra_context)
        except _TurnedAside as aside:
            if aside.do != "delete":
                raise  # a list that saves its rows by means of its own: nothing is saved
            self._propose_deletions(request, aside.rows)
            return HttpResponseRedirect(request.get_full_path())

    def get_changelist_instance(self, request: HttpRequest) -> Any:
        """Rows that can be edited in the list could not tell what was proposed."""
        found = super().get_changelist_instance(request)
        if self._takes("change"):
            found.list_editable = ()
        return found

    def get_inline_instances(self, request: HttpRequest, obj: Any = None) -> list[Any]:
        """Inlines are only read: a proposal is about one object."""
        found = super().get_inline_instances(request, obj)
        if self._takes("add" if obj is None else "change"):
            for inline in found:
                _make_readable(inline)
        return found

    @contextmanager
    def _hold(self, request: HttpRequest, object_id: str | None, do: str) -> Iterator[Stored | None]:
        """The row, while the admin writes what was sent: nobody else changes it, and what is turned aside is undone."""
        obj = None
        if request.method == "POST" and object_id is not None and self._takes(do):
            by = request.POST.get(TO_FIELD_VAR, request.GET.get(TO_FIELD_VAR))
            if not by or self.to_field_allowed(request, by):
                obj = self.get_object(request, unquote(object_id), by)
        if obj is None:  # nothing is sent, or the admin is about to say what is wrong
            yield None
            return
        using = find_alias(obj)
        with transaction.atomic(using=using):
            yield read_stored(type(obj), obj.pk, using, lock=True)

    def _look_again(self, stored: Stored | None) -> None:
        """Turn aside what the project's own saving has derived of what takes an approval."""
        if stored is None:
            return
        found = find_changes(stored)
        needing = self._needing("change")
        if found.keys() & (found.keys() if needing is None else needing):
            raise _TurnedAside("change", stored.row, found=found)

    def _turn_deletions_aside(self, rows: Iterable[Any]) -> None:
        if self._takes("delete"):
            raise _TurnedAside("delete", *rows)

    # --- proposing ----------------------------------------------------------------------------------

    def _propose_form(self, request: HttpRequest, aside: _TurnedAside) -> HttpResponse:
        do, (obj,), values = aside.do, aside.rows, aside.proposed
        again = request.get_full_path() if do == "add" else self._locate(request, obj)
        if do == "change":
            # As it stands: the form has filled in what is only proposed.
            obj = type(obj)._base_manager.using(router.db_for_write(type(obj), instance=obj)).get(pk=obj.pk)
        if aside.found is not None:
            try:
                values = read_difference(obj, aside.found, self._needing(do) or ())
            except InvalidChange as refused:
                told = gettext("Nothing was saved: %(reason)s") % {"reason": show_text(tell_reason(refused.reason))}
                self.message_user(request, told, messages.ERROR)
                return HttpResponseRedirect(again)
        if not values:
            self.message_user(request, gettext("Nothing was changed, so there is nothing to approve."), messages.INFO)
            return HttpResponseRedirect(again)
        if not self._propose(request, do, obj, values):
            return HttpResponseRedirect(again)
        return HttpResponseRedirect(self._locate_list(request) if do == "add" else again)

    def _propose_deletions(self, request: HttpRequest, rows: Iterable[Any]) -> None:
        for one in rows:
            self._propose(request, "delete", one, {})

    def _propose(self, request: HttpRequest, do: str, obj: Any, values: Mapping[str, Any]) -> bool:
        """Start the workflow that asks, and say so; False where it was refused."""
        known = None if do == "add" else obj
        before = list_pending(self.model, known, [request.user])
        try:
            with transaction.atomic(using=router.db_for_write(self.model)):
                approval = self.get_approval(request, obj, values if do == "change" else None)
                if do == "add" and approval.request is None:
                    approval.request = describe_addition(self.model, values)
                made = propose(
                    approval,
                    do,
                    self.model,
                    known,
                    values,
                    requester=request.user,
                    workspace=self.get_approval_workspace(request, obj),
                    timeout=self.approval_timeout,
                )
        except (AlreadyProposed, TooManyProposals) as refused:
            level = messages.INFO if isinstance(refused, AlreadyProposed) else messages.ERROR
            self.message_user(request, str(refused), level)
            return False
        except (ApprovalError, WorkflowError) as refused:
            # In full for who wrote `approval_…`; whoever saves can do something about few of these.
            logger.warning("saving %s cannot ask for approval: %s", self.model._meta.label, refused)
            self.message_user(request, tell_unasked(refused), messages.ERROR)
            return False
        link = "" if do == "add" else f"{self._locate(request, obj)}#holdpoint-pending"
        self.message_user(request, tell_proposed(made, link), messages.SUCCESS)
        for warning in (*tell_conflicts(made, before, self.model), *tell_nobody(made, approval, request.user)):
            self.message_user(request, warning, messages.WARNING)
        return True

    # --- the page -----------------------------------------------------------------------------------

    def render_change_form(self, request: HttpRequest, context: Any, *args: Any, **kwargs: Any) -> HttpResponse:
        """The page, and above its fields what saving does here and what waits already."""
        response: Any = super().render_change_form(request, context, *args, **kwargs)
        obj = context.get("original")
        do = "add" if obj is None else "change"
        if not self._takes(do) and not (obj is not None and self._takes("delete")):
            return response  # type: ignore[no-any-return]
        may = self.has_add_permission(request) if obj is None else self.has_change_permission(request, obj)
        rule = self._tell_rule(do) if may else ""
        # Whichever template the project has for this page, with ours around it.
        names = response.template_name
        response.context_data["approval_page"] = select_template([names] if isinstance(names, str) else names)
        response.context_data["approval_panel"] = make_panel(
            list_pending(self.model, obj, [request.user]), obj, request, self.admin_site.name, rule
        )
        response.template_name = "admin/holdpoint_approvals/required/change_form.html"
        return response  # type: ignore[no-any-return]

    def _tell_rule(self, do: str) -> str:
        """What Save does."""
        if not self._takes(do):
            return gettext("Deleting proposes: it happens once somebody else approves it.")
        if do == "add":
            return gettext("Saving proposes: it is added once somebody else approves it.")
        if self.approval_fields is None:
            return gettext("Saving proposes: the change is made once somebody else approves it.")
        labels = join_list(label_field(name, find_field(self.model, name)) for name in self.approval_fields)
        told = gettext("Saving a change of these proposes it, with all else that was changed: %(fields)s.")
        return told % {"fields": labels}

    def check(self, **kwargs: Any) -> list[checks.CheckMessage]:
        """What Django finds, and what would not do what it says."""
        return [*super().check(**kwargs), *find_problems(self)]

    def _takes(self, do: str) -> bool:
        return do in self.approval_for

    def _needing(self, do: str) -> frozenset[str] | None:
        return None if do == "add" or self.approval_fields is None else frozenset(self.approval_fields)

    def _locate_list(self, request: HttpRequest) -> str:
        """The list, or the admin's front page for who may not look at it."""
        if not self.has_view_or_change_permission(request):
            return reverse("admin:index", current_app=self.admin_site.name)
        name = f"admin:{self.opts.app_label}_{self.opts.model_name}_changelist"
        return reverse(name, current_app=self.admin_site.name)

    def _locate(self, request: HttpRequest, obj: Any) -> str:
        """The object's page, or the admin's front page for who may not look at it."""
        if not self.has_view_or_change_permission(request, obj):
            return reverse("admin:index", current_app=self.admin_site.name)
        name = f"admin:{self.opts.app_label}_{self.opts.model_name}_change"
        return reverse(name, args=[quote(obj.pk)], current_app=self.admin_site.name)


def _make_readable(inline: Any) -> None:
    """An inline that can be looked at by whoever could before."""

    def refuse(request: HttpRequest, obj: Any = None) -> bool:
        return False

    inline.has_add_permission = inline.has_change_permission = inline.has_delete_permission = refuse
    inline.max_num = 0
