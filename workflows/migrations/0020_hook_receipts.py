"""Messages of providers, so that each is taken once."""

import django.db.models.deletion
from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("holdpoint", "0019_lines"),
    ]

    operations = [
        migrations.CreateModel(
            name="HookReceipt",
            fields=[
                ("id", models.BigAutoField(primary_key=True, serialize=False)),
                ("at", models.DateTimeField(verbose_name="at")),
                ("hook", models.TextField(verbose_name="hook")),
                ("event_id", models.TextField(verbose_name="provider’s id")),
                ("answer", models.TextField(verbose_name="answer")),
                (
                    "workspace",
                    models.ForeignKey(
                        db_constraint=False,
                        db_index=False,
                        on_delete=django.db.models.deletion.DO_NOTHING,
                        to="holdpoint.workspace",
                        verbose_name="workspace",
                    ),
                ),
            ],
            options={
                "verbose_name": "hook receipt",
                "verbose_name_plural": "hook receipts",
                "db_table": "holdpoint_hook_receipt",
                "ordering": ["-id"],
                "abstract": False,
                "default_permissions": ("view",),
                "base_manager_name": "objects",
                "indexes": [models.Index(fields=["at"], name="holdpoint_hook_receipt_age")],
                "constraints": [
                    models.UniqueConstraint(
                        fields=("workspace", "hook", "event_id"), name="holdpoint_hook_receipt_once"
                    )
                ],
            },
        ),
    ]
