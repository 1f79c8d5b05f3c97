"""All of the engine's routes. Each part can also be included alone."""

from django.urls import include, path

from workflows import urls_api, urls_hooks, urls_resume

app_name = "workflows"

urlpatterns = [
    # Their patterns, and not the modules: the namespace that each has alone is this one's already. Django tries one
    # after the other, so what is called most comes first.
    path("", include(urls_api.urlpatterns)),
    path("", include(urls_resume.urlpatterns)),
    path("", include(urls_hooks.urlpatterns)),
    path("", include("workflows.urls_health")),
]
