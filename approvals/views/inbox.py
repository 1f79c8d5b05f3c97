"""The inbox: what waits for the person who asks, as a plain list; and a request's own address.

Invariants owned: the list is `Review.objects.for_user`; looking changes nothing; of what is not theirs to see nobody is
told that it is there.
"""

from typing import Any
from uuid import UUID

from django.contrib.auth.decorators import login_required
from django.contrib.auth.mixins import LoginRequiredMixin
from django.http import Http404, HttpRequest, HttpResponseRedirect
from django.urls import reverse
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_safe
from django.views.generic import TemplateView

from approvals.links import make_link_token
from approvals.models import Review

#: Rows of the list; more are counted.
ROWS = 100


class InboxView(LoginRequiredMixin, TemplateView):
    """What waits for whoever is logged in, the first of it."""

    template_name = "approvals/inbox.html"

    def get_context_data(self, **kwargs: Any) -> dict[str, Any]:
        """The rows, each with its page."""
        found = list(Review.objects.for_user(self.request.user)[: ROWS + 1])
        return super().get_context_data(rows=found[:ROWS], has_more=len(found) > ROWS, **kwargs)


@never_cache
@require_safe
@login_required
def review(request: HttpRequest, id: UUID) -> HttpResponseRedirect:
    """To this person's own page of it."""
    found = Review.objects.visible_to(request.user).filter(pk=id).first()
    if found is None:
        raise Http404
    return HttpResponseRedirect(reverse("approvals:link", args=[make_link_token(found, request.user)]))
