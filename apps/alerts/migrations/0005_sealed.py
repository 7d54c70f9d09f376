import apps.common.sealed
from django.db import migrations


class Migration(migrations.Migration):

    dependencies = [
        ('alerts', '0004_waiting'),
    ]

    operations = [
        migrations.AlterField(
            model_name='channel',
            name='secret',
            field=apps.common.sealed.SealedField(blank=True, verbose_name='secret'),
        ),
        migrations.AlterField(
            model_name='channel',
            name='url',
            field=apps.common.sealed.SealedField(blank=True, verbose_name='address'),
        ),
    ]
