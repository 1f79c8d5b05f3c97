"""Inbound hooks: /hooks/{name}, with or without a slash at its end."""

from django.urls import re_path

from workflows.hooks.door import receive

app_name = "workflows"

urlpatterns = [re_path(r"^hooks/(?P<name>[^/]+)/?\Z", receive, name="hooks")]
