"""Demo data, and simulated executors that show what the platform promises."""

from __future__ import annotations

import time
from argparse import ArgumentParser
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand, CommandError

from apps.common import clock
from apps.common.errors import PlatformError
from apps.dispatch.models import RotateTask
from taskplatform import sdk
from taskplatform.demo import planning
from taskplatform.demo.clients import Clients, check_server
from taskplatform.demo.company import PEOPLE, TEAMS
from taskplatform.demo.insight import insights
from taskplatform.demo.job_types import submit_first_jobs
from taskplatform.demo.jobs import run_jobs
from taskplatform.demo.proofs import Proof, proofs_of
from taskplatform.demo.terminal import Live, fit, table
from taskplatform.demo.work import (
    COLUMNS,
    Occurrence,
    OccurrenceResult,
    count_of,
    left_of,
    mishaps_of,
    outcomes_of,
    work_at_hand,
)

EVERYBODY = len(PEOPLE)
MAX_SECONDS = 3600
# A piece of work takes this part of the time, so that a round is done well before the end.
PACE = 1 / 16
POLL_SECONDS = 0.25
# Where lines cannot be overwritten.
SECONDS_BETWEEN_LINES = 5.0
LINE_CELLS = 99
BAR_CELLS = 20
MAX_BREACHES = 10
MIN_JOBS, MAX_JOBS = 4, 100_000
# Executors that are stopped finish their piece of work.
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
            help=f"submit N jobs and watch them, {MIN_JOBS} to {MAX_JOBS} (10000)",
        )
        parser.add_argument(
            "--seconds", type=int, metavar="N", help="for at most N seconds (60, jobs 600)"
        )
        parser.add_argument("--url", default="", help="the server (that of `make run`)")
        parser.add_argument("--key", default="", help="an API key with scope pull (the demo's)")

    def handle(self, *args: Any, **options: Any) -> None:
        self.is_quiet = options["verbosity"] == 0
        try:
            if options["jobs"] is not None:
                self._run_jobs(options)
            elif options["clients"] is not None:
                self._run_clients(options)
            else:
                self._plan(fresh=options["fresh"])
        except (PlatformError, sdk.PlatformError) as error:
            raise CommandError(str(error)) from error
        except KeyboardInterrupt as interrupt:
            raise CommandError("Interrupted.", returncode=130) from interrupt

    def _print(self, lines: Iterable[str]) -> None:
        if not self.is_quiet:
            for line in lines:
                self._write(f"{line}\n")

    def _write(self, text: str) -> None:
        if not self.is_quiet:
            self.stdout.write(text, ending="")
            self.stdout.flush()

    # --- Planning -----------------------------------------------------------------------------

    def _plan(self, *, fresh: bool) -> None:
        planned = planning.plan_round() if fresh else planning.plan_first_round()
        rotations = planning.plan_rotations()
        left = work_at_hand()
        submitted = submit_first_jobs()
        lines = []
        if planned:
            shop = planned[0].params["shop"]
            lines.append(f"Planned a round of {len(planned)} tasks for the shop {shop}.")
        if rotations:
            lines.append(f"Planned {len(rotations)} rotations:")
            lines += map(_rotation_line, rotations)
        if submitted:
            lines.append(f"Submitted {submitted} jobs of the demo's types, four of them for later.")
        if not planned and left:
            lines.append(
                f"The demo data is there; {left_of(left)} hand-outs are left, of {count_of(left)}."
            )
        elif not planned and not rotations:
            lines.append(
                "The demo data is there, and nothing of it is left to hand out. Plan another round "
                "with: manage.py demo --fresh"
            )
        self._print([*lines, ""])
        self._print(insights())

    # --- Jobs ---------------------------------------------------------------------------------

    def _run_jobs(self, options: dict[str, Any]) -> None:
        seconds = 600 if options["seconds"] is None else options["seconds"]
        if options["clients"] is not None:
            raise CommandError("Choose one of --clients and --jobs; two terminals can do both.")
        _require_range("--jobs", options["jobs"], MIN_JOBS, MAX_JOBS)
        _require_range("--seconds", seconds, 1, MAX_SECONDS)
        proofs, time_was_up = run_jobs(
            options["jobs"], seconds, write=self._write, in_place=self.stdout.isatty()
        )
        self._report(proofs, time_was_up=time_was_up)

    # --- Clients ------------------------------------------------------------------------------

    def _run_clients(self, options: dict[str, Any]) -> None:
        number = options["clients"]
        seconds = 60 if options["seconds"] is None else options["seconds"]
        _require_range("--clients", number, 1, EVERYBODY)
        _require_range("--seconds", seconds, 1, MAX_SECONDS)
        url, key = options["url"] or _own_url(), options["key"] or _own_key()
        # Spread over the groups.
        uids = [list(PEOPLE)[position * EVERYBODY // number] for position in range(number)]
        _require_server(url, key, uids[0])
        work = _work_to_do(seconds, fresh=options["fresh"])
        self._print([f"{number} executors work on {count_of(work)} for at most {seconds} s."])
        clients = Clients(url, key, uids, pace=seconds * PACE, mishaps=mishaps_of(work))
        since = clock.now()
        took = self._watch(clients, work, seconds)
        if clients.trouble:
            raise CommandError(clients.trouble)
        outcomes = outcomes_of(work)
        proofs = proofs_of(outcomes, since=since, everybody_works=number == EVERYBODY)
        repeats = Proof("every repeated callback gets its first answer", clients.broken_repeats)
        self._print(["", *table(COLUMNS, [outcome.cells for outcome in outcomes])])
        self._print(
            [
                "",
                "Back: released or expired. What is given back or tried again uses up no quota.",
                f"{clients.counts['handed']} hand-outs in {took:.0f} s; "
                f"{clients.counts['repeated']} answers to callbacks were lost on purpose and "
                "requested again.",
            ]
        )
        self._report([*proofs, repeats], time_was_up=took >= seconds)
        self._print(["", *insights()])

    def _watch(self, clients: Clients, work: Sequence[Occurrence], seconds: int) -> float:
        """Show the progress until all is handed out or the time is up; the seconds it took."""
        live = Live(self._write, in_place=self.stdout.isatty(), pause=SECONDS_BETWEEN_LINES)
        begun = time.monotonic()
        with clients:
            while True:
                is_well = clients.wait(POLL_SECONDS)
                outcomes = outcomes_of(work)
                took = time.monotonic() - begun
                over = not is_well or took >= seconds or all(each.is_complete for each in outcomes)
                live.show(took, [_progress_line(took, outcomes, clients.counts)], last=over)
                if over:
                    return took

    def _report(self, proofs: Sequence[Proof], *, time_was_up: bool) -> None:
        """Print which promises were kept; CommandError when one was not."""
        for proof in proofs:
            kept = not proof.breaches
            style = self.style.SUCCESS if kept else self.style.ERROR
            self._print([style(f"{'✓' if kept else '✗'} {proof.promise}")])
            self._print(f"    {breach}" for breach in proof.breaches[:MAX_BREACHES])
        broken = sum(1 for proof in proofs if proof.breaches)
        if broken:
            hint = "; the time was up, so give more of it with --seconds" if time_was_up else ""
            raise CommandError(f"{broken} of {len(proofs)} promises were broken{hint}.")


def _rotation_line(task: RotateTask) -> str:
    paused = ", paused" if task.status == RotateTask.Status.PAUSED else ""
    return f"    {task.title} for {task.executor}: {task.summary}{paused}"


def _progress_line(
    seconds: float, outcomes: Sequence[OccurrenceResult], counts: Mapping[str, int]
) -> str:
    handed, quota = sum(each.handed for each in outcomes), sum(each.quota for each in outcomes)
    full = BAR_CELLS * handed // max(quota, 1)
    line = (
        f"{seconds:4.0f} s {'█' * full}{'░' * (BAR_CELLS - full)} {handed} of {quota} · "
        f"{sum(each.open for each in outcomes)} open · {counts['failed']} failed · "
        f"{counts['released']} released · {counts['repeated']} repeated"
    )
    return fit(line, LINE_CELLS)


def _work_to_do(seconds: int, *, fresh: bool) -> list[Occurrence]:
    """What is left to do, and a new round when that is less than half of one."""
    planned = planning.plan_round() if fresh else planning.plan_first_round()
    planning.plan_rotations()
    # An occurrence that is over before the executors are done could not be met.
    lasting = seconds + LAST_PIECE_SECONDS
    left = work_at_hand(seconds=lasting)
    if not planned and left_of(left) < planning.quota_of_round() / 2:
        planning.plan_round()
        left = work_at_hand(seconds=lasting)
    return left


def _require_range(option: str, value: int, low: int, high: int) -> None:
    if not low <= value <= high:
        raise CommandError(f"{option} {value} is out of range; choose from {low} to {high}.")


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


def _require_server(url: str, key: str, uid: str) -> None:
    try:
        check_server(url, key, uid)
    except sdk.Unavailable as error:
        raise CommandError(
            f"No server answers at {url}. Start it in another terminal with: make run; if it runs "
            "on another port, give this command the same PORT."
        ) from error
    except ValueError as error:
        raise CommandError(str(error)) from error
