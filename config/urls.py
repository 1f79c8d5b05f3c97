"""The site's addresses: the apps' own, the admin, and a front door. Views live in the apps."""

from django.contrib import admin
from django.urls import include, path
from django.views.generic import RedirectView

urlpatterns = [
    path("", RedirectView.as_view(pattern_name="admin:index")),
    path("admin/", admin.site.urls),
    path("approvals/", include("approvals.urls")),
    path("", include("workflows.urls")),
]
