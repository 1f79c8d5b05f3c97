"""Callbacks: /resume/{token}."""

from django.urls import path

from workflows.rest.resume import resume

app_name = "workflows"

urlpatterns = [path("resume/<str:token>", resume, name="resume")]
