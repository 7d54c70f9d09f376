from __future__ import annotations

import logging
import random
import signal
import threading
from argparse import ArgumentParser
from typing import Any

from django.core.management.base import BaseCommand, CommandError
from django.db import DatabaseError, close_old_connections

from ....sdk import PlatformError
from ...sending import Sender

logger = logging.getLogger("taskplatform.outbox")

# Seconds between looks at an empty outbox, and the longest pause while the server is away.
PAUSE = 1.0
LONGEST = 60.0
_random = random.SystemRandom()


class Command(BaseCommand):
    help = "Send what is in the outbox to the task platform, until SIGTERM or Ctrl-C."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument(
            "--once",
            action="store_true",
            help="Send what waits and end; 1 when the server is away or refuses the key.",
        )

    def handle(self, *args: Any, once: bool, **options: Any) -> None:
        sender = Sender()
        if once:
            try:
                sent = sender.send_due()
            except PlatformError as error:
                raise CommandError(f"What is left waits in the outbox: {error}") from error
            self._say(sent, options["verbosity"])
            return
        stop = threading.Event()
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, lambda *_: stop.set())
        failures = 0
        while not stop.is_set():
            pause = PAUSE
            try:
                close_old_connections()
                self._say(sender.send_due(), options["verbosity"])
                failures = 0
            except (PlatformError, DatabaseError) as error:
                failures += 1
                # With jitter, so that senders that fail together do not return together.
                pause = min(LONGEST, 2.0 ** min(failures, 6)) * _random.uniform(0.5, 1)
                pause = max(pause, getattr(error, "retry_after", 0.0))
                logger.warning("jobs wait in the outbox, next try in %.0f s: %s", pause, error)
            stop.wait(pause)

    def _say(self, sent: int, verbosity: int) -> None:
        if sent and verbosity:
            self.stdout.write(f"{sent} job{'' if sent == 1 else 's'} sent")
