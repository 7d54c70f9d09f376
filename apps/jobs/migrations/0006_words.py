import apps.common.fields
from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("jobs", "0005_archive_rolls"),
    ]

    operations = [
        migrations.AlterField(
            model_name="jobtype",
            name="lane",
            field=apps.common.fields.KeyField(
                choices=[("fast", "fast"), ("slow", "slow")],
                default="fast",
                max_length=8,
                verbose_name="speed class",
            ),
        ),
        migrations.AlterField(
            model_name="worker",
            name="lanes",
            field=models.JSONField(default=list, verbose_name="speed classes"),
        ),
    ]
