"""Probes: /healthz and /readyz."""

from django.urls import path

from workflows import health

urlpatterns = [
    path("healthz", health.healthz, name="healthz"),
    path("readyz", health.readyz, name="readyz"),
]
