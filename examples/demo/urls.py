"""The demo's own pages; all of them answer 404 without DEBUG."""

from django.urls import path

from examples.demo import login, views

app_name = "demo"

urlpatterns = [
    path("", views.ask, name="new"),
    path("as/<str:username>/", login.enter_as, name="persona"),
    path("<uuid:id>/", views.watch, name="instance"),
    path("<slug:model>/<int:pk>/", views.show_row, name="row"),
]
