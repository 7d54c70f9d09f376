"""Operators with scopes stay limited when their last scope goes."""

from django.db import migrations


def limit_operators(apps, schema_editor):
    scopes = apps.get_model("dispatch", "OperatorScope").objects.using(schema_editor.connection.alias)
    limits = apps.get_model("access", "Limited").objects.using(schema_editor.connection.alias)
    for operator_id in scopes.values_list("operator_id", flat=True).distinct():
        limits.get_or_create(person_id=operator_id, side="executors")


class Migration(migrations.Migration):
    dependencies = [("access", "0002_limited"), ("dispatch", "0001_initial")]

    operations = [migrations.RunPython(limit_operators, migrations.RunPython.noop)]
