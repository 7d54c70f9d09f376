"""Cuts the partitions of tables ahead, and drops those that are past their retention."""

from __future__ import annotations

from argparse import ArgumentParser
from datetime import timedelta
from typing import Any

from django.core.management.base import BaseCommand, CommandError

from apps.common import clock
from apps.common.partitions import CannotRoll
from apps.jobs.services.roll import roll as roll_archive
from apps.journal.services.retention import roll

_MINUTES = 60


class Command(BaseCommand):
    help = (
        "Does what the sweeps journal.roll and jobs.roll do: cuts the partitions of the journal "
        "and of the archive of jobs ahead and drops those past JOURNAL_RETENTION and "
        "JOB_RETENTION; on SQLite it deletes the entries. For platforms whose database user may "
        "not do that, each night as the user who owns the tables."
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
            jobs = roll_archive(moves_rows=options["move"])
        except CannotRoll as error:
            raise CommandError(str(error)) from error
        self.stdout.write(
            f"journal: {done.cut} partitions cut, {done.dropped} dropped, {done.deleted:,} entries "
            "deleted"
        )
        self.stdout.write(f"archive of jobs: {jobs.cut} partitions cut, {jobs.dropped} dropped")
