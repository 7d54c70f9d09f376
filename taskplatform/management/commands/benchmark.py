"""Measures the platform against baselines that it runs itself."""

from __future__ import annotations

import json
from argparse import ArgumentParser
from typing import Any

from django.core.management.base import BaseCommand

from taskplatform.benchmark import dispatch, jobs, reports
from taskplatform.benchmark.figures import lines

BENCHMARKS = {each.name: each for each in (dispatch.BENCHMARK, jobs.BENCHMARK, reports.BENCHMARK)}


class Command(BaseCommand):
    help = (
        "Measures the speed of dispatch, jobs or reports in a database of its own, which is "
        "dropped afterwards. Each figure stands beside a baseline of the same run."
    )

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("name", choices=BENCHMARKS)
        parts = [
            f"{each.name}: {', '.join(p.name for p in each.parts)}" for each in BENCHMARKS.values()
        ]
        parser.add_argument(
            "parts", nargs="*", metavar="part", help=f"only these figures ({'; '.join(parts)})"
        )
        parser.add_argument("--json", action="store_true", help="an array in place of the lines")
        parser.add_argument("--quick", action="store_true", help="fewer rows and rounds")

    def handle(self, *args: Any, **options: Any) -> None:
        def say(text: str) -> None:
            self.stderr.write(f"measuring: {text}")

        chosen = BENCHMARKS[options["name"]]
        figures = list(chosen.run(options["parts"], quick=options["quick"], say=say))
        if options["json"]:
            self.stdout.write(json.dumps([each.as_json() for each in figures], indent=1))
        else:
            self.stdout.write("\n".join(lines(figures)))
