"""One due instant of a task of the demo, and how often it is to be handed out."""

from __future__ import annotations

from datetime import datetime
from typing import NamedTuple

from django.utils import timezone

from apps.dispatch.models import Membership, OnceTask, RotateTask
from apps.dispatch.rules.queue import Identity
from apps.dispatch.rules.recurrence import occurrence_of


class Occurrence(NamedTuple):
    """A task with the instant that it is due at."""

    task: OnceTask | RotateTask
    at: datetime

    @property
    def identity(self) -> Identity:
        task = self.task
        number = occurrence_of(self.at) if isinstance(task, RotateTask) else task.occurrence
        return (task.source, task.pk, number)

    @property
    def title(self) -> str:
        """That of the task, for a rotation with the local time."""
        if isinstance(self.task, RotateTask):
            return f"{self.task.title} at {timezone.localtime(self.at):%H:%M}"
        return self.task.title

    @property
    def quota(self) -> int:
        """How often it is to be handed out in all, "every member once" counted."""
        task = self.task
        if task.dispatch_times is not None:
            return task.dispatch_times
        if not task.executor.is_group:
            return 1
        return Membership.objects.filter(group=task.executor, user__enabled=True).count()
