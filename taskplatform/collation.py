"""One collation for all text columns of the platform on MariaDB and MySQL, whoever defined them."""

from __future__ import annotations

from django.apps import apps
from django.conf import settings
from django.db import connection, models
from django.db.migrations.recorder import MigrationRecorder

from apps.common.db import execute, fetch, placeholders
from apps.common.fields import COLLATION

# Tables that the release before uses alone.
_BEFORE = ("alerts_reportplan", "alerts_reportrun")


def hold(**_signal: object) -> None:
    """Give the tables the collation where they have another one; those of EXTRA_APPS are left.

    Receiver of post_migrate, because packages make tables, too. MariaDB changes a column without
    an index at once, whatever the table holds, and only small tables have an index on others.
    """
    if connection.vendor != "mysql":
        return
    names = _names()
    odd = fetch(
        "SELECT table_name FROM information_schema.tables WHERE table_schema = DATABASE() "
        f"AND table_name IN ({placeholders(len(names))}) AND (table_collation <> %s OR table_name "
        "IN (SELECT table_name FROM information_schema.columns WHERE table_schema = DATABASE() "
        "AND collation_name <> %s))",
        [*names, COLLATION, COLLATION],
    )
    for [name] in odd:
        quoted = connection.ops.quote_name(name)
        execute(f"ALTER TABLE {quoted} CONVERT TO CHARACTER SET utf8mb4 COLLATE {COLLATION}")


def _names() -> list[str]:
    platform: list[type[models.Model]] = [
        model
        for config in apps.get_app_configs()
        if not any(f"{each}.".startswith(f"{config.name}.") for each in settings.EXTRA_APPS)
        for model in config.get_models(include_auto_created=True)
    ]
    platform.append(MigrationRecorder.Migration)
    return [*(each._meta.db_table for each in platform), *_BEFORE]
