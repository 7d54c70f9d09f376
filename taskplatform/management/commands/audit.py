"""Checks the invariants of the platform on live data."""

from __future__ import annotations

import json
import sys
from argparse import ArgumentParser
from typing import Any

from django.core.management.base import BaseCommand
from django.utils import translation

from apps.common.arguments import number_argument
from apps.common.audit import RECENT, audit
from taskplatform.audit import CHECKS, as_json, broken_lines, summary


class Command(BaseCommand):
    help = (
        "Checks the invariants of dispatches, jobs and reports on the live data and changes "
        "nothing. One line for each breach and exit 1, or one line of summary and exit 0."
    )

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--json", action="store_true", help="an object in place of the lines")
        parser.add_argument(
            "--recent",
            type=number_argument(1, 1_000_000),
            default=RECENT,
            metavar="N",
            help="the number of newest rows and entries to compare with the journal (%(default)s)",
        )

    def handle(self, *args: Any, **options: Any) -> None:
        recent = options["recent"]
        with translation.override("en"):
            done = audit(CHECKS, recent=recent)
            if options["json"]:
                self.stdout.write(json.dumps(as_json(done, recent=recent), indent=1))
            else:
                lines = [*map(str, broken_lines(done)), summary(done, recent=recent)]
                self.stdout.write("\n".join(lines))
        if any(each.breaches for each in done):
            sys.exit(1)
