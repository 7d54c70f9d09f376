"""Columns that a migration adds to a table that is there: processes of the release before go on
writing to it during an update, and know nothing of them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from django.apps import apps
from django.core.exceptions import FieldDoesNotExist
from django.db import connection
from django.db.migrations import AddField
from django.db.migrations.loader import MigrationLoader
from django.db.models import Field

pytestmark = [pytest.mark.django_db, pytest.mark.both]


def added_fields() -> Iterator[tuple[str, Field[Any, Any]]]:
    """Those that are still there, with the names of their tables."""
    for (app, _), migration in MigrationLoader(connection).disk_migrations.items():
        if type(migration).__module__.startswith("apps."):
            for operation in migration.operations:
                inner = getattr(operation, "database_operations", [])
                for each in (operation, *inner):
                    if isinstance(each, AddField):
                        try:
                            model = apps.get_model(app, each.model_name)
                            yield model._meta.db_table, model._meta.get_field(each.name)  # type: ignore[misc]
                        except (LookupError, FieldDoesNotExist):
                            continue


def test_added_columns_have_a_default_in_the_database(subtests: pytest.Subtests) -> None:
    found = [(table, field) for table, field in added_fields() if not field.many_to_many]
    assert len(found) > 5
    for table, field in found:
        with subtests.test(table=table, column=field.column), connection.cursor() as cursor:
            described = connection.introspection.get_table_description(cursor, table)
            [column] = [each for each in described if each.name == field.column]
            assert column.null_ok or column.default is not None, "give the field a db_default"
