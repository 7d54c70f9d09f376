import apps.common.fields
from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("dispatch", "0006_due"),
    ]

    operations = [
        migrations.AlterModelOptions(
            name="rotatetask",
            options={"verbose_name": "rotation", "verbose_name_plural": "rotations"},
        ),
        migrations.AlterField(
            model_name="archiveddispatch",
            name="source",
            field=apps.common.fields.KeyField(
                choices=[("once", "once task"), ("rotate", "rotation")],
                max_length=8,
                verbose_name="source",
            ),
        ),
        migrations.AlterField(
            model_name="archivedtask",
            name="source",
            field=apps.common.fields.KeyField(
                choices=[("once", "once task"), ("rotate", "rotation")],
                max_length=8,
                verbose_name="source",
            ),
        ),
        migrations.AlterField(
            model_name="dispatch",
            name="source",
            field=apps.common.fields.KeyField(
                choices=[("once", "once task"), ("rotate", "rotation")],
                max_length=8,
                verbose_name="source",
            ),
        ),
        migrations.AlterField(
            model_name="rotatetask",
            name="misfire",
            field=apps.common.fields.KeyField(
                choices=[
                    ("skip", "skip: only the current occurrence"),
                    ("once", "once: the newest missed one, too"),
                    ("all", "all: the newest missed ones up to the limit, too"),
                ],
                default="skip",
                max_length=8,
                verbose_name="missed runs",
            ),
        ),
        migrations.AlterField(
            model_name="rotatetask",
            name="misfire_limit",
            field=models.PositiveSmallIntegerField(
                default=10, help_text="Only for “all”.", verbose_name="runs to catch up"
            ),
        ),
        migrations.AlterField(
            model_name="stock",
            name="source",
            field=apps.common.fields.KeyField(
                choices=[("once", "once task"), ("rotate", "rotation")], max_length=8
            ),
        ),
    ]
