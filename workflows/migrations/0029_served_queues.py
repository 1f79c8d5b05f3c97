"""Workers say which queues they serve."""

import django.contrib.postgres.fields
from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("holdpoint", "0028_tracebacks"),
    ]

    operations = [
        migrations.AddField(
            model_name="worker",
            name="queues",
            field=django.contrib.postgres.fields.ArrayField(
                base_field=models.TextField(), null=True, size=None, verbose_name="queues"
            ),
        ),
    ]
