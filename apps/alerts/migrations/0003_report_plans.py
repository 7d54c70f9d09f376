import apps.alerts.models
import apps.common.fields
import django.db.models.deletion
from django.conf import settings
from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('alerts', '0002_kinds'),
        migrations.swappable_dependency(settings.AUTH_USER_MODEL),
    ]

    operations = [
        migrations.AlterField(
            model_name='delivery',
            name='event',
            field=apps.common.fields.KeyField(choices=[('alert.firing', 'firing'), ('alert.resolved', 'resolved'), ('alert.digest', 'digest'), ('test', 'test'), ('report', 'report')], max_length=16, verbose_name='event'),
        ),
        migrations.CreateModel(
            name='ReportPlan',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('version', models.PositiveIntegerField(default=1, editable=False)),
                ('created_at', models.DateTimeField(editable=False, verbose_name='created')),
                ('created_by', models.CharField(blank=True, editable=False, max_length=160)),
                ('updated_at', models.DateTimeField(editable=False, verbose_name='changed')),
                ('updated_by', models.CharField(blank=True, editable=False, max_length=160)),
                ('title', models.CharField(max_length=100, verbose_name='title')),
                ('query', models.CharField(max_length=1000, verbose_name='report')),
                ('rule', models.JSONField(verbose_name='rule')),
                ('time_zone', apps.common.fields.KeyField(default=apps.alerts.models.default_time_zone, max_length=64, verbose_name='time zone')),
                ('enabled', models.BooleanField(default=True, verbose_name='enabled')),
                ('start_at', models.DateTimeField(editable=False)),
                ('next_at', models.DateTimeField(editable=False, null=True, verbose_name='next time')),
                ('channels', models.ManyToManyField(blank=True, to='alerts.channel', verbose_name='channels')),
                ('owner', models.ForeignKey(editable=False, null=True, on_delete=django.db.models.deletion.SET_NULL, related_name='+', to=settings.AUTH_USER_MODEL, verbose_name='owner')),
            ],
            options={
                'verbose_name': 'report plan',
                'verbose_name_plural': 'report plans',
            },
        ),
        migrations.CreateModel(
            name='ReportRun',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('occurrence', models.BigIntegerField()),
                ('at', models.DateTimeField(verbose_name='planned for')),
                ('why', models.CharField(blank=True, max_length=300, verbose_name='why not')),
                ('plan', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='runs', to='alerts.reportplan', verbose_name='report plan')),
            ],
            options={
                'verbose_name': 'report run',
                'verbose_name_plural': 'report runs',
                'default_permissions': (),
            },
        ),
        migrations.AddField(
            model_name='delivery',
            name='report',
            field=models.ForeignKey(null=True, on_delete=django.db.models.deletion.CASCADE, related_name='deliveries', to='alerts.reportrun', verbose_name='report'),
        ),
        migrations.AddConstraint(
            model_name='delivery',
            constraint=models.UniqueConstraint(fields=('report', 'channel'), name='delivery_report_once'),
        ),
        migrations.AddIndex(
            model_name='reportplan',
            index=models.Index(fields=['next_at'], name='report_plan_due'),
        ),
        migrations.AddIndex(
            model_name='reportrun',
            index=models.Index(fields=['at'], name='report_run_at'),
        ),
        migrations.AddConstraint(
            model_name='reportrun',
            constraint=models.UniqueConstraint(fields=('plan', 'occurrence'), name='report_run_once'),
        ),
    ]
