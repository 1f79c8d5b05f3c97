"""All of the engine's routes. Each part can also be included alone."""

from django.urls import include, path

from workflows import urls_resume

app_name = "workflows"

urlpatterns = [
    path("", include("workflows.urls_health")),
    # Its patterns, and not the module: the namespace that it has alone is this one's already.
    path("", include(urls_resume.urlpatterns)),
]
