import apps.common.fields
from django.db import migrations


class Migration(migrations.Migration):

    dependencies = [
        ('alerts', '0001_initial'),
    ]

    operations = [
        migrations.AlterField(
            model_name='alertrule',
            name='kind',
            field=apps.common.fields.KeyField(choices=[('failure_rate', 'failure rate: too many jobs of a type fail'), ('oldest_due', 'longest due: a job of a type waits too long'), ('worker_silent', 'silent worker, or type that nobody serves'), ('quota_unfilled', 'unfilled quota: a task ends within the hour'), ('sweep_overdue', 'overdue sweep'), ('breaker_open', 'open breaker'), ('backlog_growth', 'growing backlog: more jobs come than end'), ('schedule_failed', 'failing schedule: a run made no job, or three jobs in a row failed')], max_length=16, verbose_name='kind'),
        ),
    ]
