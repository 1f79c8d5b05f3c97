"""The author's part of the traceback of an instance's latest failed run."""

from django.db import migrations, models

from workflows.migrations._online import ChangeBriefly


class Migration(migrations.Migration):
    dependencies = [
        ("holdpoint", "0027_lineage"),
    ]

    operations = [
        ChangeBriefly(
            ["holdpoint_instance"],
            [
                migrations.AddField(
                    model_name="instance",
                    name="traceback",
                    field=models.TextField(editable=False, null=True, verbose_name="traceback"),
                ),
                migrations.AddField(
                    model_name="instance",
                    name="failed_call",
                    field=models.TextField(editable=False, null=True),
                ),
            ],
        ),
    ]
