"""Checks of migrations for a platform that is in use: during an update processes of the release
before go on reading and writing, and tables with millions of rows are not locked unawares.

`make check` refuses others. A migration that alters a large table or runs code says
`seconds_per_million = {"jobs.Job": 12}`: how long it takes for each million rows, {} for none. One
that takes a column or a table away says `unused_since = "0.4.0"`: the release that stopped using
it, which is the last one or earlier.
"""

from __future__ import annotations

import hashlib
import inspect
from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from django.apps import apps
from django.core.checks import CheckMessage, Error
from django.db.migrations import Migration, operations
from django.db.migrations.exceptions import NodeNotFoundError
from django.db.migrations.loader import MigrationLoader
from django.db.migrations.operations.base import Operation
from django.db.migrations.state import ProjectState
from django.db.models import NOT_PROVIDED, Field, Model

from apps.bulk.models import BulkRow
from apps.journal.models import SinkReject
from apps.reports.services.capacity import GROWING

# Of release 0.3.0: the last migration of each box and digest_of() it. A release sets them anew.
RELEASED: Mapping[str, tuple[str, str]] = {
    "access": ("0002_limited", "38d0b9348f19b7a0"),
    "alerts": ("0005_sealed", "a324ba6fa0839a12"),
    "bulk": ("0003_defaults", "a18578ddac5bc8bc"),
    "common": ("0006_sent_form", "82c531a2b81c88fe"),
    "dispatch": ("0007_words", "a08d62855c1a5fa3"),
    "jobs": ("0008_answers", "938f7685f2e287da"),
    "journal": ("0006_person", "bf3373d261148f22"),
    "reports": ("0001_initial", "16aba04e710adfda"),
    "schedules": ("0004_runs_of_jobs", "c7d4744a41c64539"),
}
# Tables that have millions of rows.
LARGE: set[type[Model]] = {*(each.model for each in GROWING), BulkRow, SinkReject}
_LABELS = {model._meta.label_lower: model._meta.label for model in LARGE}

_REMOVING = (
    *(operations.RemoveField, operations.RenameField, operations.DeleteModel),
    *(operations.RenameModel, operations.AlterModelTable),
)
_OWN_CODE = (operations.RunPython, operations.RunSQL)
# Operations that change nothing in the database, or at once.
_QUICK = (operations.AlterModelOptions, operations.AlterModelManagers, operations.RemoveIndex)


def check_migrations(**_: Any) -> Sequence[CheckMessage]:
    """Whether the migrations of the last release are as they were, and what later ones do."""
    loader = MigrationLoader(None)
    if changed := list(_changed(loader)):
        return changed
    released = {
        node
        for app, (name, _) in RELEASED.items()
        for node in loader.graph.forwards_plan((app, name))
    }
    added = {
        node: migration
        for node, migration in sorted(loader.disk_migrations.items())
        if node not in released and apps.get_app_config(node[0]).name.startswith("apps.")
    }
    new = {table for (app, _), each in added.items() for table in _tables_made_by(app, each)}
    return [
        error
        for node, migration in added.items()
        for error in errors_of(migration, loader.project_state(node, at_end=False), new)
    ]


def digest_of(loader: MigrationLoader, app: str, name: str) -> str:
    """The digest of the app's migrations up to this one; NodeNotFoundError without it."""
    steps = [node for node in loader.graph.forwards_plan((app, name)) if node[0] == app]
    files = [Path(inspect.getfile(type(loader.disk_migrations[step]))) for step in steps]
    return hashlib.sha256(b"".join(file.read_bytes() for file in files)).hexdigest()[:16]


def _changed(loader: MigrationLoader) -> Iterator[Error]:
    for app, (name, digest) in RELEASED.items():
        try:
            is_as_released = digest_of(loader, app, name) == digest
        except NodeNotFoundError:
            is_as_released = False
        if not is_as_released:
            yield Error(
                f"The migrations of {app} up to {name} are not those of the last release.",
                hint="Migrations are only added: put the files back, and write another one.",
                id="upgrades.E001",
            )


