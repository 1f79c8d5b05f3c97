from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("holdpoint", "0007_told"),
    ]

    operations = [
        migrations.AddIndex(
            model_name="ledgerevent",
            index=models.Index(
                condition=models.Q(("seq__gt", 100)), fields=["instance", "seq"], name="holdpoint_ledger_long"
            ),
        ),
    ]
