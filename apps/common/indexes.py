"""Indexes that differ between databases."""

from __future__ import annotations

from typing import Any

from django.db import models
from django.db.backends.base.schema import BaseDatabaseSchemaEditor
from django.db.backends.ddl_references import Statement

# The schema editor runs every statement it gets, and MariaDB rejects an empty one.
NOTHING = "SELECT 1"


class VendorIndex(models.Index):
    """An index that exists on the named vendors only (`sqlite`, `mysql`).

    MariaDB has no partial indexes and ignores a condition; SQLite's planner, once ANALYZE has run
    on an empty queue, drops a full index for a scan but keeps a partial one.
    """

    def __init__(self, *expressions: Any, vendors: tuple[str, ...], **kwargs: Any) -> None:
        super().__init__(*expressions, **kwargs)
        self.vendors = tuple(vendors)

    def deconstruct(self) -> Any:
        path, expressions, kwargs = super().deconstruct()
        kwargs["vendors"] = self.vendors
        return path, expressions, kwargs

    def create_sql(
        self,
        model: type[models.Model],
        schema_editor: BaseDatabaseSchemaEditor,
        using: str = "",
        **kwargs: Any,
    ) -> Statement:
        if schema_editor.connection.vendor not in self.vendors:
            return Statement(NOTHING)
        return super().create_sql(model, schema_editor, using, **kwargs)

    def remove_sql(
        self, model: type[models.Model], schema_editor: BaseDatabaseSchemaEditor, **kwargs: Any
    ) -> Any:
        if schema_editor.connection.vendor not in self.vendors:
            return Statement(NOTHING)
        return super().remove_sql(model, schema_editor, **kwargs)
