"""The reviewer's pages, mountable anywhere: `path("approvals/", include("approvals.urls"))`."""

from django.urls import path, re_path

from approvals import views
from approvals.required.call_view import CallView
from approvals.views.inbox import review
from approvals.views.link import link

app_name = "approvals"

urlpatterns = [
    path("", views.InboxView.as_view(), name="inbox"),
    path("link/<str:token>/", link, name="link"),
    # Whatever stands below link/ goes to the view: Django logs the address of what no route takes, and a slash too many
    # after a token would put one into the log that is still good.
    re_path(r"^link/(?P<token>[\s\S]+)\Z", link),
    path("<uuid:id>/", review, name="review"),
    path("calls/<uuid:id>", CallView.as_view(), name="call"),
]
