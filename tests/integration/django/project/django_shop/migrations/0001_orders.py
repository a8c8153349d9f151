"""Makes the table of orders."""

from __future__ import annotations

from django.db import migrations, models


class Migration(migrations.Migration):
    operations = (
        migrations.CreateModel(
            "Order",
            [
                ("id", models.BigAutoField(primary_key=True)),
                ("customer", models.CharField(max_length=100)),
                ("state", models.CharField(max_length=20, default="new")),
            ],
        ),
    )
