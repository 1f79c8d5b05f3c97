from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("holdpoint", "0008_long_histories")]

    operations = [
        migrations.CreateModel(
            name="Renewal",
            fields=[
                ("instance_id", models.UUIDField(primary_key=True, serialize=False)),
                ("fence", models.IntegerField()),
                ("due_at", models.DateTimeField()),
            ],
            options={
                "db_table": "holdpoint_renewal",
                "abstract": False,
                "default_permissions": ("view",),
                "base_manager_name": "objects",
            },
        ),
        migrations.RunSQL("ALTER TABLE holdpoint_renewal SET UNLOGGED", migrations.RunSQL.noop),
    ]
