"""Every text column of the platform on MariaDB has the one collation, and every connection."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from django.contrib.auth.models import Group
from django.core.management import call_command

from apps.common.db import execute, fetch
from apps.common.fields import COLLATION
from apps.dispatch.models import OnceTask
from apps.journal.models import JournalEntry

pytestmark = [pytest.mark.mariadb, pytest.mark.django_db(transaction=True)]

TABLES = [model._meta.db_table for model in (Group, OnceTask, JournalEntry)]


_COLUMNS = (
    "SELECT table_name, column_name, collation_name FROM information_schema.columns "
    "WHERE table_schema = DATABASE() AND collation_name "
)


def odd_columns() -> list[tuple[str, ...]]:
    return fetch(f"{_COLUMNS} <> %s", [COLLATION])


@pytest.fixture
def table_of_an_extra_app() -> Iterator[None]:
    execute("CREATE TABLE shop_item (name VARCHAR(9) COLLATE utf8mb4_general_ci)")
    yield
    execute("DROP TABLE shop_item")


def test_text_columns_and_connections_have_one_collation() -> None:
    assert odd_columns() == []
    assert len(fetch(f"{_COLUMNS} = %s", [COLLATION])) > 200
    assert fetch("SELECT @@collation_connection, 'A' = 'a'") == [(COLLATION, 0)]


@pytest.mark.usefixtures("table_of_an_extra_app")
def test_update_gives_it_to_tables_from_before_and_to_no_others() -> None:
    for table in TABLES:
        execute(f"ALTER TABLE {table} CONVERT TO CHARACTER SET utf8mb4 COLLATE utf8mb4_general_ci")
    execute(f"ALTER TABLE {TABLES[1]} DEFAULT COLLATE utf8mb4_bin")
    Group.objects.create(name="Shops")
    assert {table for table, *_ in odd_columns()} == {*TABLES, "shop_item"}
    call_command("migrate", verbosity=0)
    assert odd_columns() == [("shop_item", "name", "utf8mb4_general_ci")]
    assert not Group.objects.filter(name="shops").exists()