def errors_of(
    migration: Migration, state: ProjectState, new: Collection[str] = ()
) -> Iterator[Error]:
    """The errors of a migration, from the state before it on; `new` are the tables, as "jobs.job",
    that the last release does not have, with which anything may be done."""
    app = migration.app_label
    for operation in migration.operations:
        for each in getattr(operation, "database_operations", [operation]):
            table = f"{app}.{_model_of(each)}"
            if table not in new:
                for problem, hint, number in _faults(each, table, state, migration):
                    what = f"{app}.{migration.name}: {each.describe()}: {problem}"
                    yield Error(what, hint=hint, id=f"upgrades.{number}")
        operation.state_forwards(app, state)


def _faults(
    operation: Operation, table: str, state: ProjectState, migration: Migration
) -> Iterator[tuple[str, str, str]]:
    """The mistakes of an operation: the problem, the advice, and the number of the error."""
    if isinstance(operation, operations.AddField) and not _is_filled(operation.field):
        yield (
            "processes of the last release insert rows without this column.",
            "Give the field a db_default, or null=True.",
            "E002",
        )
    takes = isinstance(operation, _REMOVING) or _forbids_null(operation, table, state)
    if takes and not hasattr(migration, "unused_since"):
        yield (
            "processes of the last release still use what it takes away.",
            "Stop using it in one release and take it away in the next: the migration then says "
            'unused_since = "…" with that release.',
            "E003",
        )
    said = getattr(migration, "seconds_per_million", None)
    if table in _LABELS and not _is_quick(operation, table, state):
        if _LABELS[table] not in (said or {}):
            yield (
                f"{_LABELS[table]} has millions of rows, which wait or are written anew.",
                "Measure it on MariaDB and say in the migration "
                f'seconds_per_million = {{"{_LABELS[table]}": …}}, and in CHANGELOG.md.',
                "E004",
            )
    if isinstance(operation, _OWN_CODE) and said is None:
        yield (
            "what the code does to large tables is not known.",
            "Say in the migration seconds_per_million = {…} with the label of each large table "
            "that it reads or writes as a whole; {} for none.",
            "E004",
        )


def _model_of(operation: Operation) -> str:
    names = ("model_name", "old_name", "name")
    return next(
        (getattr(operation, name).lower() for name in names if getattr(operation, name, "")), ""
    )


def _tables_made_by(app: str, migration: Migration) -> Iterator[str]:
    for each in migration.operations:
        if isinstance(each, operations.CreateModel):
            yield f"{app}.{each.name_lower}"


def _is_filled(field: Field[Any, Any]) -> bool:
    """Whether a row has a value there that was inserted without one."""
    return field.many_to_many or field.null or field.db_default is not NOT_PROVIDED


def _is_quick(operation: Operation, table: str, state: ProjectState) -> bool:
    """Whether nobody waits for the operation, however many rows there are."""
    if isinstance(operation, operations.AlterField):
        return _in_database(_before(operation, table, state)) == _in_database(operation.field)
    return isinstance(operation, _QUICK)


def _forbids_null(operation: Operation, table: str, state: ProjectState) -> bool:
    if not isinstance(operation, operations.AlterField):
        return False
    return _before(operation, table, state).null and not operation.field.null


def _before(operation: operations.AlterField, table: str, state: ProjectState) -> Field[Any, Any]:
    app, _, model = table.partition(".")
    field: Field[Any, Any] = state.models[app, model].fields[operation.name]
    return field


def _in_database(field: Field[Any, Any]) -> tuple[Any, ...]:
    """The parts of the field that the database knows: not its label, for example."""
    _, path, args, options = field.deconstruct()
    unknown = {*field.non_db_attrs, "default"}
    return path, args, {name: value for name, value in options.items() if name not in unknown}
