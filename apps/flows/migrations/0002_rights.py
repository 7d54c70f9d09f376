import apps.common.fields
from django.db import migrations, models


def name_targets(apps, schema_editor):
    """Of the steps of runs from before."""
    steps = apps.get_model("flows", "FlowStep").objects
    for run in apps.get_model("flows", "FlowRun").objects.only("definition").iterator(100):
        for step in run.definition["steps"]:
            if target := step.get("type") or step.get("executor"):
                steps.filter(run=run.pk, name=step["name"]).update(target=target)


class Migration(migrations.Migration):

    dependencies = [
        ('flows', '0001_initial'),
    ]

    # No release has runs of flows before this one.
    seconds_per_million = {}

    operations = [
        migrations.AlterModelOptions(
            name='flow',
            options={'default_permissions': ('view', 'add', 'change'), 'permissions': [('start_flow', 'Can start flows')], 'verbose_name': 'flow', 'verbose_name_plural': 'flows'},
        ),
        migrations.AlterModelOptions(
            name='flowrun',
            options={'default_permissions': ('view',), 'permissions': [('operate_flowrun', 'Can pause, resume, stop and retry runs of flows'), ('override_flow', 'Can skip and finish steps of runs of flows'), ('view_payload', 'Can see params and results of flows and their runs')], 'verbose_name': 'flow run', 'verbose_name_plural': 'flow runs'},
        ),
        migrations.AddField(
            model_name='flowstep',
            name='target',
            field=apps.common.fields.KeyField(blank=True, db_default='', default='', max_length=128, verbose_name='who or what'),
        ),
        migrations.RunPython(name_targets, migrations.RunPython.noop),
    ]
