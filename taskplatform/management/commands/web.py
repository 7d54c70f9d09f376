"""The web server of a machine on which another program keeps the parts running."""

from __future__ import annotations

import os
from argparse import ArgumentParser
from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand

from apps.asyncflow.conf import conf
from taskplatform import startup, web


class Command(BaseCommand):
    """Becomes the server, so that signals reach it directly."""

    help = "Serve pages and API. `make run` does so by itself."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--host", default=settings.HOST, help="the address (HOST)")
        parser.add_argument("--port", type=int, default=settings.PORT, help="the port (PORT)")
        parser.add_argument(
            "--asyncflow",
            choices=dict(conf.ASYNCFLOW_PORTS),
            help="one dialect alone, on this machine at its port of ASYNCFLOW_PORTS",
        )
        parser.add_argument(
            "--workers",
            type=int,
            default=settings.WEB_WORKERS,
            help="number of processes (WEB_WORKERS)",
        )
        parser.add_argument("--access-log", action="store_true", help="log each request")

    def handle(self, *args: Any, **options: Any) -> None:
        connections = web.raise_file_limit()
        workers = options["workers"]
        for problem in web.problems(connections, workers):
            self.stderr.write(problem)
        dialect = options["asyncflow"]
        for problem in (startup.types_problem(), "" if dialect else startup.static_problem()):
            if problem:
                self.stderr.write(problem)
        port = dict(conf.ASYNCFLOW_PORTS)[dialect] if dialect else options["port"]
        chosen, variables = web.several(workers, port)
        os.environ.update(variables)
        chosen += ["--access-log"] if options["access_log"] else []
        if dialect:
            command = web.local_command(dialect, port, *chosen, connections=connections)
        else:
            command = web.command(*chosen, host=options["host"], port=port, connections=connections)
        os.execv(command[0], command)  # noqa: S606
