"""The addresses of the resources, and of those that other apps bring.

Lives here: which view answers at which address. Must not live here: addresses that are no resource (`rest.urls`).
Invariant owned: what stands here is what the OpenAPI document describes. Other apps register theirs in `ready()`, which
is before this module is read.
"""

from __future__ import annotations

from django.urls import path

from workflows.rest.base.extensions import list_parts
from workflows.rest.resources import (
    completion_views,
    dispatch_views,
    failure_views,
    instance_changes,
    instance_views,
    interaction_views,
    schedule_views,
    signal_views,
    unit_views,
)
from workflows.rest.resources.flow import queue_views, workflow_views

#: In the order in which they are documented.
ADDRESSES = [
    path("v1/instances", instance_views.Instances.as_view(), name="instances"),
    path("v1/instances/<str:id>", instance_views.OneInstance.as_view(), name="instance"),
    path("v1/instances/<str:id>/events", instance_views.InstanceEvents.as_view(), name="instance-events"),
    path("v1/instances/<str:id>/signals", signal_views.InstanceSignals.as_view(), name="instance-signals"),
    path("v1/instances/<str:id>/cancel", instance_changes.CancelInstance.as_view(), name="instance-cancel"),
    path("v1/instances/<str:id>/retry", instance_changes.RetryInstance.as_view(), name="instance-retry"),
    path("v1/instances/<str:id>/fork", instance_changes.ForkInstance.as_view(), name="instance-fork"),
    path("v1/keys/<path:key>/signals", signal_views.KeySignals.as_view(), name="key-signals"),
    path("v1/signals", signal_views.Signals.as_view(), name="signals"),
    path("v1/signals/bulk", signal_views.BulkSignals.as_view(), name="signals-bulk"),
    path("v1/signals/<path:signal_id>/complete", interaction_views.CompleteSignal.as_view(), name="signal-complete"),
    path("v1/events", signal_views.Events.as_view(), name="events"),
    path("v1/interactions", interaction_views.Interactions.as_view(), name="interactions"),
    path("v1/interactions/complete", completion_views.CompleteMany.as_view(), name="interactions-complete"),
    path("v1/interactions/<str:id>", interaction_views.OneInteraction.as_view(), name="interaction"),
    path(
        "v1/interactions/<str:id>/complete",
        interaction_views.CompleteInteraction.as_view(),
        name="interaction-complete",
    ),
    path("v1/interactions/<str:id>/redrive", dispatch_views.RedriveInteraction.as_view(), name="interaction-redrive"),
    path(
        "v1/interactions/<str:id>/dispatches",
        dispatch_views.InteractionDispatches.as_view(),
        name="interaction-dispatches",
    ),
    path("v1/interactions/<str:id>/fail", failure_views.FailInteraction.as_view(), name="interaction-fail"),
    path("v1/interactions/<str:id>/retry", failure_views.RetryItem.as_view(), name="interaction-retry"),
    path("v1/interactions/<str:id>/events", interaction_views.InteractionEvents.as_view(), name="interaction-events"),
    path("v1/units", unit_views.UnitsEndpoint.as_view(), name="units"),
    path("v1/units/<str:id>", unit_views.OneUnit.as_view(), name="unit"),
    path("v1/workflows", workflow_views.Workflows.as_view(), name="workflows"),
    path("v1/workflows/<path:name>/pause", workflow_views.PauseWorkflow.as_view(), name="workflow-pause"),
    path("v1/workflows/<path:name>/unpause", workflow_views.UnpauseWorkflow.as_view(), name="workflow-unpause"),
    path("v1/queues", queue_views.Queues.as_view(), name="queues"),
    path("v1/queues/<str:name>", queue_views.OneQueue.as_view(), name="queue"),
    path("v1/limits", queue_views.Limits.as_view(), name="limits"),
    path("v1/limits/concurrency/<path:name>", queue_views.OneConcurrency.as_view(), name="limit-concurrency"),
    path("v1/limits/rate/<path:name>", queue_views.OneRate.as_view(), name="limit-rate"),
    path("v1/schedules", schedule_views.Schedules.as_view(), name="schedules"),
    path("v1/schedules/<path:schedule>/run", schedule_views.RunSchedule.as_view(), name="schedule-run"),
    path("v1/schedules/<path:schedule>", schedule_views.OneSchedule.as_view(), name="schedule"),
    *(pattern for part in list_parts() for pattern in part.patterns),
]
