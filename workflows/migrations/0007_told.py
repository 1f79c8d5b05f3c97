from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("holdpoint", "0006_lists"),
    ]

    operations = [
        migrations.AddField(
            model_name="storedanswer",
            name="workflow",
            field=models.TextField(null=True, verbose_name="workflow"),
        ),
    ]
