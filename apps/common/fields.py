"""Field types that behave the same on every database."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, TypeAlias

from django.conf import settings
from django.core.validators import RegexValidator
from django.db import models
from django.db.backends.base.base import BaseDatabaseWrapper
from django.db.models.sql.compiler import SQLCompiler
from django.utils.translation import gettext_lazy as _

from apps.common.readers import KEY_PATTERN

if TYPE_CHECKING:
    TextField = models.CharField[str, str]
else:
    # Django's fields are generic for type checkers only.
    TextField = models.CharField

# The collation of all text columns on MariaDB and MySQL, and of connections: texts are equal only
# if they are the same.
COLLATION = "utf8mb4_bin"
# Columns that name a row of other models ("jobs.JobType") without a foreign key, because an insert
# would wait for the writers of that row or because it may be gone.
References: TypeAlias = Mapping[str, tuple[str, ...]]


class KeyField(TextField):
    """A key that people and programs compare: uid, gid, type, token.

    ASCII without blanks and, on MariaDB and MySQL, a binary collation: `a`, `A`, `á` and `a ` are
    four keys there too, as they are in Redis, SQLite and Python.
    """

    default_validators = [
        RegexValidator(
            rf"\A{KEY_PATTERN}\Z",
            _("Only letters, digits and _ . : @ / + - are allowed, without blanks."),
        )
    ]

    def db_parameters(self, connection: BaseDatabaseWrapper) -> dict[str, Any]:
        parameters: dict[str, Any] = dict(super().db_parameters(connection))
        if connection.vendor == "mysql":
            parameters["collation"] = COLLATION
        return parameters


class UtcNow(models.Func):
    """The database's clock, in UTC whatever time zone the writing connection has set.

    For defaults of columns that other programs fill; the ORM's `Now` is in the connection's zone.
    """

    function = "UTC_TIMESTAMP"
    template = "%(function)s(6)"
    output_field = models.DateTimeField()

    def as_sqlite(
        self, compiler: SQLCompiler, connection: BaseDatabaseWrapper, **context: Any
    ) -> tuple[str, Any]:
        # The form of the times that Django writes there; the text is formatted twice.
        form = "STRFTIME('%%%%Y-%%%%m-%%%%d %%%%H:%%%%M:%%%%f000', 'NOW')"
        return self.as_sql(compiler, connection, template=form, **context)


def default_time_zone() -> str:
    """The default of columns: the time zone of the installation."""
    return str(settings.TIME_ZONE)
