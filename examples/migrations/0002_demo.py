from django.db import migrations, models

import examples.models


class Migration(migrations.Migration):
    dependencies = [
        ("holdpoint_examples", "0001_initial"),
    ]

    operations = [
        migrations.CreateModel(
            name="Access",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("person", models.CharField(max_length=100)),
                ("system", models.CharField(max_length=50)),
                (
                    "level",
                    models.CharField(
                        choices=[("none", "None"), ("read", "Read"), ("write", "Read and write")],
                        default="none",
                        max_length=10,
                    ),
                ),
                ("areas", models.CharField(blank=True, max_length=200)),
                ("until", models.DateField(null=True)),
            ],
            options={
                "verbose_name_plural": "access",
            },
        ),
        migrations.CreateModel(
            name="Paper",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("label", models.CharField(max_length=100)),
                ("file", models.FileField(storage=examples.models.choose_storage, unique=True, upload_to="")),
            ],
        ),
        migrations.CreateModel(
            name="Service",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("name", models.CharField(max_length=50, unique=True)),
                ("version", models.CharField(max_length=20)),
                ("replicas", models.PositiveIntegerField(default=2)),
                ("released_on", models.DateField(null=True, verbose_name="released on")),
            ],
        ),
        migrations.AddField(
            model_name="supplier",
            name="account",
            field=models.CharField(blank=True, max_length=40, verbose_name="bank account"),
        ),
        migrations.AddField(
            model_name="supplier",
            name="bank",
            field=models.CharField(blank=True, max_length=50, verbose_name="bank"),
        ),
    ]
