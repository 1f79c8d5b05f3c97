"""All of the engine's routes. Each part can also be included alone."""

from django.urls import include, path

from workflows import urls_api, urls_resume

app_name = "workflows"

urlpatterns = [
    path("", include("workflows.urls_health")),
    # Their patterns, and not the modules: the namespace that each has alone is this one's already.
    path("", include(urls_resume.urlpatterns)),
    path("", include(urls_api.urlpatterns)),
]
