import apps.common.fields
from django.db import migrations, models


def name_runs_without_jobs(apps, schema_editor):
    """How the jobs of the others ended is noted by the sweep."""
    runs = apps.get_model("schedules", "ScheduleRun").objects.filter(job=None)
    skipped = runs.filter(why="the job before it was still open")
    skipped.update(outcome="skipped")
    runs.filter(outcome="").update(outcome="refused")


class Migration(migrations.Migration):

    dependencies = [
        ('schedules', '0001_initial'),
    ]

    operations = [
        migrations.AddField(
            model_name='schedule',
            name='trouble',
            field=apps.common.fields.KeyField(blank=True, choices=[('', 'none'), ('unmade', 'last run made no job'), ('failing', 'last three jobs failed')], default='', editable=False, max_length=8, verbose_name='trouble'),
        ),
        migrations.AddField(
            model_name='schedulerun',
            name='outcome',
            field=apps.common.fields.KeyField(blank=True, default='', editable=False, max_length=12),
        ),
        migrations.AddIndex(
            model_name='schedule',
            index=models.Index(fields=['trouble'], name='schedule_trouble'),
        ),
        migrations.AddIndex(
            model_name='schedulerun',
            index=models.Index(fields=['outcome', 'id'], name='schedule_run_open'),
        ),
        migrations.RunPython(name_runs_without_jobs, migrations.RunPython.noop),
    ]
