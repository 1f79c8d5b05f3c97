"""Workers in the admin: who beats, who has fallen silent."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from django.contrib import admin
from django.db.models import DurationField, ExpressionWrapper, F, QuerySet
from django.db.models.functions import Now
from django.http import HttpRequest
from django.utils.html import format_html
from django.utils.safestring import SafeString
from django.utils.timesince import timesince
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from workflows.admin.base import ReadOnlyAdmin
from workflows.admin.markup import NOTHING, show_badge, show_moment, show_text
from workflows.models import Worker

#: A worker beats every second; `/readyz` believes it dead after the same time.
SILENT = timedelta(seconds=5)
COLUMNS = ("title", "kind", "pulse", "beat", "held_by", "serves", "idle", "started")


@admin.register(Worker)
class WorkerAdmin(ReadOnlyAdmin):
    """Read only: workers write themselves, and forget those that have gone."""

    list_display = COLUMNS
    list_display_links = ("title",)
    ordering = ("name",)
    fields = readonly_fields = (*COLUMNS, "asked")

    def get_queryset(self, request: HttpRequest) -> QuerySet[Worker]:
        """With the age by the clock that wrote the heartbeat, which is the database's."""
        age = ExpressionWrapper(Now() - F("beat_at"), output_field=DurationField())
        rows: QuerySet[Worker] = super().get_queryset(request).annotate(age=age)
        return rows

    @admin.display(description=gettext_lazy("name"))
    def title(self, worker: Worker) -> SafeString:
        return show_text(worker.name)

    @admin.display(description=gettext_lazy("pulse"))
    def pulse(self, worker: Any) -> SafeString:
        """Alive or silent, and since when."""
        if worker.beat_at.year <= 1970:
            return show_badge(_("never beat"), "bad")
        if worker.age < SILENT:
            return show_badge(_("alive"), "good")
        if worker.age < timedelta(minutes=1):
            return show_badge(_("silent for %(seconds)d s") % {"seconds": worker.age.seconds}, "bad")
        silence = timesince(worker.beat_at, worker.beat_at + worker.age, depth=1)
        return show_badge(_("silent for %(time)s") % {"time": silence}, "bad")

    @admin.display(description=gettext_lazy("last heartbeat"))
    def beat(self, worker: Worker) -> SafeString:
        return NOTHING if worker.beat_at.year <= 1970 else show_moment(worker.beat_at)

    @admin.display(description=gettext_lazy("holder"))
    def held_by(self, worker: Worker) -> SafeString:
        return show_text(worker.holder)

    @admin.display(description=gettext_lazy("queues"))
    def serves(self, worker: Worker) -> SafeString:
        """Those that it serves; nothing of one that serves all."""
        return NOTHING if worker.queues is None else show_text(", ".join(worker.queues))

    @admin.display(description=gettext_lazy("started"))
    def started(self, worker: Worker) -> SafeString:
        return show_moment(worker.started_at)

    @admin.display(description=gettext_lazy("last asked for a pump"))
    def asked(self, worker: Worker) -> SafeString:
        return format_html("{}", show_moment(worker.asked_at))
