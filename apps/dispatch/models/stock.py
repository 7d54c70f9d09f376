"""How often an occurrence has been handed out."""

from __future__ import annotations

from django.db import models
from django.db.models import OuterRef, Q
from django.utils.translation import gettext_lazy as _

from apps.common.db import execute, table
from apps.common.fields import KeyField
from apps.common.rows import ensure_row, insert_values
from apps.dispatch.models.task import Source

_IS_OF = "source = %s AND task = %s AND occurrence = %s"


class StockQuerySet(models.QuerySet["Stock"]):
    def of(self, source: str, task: int | OuterRef, occurrence: int) -> StockQuerySet:
        """The row of one occurrence, if it has been handed out before."""
        return self.filter(source=source, task=task, occurrence=occurrence)

    # In SQL, because with the ORM a claim takes twice as long.
    def begin(self, source: str, task: int, occurrence: int) -> None:
        """Make the row with its first hand-out; IntegrityError when there is one."""
        insert_values(
            Stock, ("source", "task", "occurrence", "handed"), [(source, task, occurrence, 1)]
        )

    def take(self, source: str, task: int, occurrence: int, *, limit: int | None) -> bool:
        """Count one more hand-out; False when `limit` are counted already or there is no row."""
        guard, bound = ("", []) if limit is None else (" AND handed < %s", [limit])
        sql = f"UPDATE {table(Stock)} SET handed = handed + 1 WHERE {_IS_OF}{guard}"
        return bool(execute(sql, [source, task, occurrence, *bound]))

    def give_back(self, source: str, task: int, occurrence: int) -> None:
        """Take one hand-out off the count, unless a person has set it to 0 meanwhile."""
        sql = f"UPDATE {table(Stock)} SET handed = handed - 1 WHERE {_IS_OF} AND handed > 0"
        execute(sql, [source, task, occurrence])

    def ensure(self, source: str, task: int, occurrence: int) -> None:
        """Make the row of an occurrence that has none yet."""
        row = {"source": source, "task": task, "occurrence": occurrence, "handed": 0}
        ensure_row(Stock, ["source", "task", "occurrence"], row)


class Stock(models.Model):
    """The hand-outs of one occurrence that count: `handed` = its dispatches with holds_stock."""

    source = KeyField(max_length=8, choices=Source.choices)
    task = models.BigIntegerField(_("task"))
    occurrence = models.BigIntegerField(_("occurrence"))
    handed = models.PositiveIntegerField(_("handed out"), default=0)

    objects = StockQuerySet.as_manager()

    class Meta:
        verbose_name = _("stock")
        verbose_name_plural = _("stocks")
        constraints = [
            models.UniqueConstraint(
                fields=["source", "task", "occurrence"], name="stock_once_per_occurrence"
            ),
            models.CheckConstraint(condition=Q(handed__gte=0), name="stock_handed_not_negative"),
        ]

    def __str__(self) -> str:
        return f"{self.source} {self.task}/{self.occurrence}: {self.handed}"
