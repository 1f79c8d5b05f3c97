"""What must exist in a migrated database: the default workspace, and the schedule of the last net.

Called after every migrate and after flushing a test database, in whatever order the apps were migrated:
Django reports each migrate to every app, so what lacks its table now is made after the next one.
Invariant owned: repeated or simultaneous migrates make no second row.
"""

from __future__ import annotations

from typing import Any

from django.apps import apps
from django.db import connections, router, transaction

from workflows.definitions.workspace import DEFAULT_WORKSPACE
from workflows.models import Workspace

SCHEDULE = "holdpoint sweep"


def provide_defaults(using: str = "default", **kwargs: Any) -> None:
    """Make what is missing; receiver of `post_migrate`."""
    tables = set(connections[using].introspection.table_names())
    if Workspace._meta.db_table not in tables or router.db_for_write(Workspace) != using:
        return
    with transaction.atomic(using=using):
        workspace, _ = Workspace.objects.using(using).get_or_create(
            slug=DEFAULT_WORKSPACE, defaults={"name": "Default"}
        )
        if apps.is_installed("django_q"):
            provide_schedule(using, tables, workspace)


def provide_schedule(using: str, tables: set[str], workspace: Workspace) -> None:
    """Let django-q run `workflows.tasks.sweep` once a minute; how often else, and where, is left as it is."""
    from django_q.models import Schedule

    if Schedule._meta.db_table not in tables or router.db_for_write(Schedule) != using:
        return
    wanted = {"func": "workflows.tasks.sweep", "schedule_type": Schedule.MINUTES, "minutes": 1}
    found = Schedule.objects.using(using).filter(name=SCHEDULE).order_by("pk")
    if [{name: getattr(one, name) for name in wanted} for one in found] == [wanted]:
        return
    # Its name is not unique, so the row that two simultaneous migrates share serves as their lock.
    Workspace.objects.using(using).select_for_update().get(pk=workspace.pk)
    first, *others = [*found.all()] or [Schedule(name=SCHEDULE, repeats=-1)]
    for name, value in wanted.items():
        setattr(first, name, value)
    first.save(using=using)
    for one in others:
        one.delete()
