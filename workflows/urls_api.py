"""The REST API: /v1/…"""

from workflows.rest.urls import app_name, urlpatterns

__all__ = ["app_name", "urlpatterns"]
