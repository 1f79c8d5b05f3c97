"""`ApprovalRequiredMixin` for views and viewsets of the REST framework: a call waits, and is made once it is approved.

Lives here: what such a view answers instead. Must not live here: making the call again (`call_replay`). Invariants
owned: who, whether and how often are judged before, and bad data is answered at once, as ever; what waits is JSON
without secrets; and nobody is let past, whatever their rights.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from django.core.exceptions import ImproperlyConfigured
from django.db import models, router, transaction
from django.urls import NoReverseMatch, reverse
from django.utils.translation import gettext
from rest_framework import exceptions, status
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from approvals.asking.approval import Approval
from approvals.asking.opening import list_asked
from approvals.display.values import show_text
from approvals.exceptions import ApprovalError
from approvals.people.person import Person
from approvals.required.core.call_replay import keep_call
from approvals.required.core.frozen_approval import dump_approval, name_key
from approvals.required.core.options import GateOptions
from approvals.required.core.proposal_seal import seal
from approvals.subjects.change import read_change
from approvals.subjects.field_values import is_secret, redact_json
from approvals.subjects.reference import InvalidChange, find_field, name_object, read_subject
from workflows.api.instances import start_as
from workflows.exceptions import WorkflowError
from workflows.models import Instance
from workflows.uuid7 import make_uuid7

if TYPE_CHECKING:

    class _View(APIView):
        get_object: Any
        get_serializer: Any

else:
    _View = object

#: The built-in workflow (see `approvals.workflows`).
CALL = "holdpoint-call"
MAX_NAME = 100


class ApprovalRequiredMixin(GateOptions, _View):
    """Put it first: these methods answer 202, and are carried out as the requester once somebody else approves.

    >>> class InvoiceViewSet(ApprovalRequiredMixin, viewsets.ModelViewSet):
    ...     approval_groups = ["finance"]
    ...     approval_methods = ("PUT", "PATCH", "DELETE")
    """

    #: Methods that take an approval.
    approval_methods: Iterable[str] = ("POST", "PUT", "PATCH", "DELETE")

    # --- hooks --------------------------------------------------------------------------------------

    def get_approval(self, request: Request, obj: Any, change: Mapping[str, Any] | None) -> Approval:
        """Who is asked, and how. `obj` is the view's object where it has one; `change` what would change of it.

        >>> def get_approval(self, request, obj, change):
        ...     approval = super().get_approval(request, obj, change)
        ...     approval.risk = "high" if request.method == "DELETE" else "low"
        ...     return approval
        """
        return self.make_approval(
            self.get_approval_title(request, obj, change),
            subject=obj,
            change=change,
            request=None if change else self.describe_data(request),
        )

    def get_approval_title(self, request: Request, obj: Any, change: Mapping[str, Any] | None) -> str:
        """The sentence that says what will happen."""
        action = getattr(self, "action", None)
        if obj is None:
            serializer = getattr(self, "get_serializer_class", None)
            model = getattr(getattr(serializer() if serializer else None, "Meta", None), "model", None)
            if model is not None and request.method == "POST" and action in (None, "create"):
                return show_text(gettext("Add %(kind)s") % {"kind": model._meta.verbose_name})
            return show_text(gettext("Call %(method)s %(path)s") % {"method": request.method, "path": request.path})
        names = {"kind": obj._meta.verbose_name, "name": name_object(obj, MAX_NAME)}
        if request.method == "DELETE" and action in (None, "destroy"):
            return show_text(gettext("Delete %(kind)s “%(name)s”") % names)
        if action not in (None, "update", "partial_update"):
            return show_text(gettext("%(action)s: %(kind)s “%(name)s”") % {**names, "action": _word(str(action))})
        return show_text(gettext("Change %(kind)s “%(name)s”") % names)

    def needs_approval(self, request: Request) -> bool:
        """Whether this call takes an approval; a view may look at more than the method."""
        return str(request.method).upper() in {one.upper() for one in self.approval_methods}

    def check_call(self, request: Request) -> tuple[Any, Any]:
        """Refuse what could never be carried out, as the view itself would: the object and the valid serializer.

        A view that is not generic has neither; override it to look at `request.data`.
        """
        lookup = getattr(self, "lookup_url_kwarg", None) or getattr(self, "lookup_field", None)
        obj = self.get_object() if hasattr(self, "get_object") and lookup in self.kwargs else None
        if not self._has_serializer(request):
            return obj, None
        if obj is None:
            serializer = self.get_serializer(data=request.data)
        else:
            serializer = self.get_serializer(obj, data=request.data, partial=request.method == "PATCH")
        serializer.is_valid(raise_exception=True)
        return obj, serializer

    def describe_data(self, request: Request) -> dict[str, Any]:
        """What was sent, for those who decide."""
        return dict(request.data) if isinstance(request.data, Mapping) else {"data": request.data}

    # --- turning aside ------------------------------------------------------------------------------

    def initial(self, request: Request, *args: Any, **kwargs: Any) -> None:
        """Judge the request as ever; then put proposing in the place of the method."""
        super().initial(request, *args, **kwargs)
        method = str(request.method).lower()
        known = method in self.http_method_names and hasattr(self, method)
        if known and not is_replay(request) and self.needs_approval(request):
            # Of this view object only, which lives as long as its request.
            setattr(self, method, self._propose)

    def check_throttles(self, request: Request) -> None:
        """Made again, a call was counted when it came."""
        if not is_replay(request):
            super().check_throttles(request)

    def _propose(self, request: Request, *args: Any, **kwargs: Any) -> Response:
        _check_kind(request)
        user: Any = request.user
        if not user.is_authenticated or user.pk is None:
            raise exceptions.NotAuthenticated(gettext("Log in: what waits for approval is carried out as somebody."))
        obj, serializer = self.check_call(request)
        subject = obj if isinstance(obj, models.Model) and not obj._state.adding else None
        _refuse_secrets(request.data, serializer)
        change = _read_change(subject, serializer)
        started = self._start(request, user, subject, change)
        url = self.get_approval_url(request, started)
        told = {"id": str(started.pk), "status": "pending", "url": url}
        return Response(told, status=status.HTTP_202_ACCEPTED, headers={"Location": url})

    def _start(self, request: Request, user: Person, subject: models.Model | None, change: Any) -> Instance:
        try:
            with transaction.atomic(using=router.db_for_write(Instance)):
                approval = self.get_approval(request, subject, change)
                asked = {
                    "do": "call",
                    "subject": None if subject is None else _keep_subject(subject),
                    "change": change,
                    "call": keep_call(request),
                    "requester": name_key(user),
                    "applies": approval.outcomes[0].name,
                    "approval": dump_approval(approval),
                    "principals": list_asked(approval),
                    "timeout": self.approval_timeout,
                }
                workspace = self.get_approval_workspace(request, subject)
                id = make_uuid7()
                return start_as(id, CALL, seal(asked, id), workspace=workspace, actor=user)
        except (ApprovalError, WorkflowError) as refused:
            raise exceptions.ValidationError({"detail": str(refused)}) from refused

    def get_approval_url(self, request: Request, instance: Instance) -> str:
        """Where the requester asks what became of it."""
        try:
            return request.build_absolute_uri(reverse("approvals:call", args=[instance.pk]))
        except NoReverseMatch as error:
            raise ImproperlyConfigured(
                "ApprovalRequiredMixin answers with the address of a task, and there is none: add "
                'path("approvals/", include("approvals.urls")) to the URL conf, or override get_approval_url.'
            ) from error

    def _has_serializer(self, request: Request) -> bool:
        """Whether the view reads the data by its serializer: to make, to change, or in an action that has its own."""
        if not hasattr(self, "get_serializer"):
            return False
        action = getattr(self, "action", None)
        if action is None:
            return hasattr(self, {"POST": "create", "PUT": "update", "PATCH": "update"}.get(str(request.method), "-"))
        own = getattr(self, "serializer_class", None) is not getattr(type(self), "serializer_class", None)
        return own or action in ("create", "update", "partial_update")


def is_replay(request: Request) -> bool:
    """Whether this is an approved call, made again by the workflow; nothing that a client sends can say so."""
    return getattr(request._request, "holdpoint_replay", False) is True


def _check_kind(request: Request) -> None:
    """What waits is kept as JSON: forms and files are not."""
    kind = (request.content_type or "").partition(";")[0].strip().lower()
    has_body = request.META.get("CONTENT_LENGTH") not in (None, "", "0")
    if has_body and not (kind == "application/json" or (kind.startswith("application/") and kind.endswith("+json"))):
        told = gettext("This waits for approval and is kept until then, as JSON: send it as application/json.")
        raise exceptions.UnsupportedMediaType(kind, detail=told)


def _refuse_secrets(data: Any, serializer: Any) -> None:
    """What is kept and shown must hold no secret."""
    told = gettext("It is secret, and what waits for approval is kept and shown: leave it out.")
    found: dict[str, list[str]] = {}
    model = getattr(getattr(serializer, "Meta", None), "model", None)
    for name, field in (getattr(serializer, "fields", None) or {}).items():
        given = isinstance(data, Mapping) and data.get(name) not in (None, "")
        if model is not None and given and not field.read_only and _is_secret(model, field.source):
            found[name] = [told]
    if isinstance(data, Mapping):
        plain = redact_json(dict(data))
        found |= {str(name): [told] for name in data if plain[name] != data[name]}
    elif redact_json(data) != data:
        found["detail"] = [told]
    if found:
        raise exceptions.ValidationError(found)


def _is_secret(model: type[models.Model], source: str) -> bool:
    try:
        return is_secret(find_field(model, source), model)
    except InvalidChange:
        return False


def _read_change(subject: models.Model | None, serializer: Any) -> dict[str, Any] | None:
    """The change as one of the model's fields, where it is one: then those who decide see the difference."""
    model = getattr(getattr(serializer, "Meta", None), "model", None)
    if subject is None or model is None or not isinstance(subject, model):
        return None
    try:
        return read_change(subject, dict(serializer.validated_data)) or None
    except InvalidChange:  # the view may well know what to do with it
        return None


def _keep_subject(subject: models.Model) -> dict[str, str]:
    named = read_subject(subject)
    return {"model": named.model, "pk": named.pk, "label": named.label, "using": named.using}


def _word(action: str) -> str:
    return action.replace("_", " ").strip().capitalize()
