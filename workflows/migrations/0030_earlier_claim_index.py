"""The index that releases without lanes claim by goes, when none of their workers is left.

Nothing needs this to be done, so a site is ready without it: on a large one it is run after the last worker was
restarted (docs/hosting.md).
"""

from django.db import migrations

from workflows.migrations._online import RemoveIndexOnline


class Migration(migrations.Migration):
    atomic = False
    #: Read by `workflows.operations.health`.
    tidies = True

    dependencies = [
        ("holdpoint", "0029_hot_indexes"),
    ]

    operations = [
        RemoveIndexOnline(model_name="instance", name="holdpoint_runnable"),
    ]
