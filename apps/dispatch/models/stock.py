"""How often an occurrence has been handed out."""

from __future__ import annotations

from django.db import models
from django.db.models import F, OuterRef, Q
from django.utils.translation import gettext_lazy as _

from apps.common.fields import KeyField
from apps.common.rows import ensure_row
from apps.dispatch.models.task import Source


class StockQuerySet(models.QuerySet["Stock"]):
    def of(self, source: str, task: int | OuterRef, occurrence: int) -> StockQuerySet:
        """The row of one occurrence, if it has been handed out before."""
        return self.filter(source=source, task=task, occurrence=occurrence)

    def take(self, *, limit: int | None) -> int:
        """Count one more hand-out, unless `limit` are counted already; how many rows it changed."""
        rows = self if limit is None else self.filter(handed__lt=limit)
        return rows.update(handed=F("handed") + 1)

    def give_back(self) -> None:
        """Take one hand-out off the count, unless a person has set it to 0 meanwhile."""
        self.filter(handed__gt=0).update(handed=F("handed") - 1)

    def begin(self, source: str, task: int, occurrence: int) -> None:
        """Make the row with its first hand-out; IntegrityError when there is one."""
        self.create(source=source, task=task, occurrence=occurrence, handed=1)

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
