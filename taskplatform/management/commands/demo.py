"""Demo data, and simulated executors that show what the platform promises."""

from __future__ import annotations

import logging
import time
from argparse import ArgumentParser
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand, CommandError

from apps.common import clock
from apps.common.errors import PlatformError
from apps.dispatch.models import OnceTask, RotateTask
from taskplatform import sdk
from taskplatform.demo import planning
from taskplatform.demo.company import PEOPLE, TEAMS
from taskplatform.demo.crew import Crew, check_server
from taskplatform.demo.insight import insights
from taskplatform.demo.job_play import CannotPlay, JobPlay
from taskplatform.demo.job_types import submit_first_jobs
from taskplatform.demo.occurrence import Occurrence
from taskplatform.demo.outcome import (
    COLUMNS,
    Check,
    Outcome,
    checks_of,
    outcomes_of,
    progress_of,
)
from taskplatform.demo.progress import ProgressLine
from taskplatform.demo.table import lines_of

EVERYBODY = len(PEOPLE)
MAX_SECONDS = 3600
# A piece of work takes this part of the time, so that a round is done well before the end.
PACE = 1 / 16
LOOK_EVERY_SECONDS = 0.25
MAX_BREACHES = 10
FEWEST_JOBS, MAX_JOBS = 4, 100_000
# Executors that were told to stop finish what they are at.
LAST_PIECE_SECONDS = 10


