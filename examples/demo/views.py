"""`/demo/`: ask for something, watch where it is, and look at the rows that it is about. With DEBUG only."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from django.apps import apps
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect
from django.urls import reverse
from django.views.decorators.http import require_http_methods, require_safe

import workflows
from approvals.display.values import show_text
from approvals.subjects.field_display import label_field, show_value
from approvals.subjects.field_values import to_plain
from examples.demo.offers import OFFERS, Offer, OfferForm, find_offer, list_subjects
from examples.demo.pages import answer, for_people, only_in_debug
from examples.demo.processes import NAMES
from examples.demo.tracking import follow
from workflows.models import Instance


@only_in_debug
@for_people
@require_http_methods(["GET", "HEAD", "POST"])
def ask(request: HttpRequest) -> HttpResponse:
    """The six forms; and starting what one of them says."""
    sent = find_offer(name=request.POST.get("process", "")) if request.method == "POST" else None
    if sent is not None:
        form = _make_form(sent, request.POST)
        if form.is_valid():
            started = sent.start(form.cleaned_data, request.user)
            return redirect(reverse("demo:instance", args=[started.pk]))
        return _show_offers(request, sent, form, status=422)
    return _show_offers(request, None, None)


@only_in_debug
@for_people
@require_http_methods(["GET", "HEAD", "POST"])
def watch(request: HttpRequest, id: UUID) -> HttpResponse:
    """Where an instance of the demo is now; asked by htmx, the part of the page that changes, once it has."""
    instance = get_object_or_404(Instance, pk=id, workflow__in=NAMES)
    track = follow(instance, request.user)
    if request.method == "POST":
        body = request.POST.get("body", "").strip()
        if track.wants_text is not None and body and instance.started_by == f"user:{request.user.pk}":
            workflows.signal(instance, "revised", {"body": body[:4_000]}, actor=request.user)
        return redirect(request.path)
    is_part = request.headers.get("HX-Request") == "true"
    if is_part and request.GET.get("seen") == track.stamp:
        return HttpResponse(status=204)
    given = {
        "track": track,
        "is_part": is_part,
        "instance": instance,
        "is_mine": instance.started_by == f"user:{request.user.pk}",
        "address": request.path,
    }
    return answer(request, "examples/part.html" if is_part else "examples/watch.html", given, has_scripts=True)


@only_in_debug
@for_people
@require_safe
def show_row(request: HttpRequest, model: str, pk: int) -> HttpResponse:
    """A row of the shop as it is now: what the evidence of a request leads to."""
    try:
        found = apps.get_model("holdpoint_examples", model)
    except LookupError:
        raise Http404 from None
    row = get_object_or_404(found._default_manager, pk=pk)
    facts: list[tuple[str, Any]] = [
        (label_field(field.name, field), show_value(field, to_plain(field, field.value_from_object(row))).text)
        for field in found._meta.fields
        if not field.primary_key
    ]
    given = {"title": show_text(str(row)), "kind": str(found._meta.verbose_name).capitalize(), "facts": facts}
    return answer(request, "examples/row.html", given)


def _show_offers(
    request: HttpRequest, sent: Offer | None, form: OfferForm | None, *, status: int = 200
) -> HttpResponse:
    offers = [(one, form if one is sent and form is not None else _make_form(one)) for one in OFFERS]
    given = {"offers": offers, "sent": sent, "subjects": list_subjects()}
    return answer(request, "examples/ask.html", given, status=status)


def _make_form(offer: Offer, data: Any = None) -> OfferForm:
    return offer.form(data, auto_id=f"{offer.name}-%s")
