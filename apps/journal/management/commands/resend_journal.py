"""Sends a part of the journal to a sink again."""

from __future__ import annotations

from argparse import ArgumentParser
from typing import Any

from django.core.management.base import BaseCommand, CommandError

from apps.common.arguments import add_period, period_of
from apps.journal.services import carry
from apps.journal.sinks import Unavailable


class Command(BaseCommand):
    help = (
        "Sends the entries of a period to a sink of JOURNAL_SINKS again, or for the first time: "
        "those from before the sink was set up, those that a sink has lost, and those that were "
        "committed later than JOURNAL_LATE allows. The sweep goes on meanwhile."
    )

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("sink", help="its name in JOURNAL_SINKS")
        add_period(parser)

    def handle(self, *args: Any, **options: Any) -> None:
        name, (start, end) = options["sink"], period_of(options)
        known = carry.sinks()
        if name not in known:
            raise CommandError(
                f"JOURNAL_SINKS has no sink {name}; it has: {', '.join(known) or 'none'}."
            )
        sent = 0
        try:
            for count in carry.resend(known[name], start, end):
                sent += count
                self.stdout.write(f"{sent:,} entries")
        except Unavailable as error:
            why = str(error).rstrip(".")
            raise CommandError(
                f"{name} stopped taking entries after {sent:,}: {why}. Mend that and run this "
                "again; what is sent twice has the same id."
            ) from error
        if sent:
            self.stdout.write(f"Sent {sent:,} {'entry' if sent == 1 else 'entries'} to {name}.")
        else:
            self.stdout.write("The journal has no entries of that time.")
