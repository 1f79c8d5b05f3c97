"""The reviewer's pages, mountable anywhere: `path("approvals/", include("approvals.urls"))`."""

from django.urls import path, re_path

from approvals.required.call_view import CallView
from approvals.views.bulk import bulk
from approvals.views.inbox import inbox, keys, live, theme
from approvals.views.link import link
from approvals.views.one_page import colleagues, review
from approvals.views.saved import saved
from approvals.views.settings import settings

app_name = "approvals"

urlpatterns = [
    path("", inbox, name="inbox"),
    path("live/", live, name="live"),
    path("theme/", theme, name="theme"),
    path("keys/", keys, name="keys"),
    path("bulk/", bulk, name="bulk"),
    path("views/", saved, name="saved"),
    path("settings/", settings, name="settings"),
    path("link/<str:token>/", link, name="link"),
    # Whatever stands below link/ goes to the view: Django logs the address of what no route takes, and a slash too many
    # after a token would put one into the log that is still good.
    re_path(r"^link/(?P<token>[\s\S]+)\Z", link),
    path("<uuid:id>/", review, name="review"),
    path("<uuid:id>/colleagues/", colleagues, name="colleagues"),
    path("calls/<uuid:id>", CallView.as_view(), name="call"),
]
