"""The REST API: /v1/…

Whatever stands below /v1/ and is no address is told so as JSON. Keys and signal ids may hold slashes and dots.
Other apps register theirs in `ready()`, which is before this module is read.
"""

from django.urls import path, re_path

from workflows.rest import completions, dispatches, docs, failing, instances, interactions, openapi, signals, units
from workflows.rest.endpoint import answer_unknown
from workflows.rest.parts import list_parts

app_name = "workflows"

#: In the order in which they are documented.
documented = [
    path("v1/instances", instances.Instances.as_view(), name="instances"),
    path("v1/instances/<str:id>", instances.OneInstance.as_view(), name="instance"),
    path("v1/instances/<str:id>/events", instances.InstanceEvents.as_view(), name="instance-events"),
    path("v1/instances/<str:id>/signals", signals.InstanceSignals.as_view(), name="instance-signals"),
    path("v1/instances/<str:id>/cancel", instances.CancelInstance.as_view(), name="instance-cancel"),
    path("v1/instances/<str:id>/retry", instances.RetryInstance.as_view(), name="instance-retry"),
    path("v1/keys/<path:key>/signals", signals.KeySignals.as_view(), name="key-signals"),
    path("v1/signals", signals.Signals.as_view(), name="signals"),
    path("v1/signals/bulk", signals.BulkSignals.as_view(), name="signals-bulk"),
    path("v1/signals/<path:signal_id>/complete", interactions.CompleteSignal.as_view(), name="signal-complete"),
    path("v1/events", signals.Events.as_view(), name="events"),
    path("v1/interactions", interactions.Interactions.as_view(), name="interactions"),
    path("v1/interactions/complete", completions.CompleteMany.as_view(), name="interactions-complete"),
    path("v1/interactions/<str:id>", interactions.OneInteraction.as_view(), name="interaction"),
    path("v1/interactions/<str:id>/complete", interactions.CompleteInteraction.as_view(), name="interaction-complete"),
    path("v1/interactions/<str:id>/redrive", dispatches.RedriveInteraction.as_view(), name="interaction-redrive"),
    path(
        "v1/interactions/<str:id>/dispatches",
        dispatches.InteractionDispatches.as_view(),
        name="interaction-dispatches",
    ),
    path("v1/interactions/<str:id>/fail", failing.FailInteraction.as_view(), name="interaction-fail"),
    path("v1/interactions/<str:id>/retry", failing.RetryItem.as_view(), name="interaction-retry"),
    path("v1/interactions/<str:id>/events", interactions.InteractionEvents.as_view(), name="interaction-events"),
    path("v1/units", units.UnitsEndpoint.as_view(), name="units"),
    path("v1/units/<str:id>", units.OneUnit.as_view(), name="unit"),
    *(pattern for part in list_parts() for pattern in part.patterns),
    path("v1/schema", openapi.schema, name="api-schema"),
    path("v1/docs", docs.docs, name="api-docs"),
    re_path(r"^v1(?:/[\s\S]*)?\Z", answer_unknown),
]

OFTEN = ("signal-complete", "interaction-complete")

#: Django tries one after the other, so what is called most comes first; the others keep their order.
urlpatterns = sorted(documented, key=lambda one: one.name not in OFTEN)
