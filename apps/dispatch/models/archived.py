"""The archive: dispatches that ended and tasks that were over some time ago."""

from __future__ import annotations

from typing import ClassVar

from django.db import models
from django.utils.translation import gettext_lazy as _

from apps.common.fields import KeyField
from apps.common.shaped import ShapedField
from apps.dispatch.models.dispatch_columns import AnyDispatchQuerySet, DispatchColumns
from apps.dispatch.models.executor import Executor
from apps.dispatch.models.task import Source, TaskQuerySet
from apps.dispatch.rules.task import MAX_TITLE


class ArchivedDispatch(DispatchColumns):
    """A dispatch that ended DISPATCH_ARCHIVE_AFTER ago or earlier; it never comes back.

    On MariaDB and MySQL it is partitioned by id.
    """

    archive_of: ClassVar[tuple[str, ...]] = ("dispatch.Dispatch",)

    archived_at = models.DateTimeField(_("older since"))

    objects = AnyDispatchQuerySet.as_manager()

    class Meta:
        db_table = "dispatch_archived"
        verbose_name = _("older dispatch")
        verbose_name_plural = _("older dispatches")
        # Who may see dispatches may do so here.
        default_permissions = ()
        indexes = [
            # As in the live table: dispatches of one executor and of one task, newest first.
            models.Index(fields=["executor", "id"], name="archived_of_executor"),
            models.Index(fields=["source", "task", "id"], name="archived_of_task"),
        ]


class ArchivedTask(models.Model):
    """A task that was over TASK_ARCHIVE_AFTER ago or earlier, as it was; restoring brings it back.

    `task` is its id among the tasks of its source, `body` its columns by name, instants in ISO
    8601. Ids ascend in the order of archiving.
    """

    archive_of: ClassVar[tuple[str, ...]] = ("dispatch.OnceTask", "dispatch.RotateTask")

    source = KeyField(_("source"), max_length=8, choices=Source.choices)
    task = models.BigIntegerField(_("task"))
    title = models.CharField(_("title"), max_length=MAX_TITLE)
    executor = models.ForeignKey(
        Executor,
        models.PROTECT,
        db_constraint=False,
        db_index=False,
        related_name="archived_tasks",
        verbose_name=_("who"),
    )
    start_at = models.DateTimeField(_("start"))
    end_at = models.DateTimeField(_("end"), null=True)
    body = ShapedField(_("body"))
    archived_at = models.DateTimeField(_("older since"))

    objects = TaskQuerySet.as_manager()

    class Meta:
        db_table = "dispatch_archived_task"
        verbose_name = _("older task")
        verbose_name_plural = _("older tasks")
        default_permissions = ()
        constraints = [
            models.UniqueConstraint(fields=["source", "task"], name="archived_task_once"),
        ]
        indexes = [
            # Tasks that were planned for an executor, and for anybody, in a period.
            models.Index(fields=["executor", "start_at"], name="archived_task_executor"),
            models.Index(fields=["start_at"], name="archived_task_start"),
        ]

    def __str__(self) -> str:
        return self.title
