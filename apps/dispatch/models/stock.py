"""How often an occurrence has been handed out."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import chain
from typing import ClassVar, TypeAlias

from django.db import models
from django.db.models import OuterRef, Q
from django.utils.translation import gettext_lazy as _

from apps.common.chunks import chunks
from apps.common.db import exclusive_lock, execute, fetch, table
from apps.common.fields import KeyField, References
from apps.common.rows import ensure_row, insert_values, update_rows
from apps.dispatch.models.task import Source

# A source, a task, an occurrence.
Occurrence: TypeAlias = tuple[str, int, int]
# SQLite takes a limited depth of conditions.
_AT_ONCE = 100
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

    def locked(self, occurrences: Iterable[Occurrence]) -> list[tuple[int, Occurrence, int]]:
        """The rows of these occurrences, locked until the transaction ends: id, occurrence and
        what is handed out. One statement for a hundred."""
        wanted = sorted(occurrences)
        rows = []
        for some in chunks(wanted, _AT_ONCE):
            rows += fetch(
                f"SELECT id, source, task, occurrence, handed FROM {table(Stock)} "
                f"WHERE {' OR '.join([f'({_IS_OF})'] * len(some))} ORDER BY id{exclusive_lock()}",
                [*chain.from_iterable(some)],
            )
        return [(pk, (source, task, at), handed) for pk, source, task, at, handed in rows]

    def give_back_each(self, counts: Mapping[Occurrence, int]) -> None:
        """Take so many hand-outs off the count of each occurrence, down to 0."""
        lowered = {
            pk: {"handed": max(0, handed - counts[occurrence])}
            for pk, occurrence, handed in self.locked(counts)
        }
        update_rows(Stock, lowered)

    def ensure(self, source: str, task: int, occurrence: int) -> None:
        """Make the row of an occurrence that has none yet."""
        row = {"source": source, "task": task, "occurrence": occurrence, "handed": 0}
        ensure_row(Stock, ["source", "task", "occurrence"], row)


class Stock(models.Model):
    """The hand-outs of one occurrence that count: `handed` = its dispatches with holds_stock."""

    refers_to: ClassVar[References] = {"task": ("dispatch.OnceTask", "dispatch.RotateTask")}

    source = KeyField(max_length=8, choices=Source.choices)
    task = models.BigIntegerField(_("task"))
    occurrence = models.BigIntegerField(_("occurrence"))
    handed = models.PositiveIntegerField(_("handed out"), default=0)

    objects = StockQuerySet.as_manager()

    class Meta:
        verbose_name = _("quota")
        verbose_name_plural = _("quotas")
        constraints = [
            models.UniqueConstraint(
                fields=["source", "task", "occurrence"], name="stock_once_per_occurrence"
            ),
            models.CheckConstraint(condition=Q(handed__gte=0), name="stock_handed_not_negative"),
        ]

    def __str__(self) -> str:
        return f"{self.source} {self.task}/{self.occurrence}: {self.handed}"
