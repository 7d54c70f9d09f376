from django.db import migrations

from apps.common.partitions import rolling


class Migration(migrations.Migration):

    # MariaDB and MySQL commit before and after it anyway.
    atomic = False

    dependencies = [
        ('dispatch', '0003_archive'),
    ]

    operations = [rolling('dispatch', 'ArchivedDispatch')]
