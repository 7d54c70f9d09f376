"""How often an occurrence has been handed out."""

from __future__ import annotations

from django.db import models
from django.db.models import OuterRef, Q
from django.utils.translation import gettext_lazy as _

from apps.common.db import Statement, table
from apps.common.fields import KeyField
from apps.common.rows import ensure_row, values_insertion
from apps.dispatch.models.task import Source


class StockQuerySet(models.QuerySet["Stock"]):
    def of(self, source: str, task: int | OuterRef, occurrence: int) -> StockQuerySet:
        """The row of one occurrence, if it has been handed out before."""
        return self.filter(source=source, task=task, occurrence=occurrence)

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

    @staticmethod
    def taking(source: str, task: int, occurrence: int, *, at_most: int | None) -> Statement:
        """What counts one hand-out, unless `at_most` are counted already or there is no row yet."""
        sql = (
            f"UPDATE {table(Stock)} SET handed = handed + 1 "
            "WHERE source = %s AND task = %s AND occurrence = %s"
        )
        parameters: list[object] = [source, task, occurrence]
        if at_most is not None:
            sql += " AND handed < %s"
            parameters.append(at_most)
        return sql, parameters

    @staticmethod
    def beginning(source: str, task: int, occurrence: int) -> Statement:
        """What makes the row of an occurrence with its first hand-out; IntegrityError if it has
        one."""
        names = ("source", "task", "occurrence", "handed")
        return values_insertion(Stock, names, [(source, task, occurrence, 1)])

    @staticmethod
    def giving_back(source: str, task: int, occurrence: int) -> Statement:
        """What takes one hand-out off the count, unless a person has set it to 0 meanwhile."""
        return (
            f"UPDATE {table(Stock)} SET handed = handed - 1 "
            "WHERE source = %s AND task = %s AND occurrence = %s AND handed > 0",
            [source, task, occurrence],
        )
