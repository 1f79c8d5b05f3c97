"""The site's addresses: the apps' own, the admin, a login and a front door. Views live in the apps."""

from django.contrib import admin
from django.contrib.auth.views import LogoutView
from django.urls import include, path

from examples.demo.login import Login, go_home

urlpatterns = [
    path("", include("workflows.urls")),  # first, because programs call more often than people look
    path("", go_home, name="home"),
    path("login/", Login.as_view(), name="login"),
    path("logout/", LogoutView.as_view(), name="logout"),
    path("demo/", include("examples.demo.urls")),
    path("admin/", admin.site.urls),
    path("approvals/", include("approvals.urls")),
]
