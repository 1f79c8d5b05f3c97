"""The addresses of the REST API: /v1/…

Whatever stands below /v1/ and is no address is told so as JSON. Keys and signal ids may hold slashes and dots.
"""

from django.urls import path, re_path

from workflows.rest.base.endpoint import answer_unknown
from workflows.rest.resources.addresses import ADDRESSES
from workflows.rest.schema import docs_page, openapi

app_name = "workflows"

_ALL = [
    *ADDRESSES,
    path("v1/schema", openapi.schema, name="api-schema"),
    path("v1/docs", docs_page.docs, name="api-docs"),
    re_path(r"^v1(?:/[\s\S]*)?\Z", answer_unknown),
]

OFTEN = ("signal-complete", "interaction-complete")

#: Django tries one after the other, so what is called most comes first; the others keep their order.
urlpatterns = sorted(_ALL, key=lambda one: one.name not in OFTEN)
