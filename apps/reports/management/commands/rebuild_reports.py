"""Adds the figures of the reports up anew from the journal."""

from __future__ import annotations

from argparse import ArgumentParser
from typing import Any

from django.core.management.base import BaseCommand, CommandError

from apps.common import clock
from apps.common.arguments import add_period, period_of
from apps.reports.services.rollup import rebuild, rebuilt_from


class Command(BaseCommand):
    help = (
        "Adds the figures of the reports up anew from the journal, for a period that has been "
        "added up before; for entries that came later than JOURNAL_LATE allows. Reports and the "
        "sweep go on meanwhile."
    )

    def add_arguments(self, parser: ArgumentParser) -> None:
        add_period(parser)

    def handle(self, *args: Any, **options: Any) -> None:
        start, end = period_of(options)
        since = rebuilt_from()
        if since is not None and since > clock.now():
            raise CommandError(
                "Entries have been removed from the journal up to today, so no figures can be "
                "added up anew; those that are stored stay as they are."
            )
        if since is not None and start < since:
            raise CommandError(
                "Older entries have been removed from the journal, so their figures cannot be "
                f"added up anew; take --from {since:%Y-%m-%d} or later."
            )
        batches = 0
        for part in rebuild(start, end):
            batches += 1
            self.stdout.write(f"{part.start:%Y-%m-%d %H:%M} to {part.end:%Y-%m-%d %H:%M} UTC")
        if not batches:
            self.stdout.write("Nothing of that period has been added up yet; the sweep will do it.")
