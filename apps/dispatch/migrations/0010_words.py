from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('dispatch', '0009_part_of'),
    ]

    operations = [
        migrations.AlterModelOptions(
            name='stock',
            options={'verbose_name': 'quota', 'verbose_name_plural': 'quotas'},
        ),
        migrations.AlterField(
            model_name='archiveddispatch',
            name='holds_stock',
            field=models.BooleanField(default=True, verbose_name='counts to quota'),
        ),
        migrations.AlterField(
            model_name='dispatch',
            name='holds_stock',
            field=models.BooleanField(default=True, verbose_name='counts to quota'),
        ),
    ]
