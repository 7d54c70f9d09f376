from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('alerts', '0003_report_plans'),
    ]

    operations = [
        migrations.AddField(
            model_name='delivery',
            name='next_at',
            field=models.DateTimeField(editable=False, null=True),
        ),
        migrations.AddField(
            model_name='delivery',
            name='taken_until',
            field=models.DateTimeField(editable=False, null=True),
        ),
        migrations.AddField(
            model_name='delivery',
            name='tries',
            field=models.PositiveSmallIntegerField(db_default=0, default=0, editable=False),
        ),
        migrations.AddIndex(
            model_name='delivery',
            index=models.Index(fields=['state', 'created_at'], name='delivery_waiting'),
        ),
    ]
