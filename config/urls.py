"""The site's addresses: the apps' own, the admin, a login and a front door. Views live in the apps."""

from django.contrib import admin
from django.contrib.auth.views import LogoutView
from django.shortcuts import redirect
from django.templatetags.static import static
from django.urls import include, path

from examples.demo.login import Login, go_home

urlpatterns = [
    path("", include("workflows.urls")),  # first, because programs call more often than people look
    path("", go_home, name="home"),
    # What asks for it by itself, such as a browser in the admin.
    path("favicon.ico", lambda request: redirect(static("holdpoint/logo.svg"))),
    path("login/", Login.as_view(), name="login"),
    path("logout/", LogoutView.as_view(), name="logout"),
    path("demo/", include("examples.demo.urls")),
    path("admin/", admin.site.urls),
    path("approvals/", include("approvals.urls")),
]
