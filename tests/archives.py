"""The archives of jobs and of dispatches by the same words, for tests of what holds for both."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from django.db import models

from apps.common.rolling import RollingArchive
from apps.dispatch import sweeps as dispatch_sweeps
from apps.dispatch.models import ArchivedDispatch, Dispatch
from apps.dispatch.models.dispatch_columns import COLUMNS as DISPATCH_COLUMNS
from apps.dispatch.services import retention
from apps.dispatch.services.roll import ROLLING as DISPATCHES_ROLL
from apps.jobs import sweeps as job_sweeps
from apps.jobs.models import ArchivedJob, Job
from apps.jobs.models.job_columns import COLUMNS as JOB_COLUMNS
from apps.jobs.services import archive
from apps.jobs.services.roll import ROLLING as JOBS_ROLL
from tests import factories, history
from tests.integration.dispatch import housekeeping


class Archive(NamedTuple):
    """`begin` makes what its rows stand on; `ended` makes live rows that ended long ago, `archived`
    moved ones, and both return their numbers; `move` and `forget` return how many went."""

    rows: str
    live: type[models.Model]
    there: type[models.Model]
    columns: Sequence[str]
    rolling: RollingArchive
    mover: str
    begin: Callable[[], object]
    ended: Callable[..., list[int]]
    archived: Callable[..., list[int]]
    move: Callable[[], int]
    forget: Callable[[], int]
    roll: Any
    unite: Callable[[], None]
    audit: Callable[[], None] = lambda: None

    def where(self, number: int) -> list[str]:
        """The tables that have the row, `live` and `archive`."""
        tables = {"live": self.live, "archive": self.there}
        return [
            name
            for name, model in tables.items()
            if model._default_manager.filter(pk=number).exists()
        ]

    def count(self) -> int:
        return self.there._default_manager.count()


ARCHIVES = {
    "jobs": Archive(
        "jobs",
        *(Job, ArchivedJob, JOB_COLUMNS, JOBS_ROLL, archive.SWEEP, factories.job_type),
        *(history.ended, history.archived, history.move, history.forget),
        *(job_sweeps.roll, history.unite_archive),
    ),
    "dispatches": Archive(
        "dispatches",
        *(Dispatch, ArchivedDispatch, DISPATCH_COLUMNS, DISPATCHES_ROLL, retention.SWEEP),
        factories.user,
        *(housekeeping.ended, housekeeping.archived),
        lambda: housekeeping.purge()["dispatches"],
        lambda: housekeeping.purge()["archived_dispatches"],
        dispatch_sweeps.roll,
        lambda: history.unite_archive("dispatch_archived"),
        housekeeping.audit,
    ),
}
