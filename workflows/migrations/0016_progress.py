"""How far an instance is, in its author's words."""

import django.core.serializers.json
from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("holdpoint", "0015_dispatch"),
    ]

    operations = [
        migrations.AddField(
            model_name="instance",
            name="progress",
            field=models.JSONField(
                encoder=django.core.serializers.json.DjangoJSONEncoder, null=True, verbose_name="progress"
            ),
        ),
        migrations.AddField(
            model_name="instance",
            name="progress_at",
            field=models.DateTimeField(null=True),
        ),
    ]
