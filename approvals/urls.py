"""The reviewer's pages, mountable anywhere: `path("approvals/", include("approvals.urls"))`."""

from django.urls import path, re_path

from approvals.required.call_view import CallView
from approvals.web.bulk.bulk_views import bulk
from approvals.web.inbox.inbox_page import inbox, keys, live, theme
from approvals.web.personal.saved_view_pages import saved
from approvals.web.personal.settings_page import settings
from approvals.web.request.link_view import link
from approvals.web.request.request_page import colleagues, review

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
