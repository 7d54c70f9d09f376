"""The web server of a machine on which another program keeps the parts running."""

from __future__ import annotations

import os
from argparse import ArgumentParser, ArgumentTypeError
from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand, CommandError

from apps.asyncflow.conf import conf
from apps.common.arguments import number_argument
from taskplatform import startup, web
from taskplatform.environment import parse_address


class Command(BaseCommand):
    """Becomes the server, so that signals reach it directly."""

    help = "Serve pages and API. `make run` does so by itself."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument(
            "--host",
            type=_address,
            default=settings.HOST,
            metavar="ADDRESS",
            help="the address (HOST)",
        )
        parser.add_argument(
            "--port",
            type=number_argument(1, 65_535),
            default=settings.PORT,
            metavar="N",
            help="the port (PORT)",
        )
        parser.add_argument(
            "--asyncflow",
            type=_dialect,
            metavar="DIALECT",
            help="one dialect alone, on this machine at its port of ASYNCFLOW_PORTS",
        )
        parser.add_argument(
            "--workers",
            type=number_argument(1, 64),
            default=settings.WEB_WORKERS,
            metavar="N",
            help="number of processes (WEB_WORKERS)",
        )
        parser.add_argument("--access-log", action="store_true", help="log each request")

    def handle(self, *args: Any, **options: Any) -> None:
        dialect = options["asyncflow"]
        host = web.LOCAL if dialect else options["host"]
        port = dict(conf.ASYNCFLOW_PORTS)[dialect] if dialect else options["port"]
        try:
            if dialect:
                web.require_local_port(dialect, port)
            else:
                web.require_port(host, port, again="manage.py web --port {port}")
        except startup.CannotStart as reason:
            raise CommandError(str(reason)) from reason
        connections = web.raise_file_limit()
        workers = options["workers"]
        for problem in web.problems(connections, workers):
            self.stderr.write(problem)
        for problem in (startup.types_problem(), "" if dialect else startup.static_problem()):
            if problem:
                self.stderr.write(problem)
        chosen, variables = web.several(workers, port)
        os.environ.update(variables)
        chosen += ["--access-log"] if options["access_log"] else []
        if dialect:
            command = web.local_command(dialect, port, *chosen, connections=connections)
        else:
            command = web.command(*chosen, host=host, port=port, connections=connections)
        os.execv(command[0], command)  # noqa: S606


def _address(text: str) -> str:
    try:
        return parse_address(text)
    except ValueError as error:
        raise ArgumentTypeError(f"{text!r} is not an address of this machine") from error


def _dialect(text: str) -> str:
    ports = dict(conf.ASYNCFLOW_PORTS)
    if text not in ports:
        known = f"it has {', '.join(ports)}" if ports else "it is empty; write one such as g1:41555"
        raise ArgumentTypeError(f"ASYNCFLOW_PORTS has no port of {text!r}; {known}")
    return text
