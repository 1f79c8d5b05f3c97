"""The reviewer's pages, mountable anywhere: `path("approvals/", include("approvals.urls"))`."""

from django.urls import path

from approvals import views

app_name = "approvals"

urlpatterns = [
    path("", views.InboxView.as_view(), name="inbox"),
]
