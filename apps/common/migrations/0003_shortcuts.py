from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("common", "0002_preference")]

    operations = [
        migrations.AddField(
            model_name="preference",
            name="shortcuts",
            field=models.BooleanField(default=True),
        ),
    ]
