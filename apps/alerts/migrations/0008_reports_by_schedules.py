import django.db.models.deletion
from django.conf import settings
from django.db import migrations, models


class Migration(migrations.Migration):
    """Report plans become schedules. The tables and columns of release 0.3.0 stay as they are, for
    its processes and for a way back; nothing here knows them any more after the next migration."""

    dependencies = [
        ('alerts', '0007_flows'),
        ('schedules', '0005_words'),
        migrations.swappable_dependency(settings.AUTH_USER_MODEL),
    ]

    operations = [
        # Accounts may be deleted whatever the old table says.
        migrations.AlterField(
            model_name='reportplan',
            name='owner',
            field=models.ForeignKey(db_constraint=False, editable=False, null=True, on_delete=django.db.models.deletion.SET_NULL, related_name='+', to=settings.AUTH_USER_MODEL, verbose_name='owner'),
        ),
        migrations.SeparateDatabaseAndState(
            state_operations=[
                migrations.RemoveField(model_name='reportplan', name='channels'),
                migrations.RenameModel(old_name='ReportPlan', new_name='OldReportPlan'),
                migrations.AlterModelTable(name='oldreportplan', table='alerts_reportplan'),
            ],
        ),
        migrations.CreateModel(
            name='ReportPlan',
            fields=[
                ('schedule_ptr', models.OneToOneField(auto_created=True, on_delete=django.db.models.deletion.CASCADE, parent_link=True, primary_key=True, serialize=False, to='schedules.schedule')),
                ('query', models.CharField(max_length=1000, verbose_name='report')),
                ('channels', models.ManyToManyField(blank=True, to='alerts.channel', verbose_name='channels')),
                ('owner', models.ForeignKey(null=True, on_delete=django.db.models.deletion.SET_NULL, related_name='+', to=settings.AUTH_USER_MODEL, verbose_name='owner')),
            ],
            options={
                'verbose_name': 'report plan',
                'verbose_name_plural': 'report plans',
                'db_table': 'alerts_report',
            },
            bases=('schedules.schedule',),
        ),
        migrations.AddConstraint(
            model_name='delivery',
            constraint=models.UniqueConstraint(fields=('job', 'channel'), name='delivery_once'),
        ),
    ]
