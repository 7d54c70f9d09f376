from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("dispatch", "0004_archive_rolls")]

    operations = [
        migrations.AddIndex(
            model_name="oncetask",
            index=models.Index(fields=["status", "end_at"], name="oncetask_ending"),
        ),
    ]