class Command(BaseCommand):
    help = (
        f"Plans demo data, once: {EVERYBODY} users in {len(TEAMS)} groups, rotations and "
        "a round of tasks. "
        "With --clients, simulated executors carry the tasks out over HTTP. "
        "With --jobs, the workers of `make run` drain jobs of four types."
    )

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--fresh", action="store_true", help="plan another round")
        parser.add_argument(
            "--clients", type=int, metavar="N", help=f"let N executors work, 1 to {EVERYBODY}"
        )
        parser.add_argument(
            "--jobs",
            type=int,
            nargs="?",
            const=10_000,
            metavar="N",
            help=f"submit N jobs and watch them, {FEWEST_JOBS} to {MAX_JOBS} (10000)",
        )
        parser.add_argument(
            "--seconds", type=int, metavar="N", help="for at most so long (60, jobs 600)"
        )
        parser.add_argument("--url", default="", help="the server (that of `make run`)")
        parser.add_argument("--key", default="", help="an API key with scope pull (the demo's)")

    def handle(self, *args: Any, **options: Any) -> None:
        self.is_silent = options["verbosity"] == 0
        try:
            if options["jobs"] is not None:
                self._play_jobs(options)
            elif options["clients"] is not None:
                self._play(options)
            else:
                self._plan(fresh=options["fresh"])
        except (PlatformError, sdk.PlatformError, CannotPlay) as error:
            raise CommandError(str(error)) from error
        except KeyboardInterrupt as interrupt:
            raise CommandError("Interrupted.", returncode=130) from interrupt

    def _tell(self, line: str) -> None:
        self._write(f"{line}\n")

    def _write(self, text: str) -> None:
        if not self.is_silent:
            self.stdout.write(text, ending="")
            self.stdout.flush()

    # --- Planning -----------------------------------------------------------------------------

    def _plan(self, *, fresh: bool) -> None:
        planned = planning.plan_round() if fresh else planning.plan_first_round()
        rotations = planning.plan_rotations()
        left = planning.work_at_hand()
        submitted = submit_first_jobs()
        if planned:
            shop = planned[0].params["shop"]
            self._tell(f"Planned a round of {len(planned)} tasks for the shop {shop}.")
        if rotations:
            self._tell(f"Planned {len(rotations)} rotations:")
            self._tell_rotations(rotations)
        if submitted:
            self._tell(f"Submitted {submitted} jobs of the demo's types, four of them for later.")
        if not planned and left:
            self._tell(
                f"The demo data is there; {progress_of(left).left} hand-outs are left, of "
                f"{_counted(left)}."
            )
        elif not planned and not rotations:
            self._tell(
                "The demo data is there, and nothing of it is left to hand out. Plan another round "
                "with: manage.py demo --fresh"
            )
        self._tell_insights()

    def _tell_rotations(self, rotations: Sequence[RotateTask]) -> None:
        for task in rotations:
            paused = ", paused" if task.status == RotateTask.Status.PAUSED else ""
            self._tell(f"    {task.title} for {task.executor}: {task.summary}{paused}")

    def _tell_insights(self) -> None:
        if not self.is_silent:
            self._tell("")
            for line in insights():
                self._tell(line)

    # --- Jobs ---------------------------------------------------------------------------------

    def _play_jobs(self, options: dict[str, Any]) -> None:
        total = options["jobs"]
        seconds = 600 if options["seconds"] is None else options["seconds"]
        if options["clients"] is not None:
            raise CommandError("Choose one of --clients and --jobs; two terminals can do both.")
        _demand_range("--jobs", total, MAX_JOBS, least=FEWEST_JOBS)
        _demand_range("--seconds", seconds, MAX_SECONDS)
        play = JobPlay(self._write, in_place=self.stdout.isatty())
        checks, took = play.run(total, seconds)
        self._judge(checks, time_was_up=took >= seconds)

    # --- Playing ------------------------------------------------------------------------------

    def _play(self, options: dict[str, Any]) -> None:
        clients = options["clients"]
        seconds = 60 if options["seconds"] is None else options["seconds"]
        _demand_range("--clients", clients, EVERYBODY)
        _demand_range("--seconds", seconds, MAX_SECONDS)
        url, key = options["url"] or _own_url(), options["key"] or _own_key()
        # Spread over the groups.
        uids = [list(PEOPLE)[position * EVERYBODY // clients] for position in range(clients)]
        _demand_server(url, key, uids[0])
        work = self._work_to_do(seconds, fresh=options["fresh"])
        self._tell(f"{clients} executors work on {_counted(work)} for at most {seconds} s.")
        crew = Crew(url, key, uids, pace=seconds * PACE, mishaps=planning.mishaps_of(work))
        since = clock.now()
        took = self._watch(crew, work, seconds)
        if crew.trouble:
            raise CommandError(crew.trouble)
        outcomes = outcomes_of(work)
        checks = checks_of(outcomes, since=since, everybody_works=clients == EVERYBODY)
        checks.append(Check("every repeated callback gets its first answer", crew.broken_repeats))
        self._tell_outcomes(outcomes)
        tally = crew.tally
        self._tell(
            f"{tally['handed']} hand-outs in {took:.0f} s; {tally['repeated']} answers to "
            "callbacks were lost on purpose and asked for again."
        )
        self._judge(checks, time_was_up=took >= seconds)
        self._tell_insights()

    def _work_to_do(self, seconds: int, *, fresh: bool) -> list[Occurrence]:
        """What is left to do, and a new round when that is less than half of one."""
        planned = planning.plan_round() if fresh else planning.plan_first_round()
        planning.plan_rotations()
        # An occurrence that is over before the crew is done could not be met.
        lasting = seconds + LAST_PIECE_SECONDS
        left = planning.work_at_hand(seconds=lasting)
        if not planned and progress_of(left).left < planning.quota_of_round() / 2:
            planning.plan_round()
            left = planning.work_at_hand(seconds=lasting)
        return left

    def _watch(self, crew: Crew, work: Sequence[Occurrence], seconds: int) -> float:
        """Show the progress until all is handed out or the time is up; the seconds it took."""
        begun = time.monotonic()
        took = 0.0
        shown = ProgressLine(self._write, in_place=self.stdout.isatty())
        with _hushed_client(), crew, closing(shown) as line:
            while took < seconds and crew.wait(LOOK_EVERY_SECONDS):
                progress = progress_of(work)
                took = time.monotonic() - begun
                line.show(took, progress, crew.tally)
                if progress.is_complete:
                    break
        return took

    def _tell_outcomes(self, outcomes: Sequence[Outcome]) -> None:
        self._tell("")
        for line in lines_of(COLUMNS, [outcome.cells for outcome in outcomes]):
            self._tell(line)
        self._tell(
            "\nBack: released or expired. What is given back or tried again uses up no quota."
        )

    def _judge(self, checks: Sequence[Check], *, time_was_up: bool) -> None:
        """Say which promises were kept; CommandError when one was not."""
        for check in checks:
            kept = not check.breaches
            style = self.style.SUCCESS if kept else self.style.ERROR
            self._tell(style(f"{'✓' if kept else '✗'} {check.promise}"))
            for breach in check.breaches[:MAX_BREACHES]:
                self._tell(f"    {breach}")
        broken = sum(1 for check in checks if check.breaches)
        if broken:
            hint = "; the time was up, so give more of it with --seconds" if time_was_up else ""
            raise CommandError(f"{broken} of {len(checks)} promises were broken{hint}.")


def _counted(work: Sequence[Occurrence]) -> str:
    once = sum(1 for occurrence in work if isinstance(occurrence.task, OnceTask))
    return f"{once} tasks and {len(work) - once} occurrences of rotations"


def _demand_range(option: str, value: int, most: int, least: int = 1) -> None:
    if not least <= value <= most:
        raise CommandError(f"{option} {value} is out of range; choose from {least} to {most}.")


def _own_url() -> str:
    """Where `make run` listens on this machine."""
    host = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(settings.HOST, settings.HOST)  # noqa: S104
    return f"http://{f'[{host}]' if ':' in host else host}:{settings.PORT}"


def _own_key() -> str:
    path = Path(settings.VAR_DIR) / "demo_key"
    try:
        return path.read_text()
    except FileNotFoundError as error:
        raise CommandError(
            f"There is no demo key in {path}. Start the platform, which makes one, with: make run"
        ) from error


def _demand_server(url: str, key: str, uid: str) -> None:
    try:
        check_server(url, key, uid)
    except sdk.Unavailable as error:
        raise CommandError(
            f"No server answers at {url}. Start it in another terminal with: make run; if it runs "
            "on another port, give this command the same PORT."
        ) from error
    except ValueError as error:
        raise CommandError(str(error)) from error


@contextmanager
def _hushed_client() -> Iterator[None]:
    """Without the warnings of the client about failures that are part of the play."""
    level = sdk.logger.level
    sdk.logger.setLevel(logging.ERROR)
    try:
        yield
    finally:
        sdk.logger.setLevel(level)
