"""Empties the database after a test that commits, except for the rows that migrate creates; and
takes back what one case of several has written.

Django creates all content types, permissions and roles again after each such test, which takes
longer than most of these tests.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from django.contrib.auth.models import Group, Permission
from django.contrib.contenttypes.models import ContentType
from django.core.management import call_command
from django.core.management.color import no_style
from django.db import connection, models, transaction

from tests.caches import clear_caches

KEPT: list[type[models.Model]] = [ContentType, Permission, Group, Group.permissions.through]
# The rows of these tables as migrate created them, once they are known.
_made: list[list[tuple[Any, ...]]] = []


def empty_database(*_test_case: object) -> None:
    """In place of `TransactionTestCase._fixture_teardown`."""
    if _made != _kept_rows():
        call_command("flush", verbosity=0, interactive=False, reset_sequences=False)
        _made[:] = _kept_rows()
    kept = {model._meta.db_table for model in KEPT}
    names = connection.introspection.django_table_names(only_existing=True, include_views=False)
    tables = [name for name in names if name not in kept]
    connection.ops.execute_sql_flush(connection.ops.sql_flush(no_style(), tables))


def _kept_rows() -> list[list[tuple[Any, ...]]]:
    return [list(model._default_manager.order_by("pk").values_list()) for model in KEPT]


@contextmanager
def undone() -> Iterator[None]:
    """What is written within is taken back at the end, and what is cached of it forgotten."""
    try:
        with transaction.atomic():
            yield
            transaction.set_rollback(True)
    finally:
        clear_caches()
