"""Draws the tables of each box as a diagram of Mermaid."""

from __future__ import annotations

from argparse import ArgumentParser
from collections.abc import Iterator
from typing import Any, TypeAlias

from django.apps import apps
from django.core.management.base import BaseCommand, CommandError
from django.db import models

from apps.reports.watches.tables import ROLLING
from taskplatform.upgrades import LARGE

Field: TypeAlias = "models.Field[Any, Any]"
_ROLLING = {each.model for each in ROLLING}
_TYPES = {"BigAuto": "bigint", "BigInteger": "bigint", "Auto": "int"}
_STATES = ("state", "status")


class Command(BaseCommand):
    """A table is drawn with the columns that place its rows: primary key (PK), unique keys (UK; a
    comment names columns that are unique together), those that lead to other tables (FK) and the
    state with its values. All others are in the models.

    A line leads from a row to those that name it, by the column that does. It is solid where the
    database holds them together by a foreign key, and dotted where a column only names a row, which
    may be gone. Tables of other boxes are drawn without columns.
    """

    help = "Prints the tables of the boxes as Mermaid: keys, references, states."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("box", nargs="*", help="such as jobs; all when none is named")

    def handle(self, *args: Any, **options: Any) -> None:
        own = [config for config in apps.get_app_configs() if config.name.startswith("apps.")]
        boxes = {config.label: config for config in own if config.models}
        for name in options["box"] or boxes:
            if name not in boxes:
                raise CommandError(f"There is no box {name} with tables. Name {', '.join(boxes)}.")
            found = list(boxes[name].get_models(include_auto_created=True))
            self.stdout.write("\n".join(["```mermaid", "erDiagram", *_box(found), "```"]))


def _box(found: list[type[models.Model]]) -> Iterator[str]:
    for model in sorted(found, key=_table):
        yield f"    {_table(model)}{_title(model)} {{"
        yield from _columns(model)
        yield "    }"
    for model in sorted(found, key=_table):
        yield from _arrows(model)


def _table(model: type[models.Model]) -> str:
    return str(model._meta.db_table)


def _title(model: type[models.Model]) -> str:
    """The name of the table, and remarks on its growth and partitions behind it; "" without any."""
    said = [_table(model)]
    said += ["grows with the work"] if model in LARGE else []
    said += ["rolls in partitions"] if model in _ROLLING else []
    return f'["{", ".join(said)}"]' if len(said) > 1 else ""


def _columns(model: type[models.Model]) -> Iterator[str]:
    together = list(_unique_together(model))
    keys = getattr(model._meta.pk, "field_names", (model._meta.pk.name,))
    for field in model._meta.local_concrete_fields:
        marks = ["PK"] if field.name in keys else []
        marks += ["UK"] if field.unique and not field.primary_key else []
        marks += ["FK"] if field.is_relation or field.name in _named(model) else []
        said = [f"unique: {', '.join(key)}" for key in together if key[0] == field.name]
        if field.name in _STATES:
            said += [", ".join(str(value) for value, _ in field.flatchoices)]
        if marks or said or any(field.name in key for key in together):
            comment = [f'"{"; ".join(said)}"'] if said else []
            keyed = [", ".join(marks)] if marks else []
            yield "        " + " ".join([_type(field), str(field.column), *keyed, *comment])


def _type(field: Field) -> str:
    held = field.target_field if isinstance(field, models.ForeignKey) else field
    kind = held.get_internal_type().removesuffix("Field")
    return _TYPES.get(kind, "int" if "Integer" in kind else "text")


def _unique_together(model: type[models.Model]) -> Iterator[tuple[str, ...]]:
    yield from (tuple(key) for key in model._meta.unique_together)
    for each in model._meta.constraints:
        if isinstance(each, models.UniqueConstraint):
            yield tuple(each.fields)


def _named(model: type[models.Model]) -> dict[str, tuple[str, ...]]:
    """The columns that name rows without being a relation, with their models."""
    return dict(getattr(model, "refers_to", {}))


def _arrows(model: type[models.Model]) -> Iterator[str]:
    relations: list[Any] = [each for each in model._meta.local_fields if each.is_relation]
    for field in relations:
        line = "--" if field.db_constraint else ".."
        yield _arrow(field.related_model, line, model, field)
    for name, targets in _named(model).items():
        for target in targets:
            yield _arrow(apps.get_model(target), "..", model, model._meta.get_field(name))
    for source in getattr(model, "archive_of", ()):
        yield f'    {_table(apps.get_model(source))} |o..o| {_table(model)} : "goes to the archive"'


def _arrow(target: type[models.Model], line: str, model: type[models.Model], field: Any) -> str:
    one, many = ("|o" if field.null else "||"), ("o|" if field.unique else "o{")
    return f'    {_table(target)} {one}{line}{many} {_table(model)} : "{field.name}"'
