"""Callbacks: /resume/{token}.

Whatever stands below /resume/ goes to the view: Django logs the address of what no route takes, and a slash or a
line break too many after a token would put one into the log that still is good for an answer.
"""

from django.urls import re_path

from workflows.callbacks.token_view import resume

app_name = "workflows"

urlpatterns = [re_path(r"^resume/(?P<token>[\s\S]+)\Z", resume, name="resume")]
