"""Measures the platform against baselines that it runs itself; the code lives with the tests."""

from __future__ import annotations

from argparse import ArgumentParser
from typing import Any

from django.core.management.base import BaseCommand

from taskplatform.management.checkout import load


class Command(BaseCommand):
    help = (
        "Measures the speed of dispatch, jobs, flows, workers over HTTP, the costliest requests of "
        "the API, reports or history, in a database of its own, which is dropped afterwards. Each "
        "figure stands beside a baseline of the same run."
    )

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument(
            "name", choices=["dispatch", "jobs", "flows", "workers", "api", "reports", "history"]
        )
        parser.add_argument("parts", nargs="*", metavar="part", help="measure only these parts")
        parser.add_argument(
            "--json",
            action="store_true",
            help="print each figure as a line of JSON once it is measured",
        )
        parser.add_argument("--quick", action="store_true", help="fewer rows and rounds")

    def handle(self, *args: Any, **options: Any) -> None:
        load("tests.benchmark.run").run(
            options["name"],
            options["parts"],
            quick=options["quick"],
            as_json=options["json"],
            out=self.stdout,
            log=self.stderr.write,
        )
