"""The inbox: what waits for the person who asks."""

from django.contrib.auth.mixins import LoginRequiredMixin
from django.views.generic import TemplateView


class InboxView(LoginRequiredMixin, TemplateView):
    template_name = "approvals/inbox.html"
