"""Cuts the partitions of tables ahead, and drops those that are past their retention."""

from __future__ import annotations

from argparse import ArgumentParser
from datetime import timedelta
from typing import Any

from django.core.management.base import BaseCommand, CommandError

from apps.common import clock
from apps.common.partitions import CannotRoll
from apps.dispatch.services.roll import ROLLING as DISPATCHES
from apps.jobs.services.roll import ROLLING as JOBS
from apps.journal.services.retention import roll

_MINUTES = 60


class Command(BaseCommand):
    help = (
        "Does what the sweeps journal.roll, jobs.roll and dispatch.roll do: cuts the partitions of "
        "the journal and of the archives of jobs and dispatches ahead and drops those past "
        "JOURNAL_RETENTION, JOB_RETENTION and DISPATCH_RETENTION; on SQLite it deletes the "
        "entries. For platforms whose database user may not do that, each night as the user who "
        "owns the tables."
    )

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument(
            "--move",
            action="store_true",
            help="also when many rows have come since the last boundary; writers wait meanwhile",
        )

    def handle(self, *args: Any, **options: Any) -> None:
        try:
            done = roll(until=clock.now() + timedelta(minutes=_MINUTES), moves_rows=options["move"])
            jobs = JOBS.roll(moves_rows=options["move"])
            dispatches = DISPATCHES.roll(moves_rows=options["move"])
        except CannotRoll as error:
            raise CommandError(str(error)) from error
        self.stdout.write(
            f"journal: {done.cut} partitions cut, {done.dropped} dropped, {done.deleted:,} entries "
            "deleted"
        )
        for name, rolled in (("jobs", jobs), ("dispatches", dispatches)):
            self.stdout.write(
                f"archive of {name}: {rolled.cut} partitions cut, {rolled.dropped} dropped"
            )
