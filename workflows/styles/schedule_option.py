"""The schedule that a workflow declares beside its other options: `cron=`, `every=`, `tz=`, `overlap=`, `catch_up=`.

Lives here: reading these options for every style. Must not live here: rows (`workflows.schedules`). Invariant owned: a
declared schedule can be carried out, and an option that would do nothing is refused.
"""

from __future__ import annotations

from dataclasses import replace

from workflows.definitions.registry import Definition, check_input
from workflows.exceptions import InvalidDefinition, InvalidInput, InvalidSchedule
from workflows.values.schedule_options import DEFAULT_CATCH_UP, DEFAULT_OVERLAP, read_options


def declare_schedule(
    definition: Definition, *, cron: object, every: object, tz: object, overlap: object, catch_up: object
) -> Definition:
    """The definition with the schedule that its options declare, if they do.

    >>> declare_schedule(report.definition, cron="0 9 * * *", every=None, tz=None, overlap=None, catch_up=3).schedule
    ScheduleOptions(timetable=Timetable(cron='0 9 * * *', every=None, tz=''), overlap='skip', catch_up=3)
    """
    if cron is None and every is None:
        beside = {"tz": tz, "overlap": overlap, "catch_up": catch_up}
        if idle := [name for name, value in beside.items() if value is not None]:
            raise InvalidDefinition(
                f"workflow {definition.source}: {idle[0]}= is of a schedule, and it declares none: give cron= or every="
            )
        return definition
    try:
        options = read_options(
            cron,
            every,
            tz,
            DEFAULT_OVERLAP if overlap is None else overlap,
            DEFAULT_CATCH_UP if catch_up is None else catch_up,
        )
        check_input(definition, {})
        if definition.flow is not None:
            definition.flow.check_input(definition.name, {})
    except InvalidSchedule as error:
        raise InvalidDefinition(f"workflow {definition.source}: {error}") from error
    except InvalidInput as error:
        raise InvalidDefinition(
            f"workflow {definition.source}: a declared schedule starts it with {{}}, and {error}. Give what it takes "
            "defaults, or make the schedule with workflows.schedule(…, input=…)"
        ) from error
    return replace(definition, schedule=options)
