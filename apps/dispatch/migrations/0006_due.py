from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("dispatch", "0005_ending")]

    operations = [
        migrations.AddIndex(
            model_name="oncetask",
            index=models.Index(fields=["status", "start_at"], name="oncetask_due"),
        ),
    ]
