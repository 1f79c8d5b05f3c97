"""Probes and metrics: /healthz, /readyz and /metrics."""

from django.urls import path

from workflows.operations import health
from workflows.operations.metrics import metrics

urlpatterns = [
    path("healthz", health.healthz, name="healthz"),
    path("readyz", health.readyz, name="readyz"),
    path("metrics", metrics, name="metrics"),
]
