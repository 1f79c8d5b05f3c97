"""All of the engine's routes. Each part can also be included alone."""

from django.urls import include, path

app_name = "workflows"

urlpatterns = [path("", include("workflows.urls_health"))]
