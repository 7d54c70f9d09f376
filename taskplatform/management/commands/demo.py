"""Demo data, and simulated executors and jobs that show what the platform promises."""

from __future__ import annotations

import re
import urllib.request
from argparse import ArgumentParser, ArgumentTypeError
from collections.abc import Sequence
from io import StringIO
from pathlib import Path
from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand, CommandError, OutputWrapper

from apps.common import clock
from apps.common.arguments import number_argument
from apps.common.errors import PlatformError
from apps.flows.models import FlowRun
from taskplatform import sdk
from taskplatform.client.tables import table
from taskplatform.demo import alerts, bulk, jobs, price_round, work, workers
from taskplatform.demo.clients import Clients
from taskplatform.demo.company import ANN, GROUPS, ORDERS, PEOPLE
from taskplatform.demo.planning import plan, plan_round
from taskplatform.demo.proofs import Proof, proofs_of
from taskplatform.demo.terminal import bar, watch
from taskplatform.management.checkout import load
from taskplatform.startup import reachable_host

EVERYBODY = len(PEOPLE)
# A piece of work takes this part of the time, so that a round is done well before the end.
PACE = 1 / 16
MAX_BREACHES = 10
MIN_JOBS, MAX_JOBS = 4, 100_000
MAX_WORKERS, WORKER_JOBS = 20, 10_000
MIN_YEARS, MAX_YEARS = 0.1, 10
# Executors that are stopped finish their piece of work.
LAST_PIECE_SECONDS = 10


class Command(BaseCommand):
    help = (
        f"Plans demo data, once: {EVERYBODY} users in {len(GROUPS)} groups, rotations and "
        "a round of tasks. "
        "With --clients, simulated executors carry the tasks out over HTTP. "
        "With --jobs, the workers of `make run` drain jobs of four types. "
        "With --workers, processes that know only sdk.py work over HTTP, and one is killed. "
        "With --years, the past of a platform that has never run is played, archived, forgotten. "
        "With --trouble, the home page has things of five kinds that need somebody. "
        "With --flow, a weekly price round stands half done, after six that are over; "
        "with --flow runs, people and programs carry one out over HTTP."
    )

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument(
            "--fresh", action="store_true", help="plan another round and more orders at once"
        )
        mode = parser.add_mutually_exclusive_group()
        mode.add_argument(
            "--clients",
            type=number_argument(1, EVERYBODY),
            metavar="N",
            help=f"let N executors work, 1 to {EVERYBODY}",
        )
        mode.add_argument(
            "--jobs",
            type=number_argument(MIN_JOBS, MAX_JOBS),
            nargs="?",
            const=10_000,
            metavar="N",
            help=f"submit N jobs and watch them, {MIN_JOBS} to {MAX_JOBS} (10000)",
        )
        mode.add_argument(
            "--workers",
            type=number_argument(2, MAX_WORKERS),
            metavar="N",
            help=f"let N workers run {WORKER_JOBS:,} jobs over HTTP, 2 to {MAX_WORKERS}",
        )
        mode.add_argument(
            "--years",
            type=_years,
            metavar="N",
            help=f"play the last N years on a new platform, {MIN_YEARS} to {MAX_YEARS}, since 2025",
        )
        mode.add_argument(
            "--trouble",
            action="store_true",
            help="make things of five kinds that need somebody, to see them on the home page",
        )
        mode.add_argument(
            "--flow",
            nargs="?",
            const="stands",
            choices=["stands", "runs"],
            help="a round that stands half done, or one that runs from its start to its end",
        )
        parser.add_argument(
            "--seconds",
            type=number_argument(1, 3600),
            metavar="N",
            help="for at most N seconds (60, a flow 120, jobs and workers 600, years 3600)",
        )
        parser.add_argument("--url", default="", help="the server (that of `make run`)")
        parser.add_argument("--key", default="", help="an API key with scope pull (the demo's)")

    def handle(self, *args: Any, **options: Any) -> None:
        if options["verbosity"] == 0:
            self.stdout = OutputWrapper(StringIO())
        try:
            if options["jobs"]:
                self._run_jobs(options["jobs"], options["seconds"] or 600)
            elif options["workers"]:
                self._run_workers(
                    options["workers"], options["seconds"] or 600, options["url"] or _own_url()
                )
            elif options["years"]:
                self._run_years(options["years"], options["seconds"] or 3600)
            elif options["flow"] == "runs":
                self._run_flow(options["seconds"] or 120, options)
            elif options["flow"]:
                self._plan_flow()
            elif options["trouble"]:
                count = load("tests.trouble").play()
                self.stdout.write(f"Things that need somebody, on the home page now: {count}.")
            elif options["clients"]:
                self._run_clients(options["clients"], options["seconds"] or 60, options)
            else:
                self._plan(fresh=options["fresh"])
        except (PlatformError, sdk.PlatformError) as error:
            raise CommandError(str(error)) from error
        except KeyboardInterrupt as interrupt:
            raise CommandError("Interrupted.", returncode=130) from interrupt

    def _plan(self, *, fresh: bool) -> None:
        planned, rotations = plan(fresh=fresh)
        if planned:
            shop = planned[0].params["shop"]
            self.stdout.write(f"Planned a round of {len(planned)} tasks for the shop {shop}.")
        if rotations:
            self.stdout.write(f"Planned {len(rotations)} rotations:")
        for task in rotations:
            paused = ", paused" if task.status == task.Status.PAUSED else ""
            self.stdout.write(f"    {task.title} for {task.executor}: {task.summary}{paused}")
        submitted = jobs.submit_first_jobs()
        orders = sum(ORDERS.values()) if submitted else jobs.submit_orders() if fresh else 0
        if submitted:
            self.stdout.write(
                f"Submitted {submitted} jobs of the demo's types, four of them for later."
            )
            if made := alerts.make_rules():
                self.stdout.write(f"Made {made} alert rules; one fires when the first jobs failed.")
            if run := bulk.cancel_a_mistake():
                self.stdout.write(
                    f"Submitted {run.at_most} jobs for tomorrow by mistake; bulk run {run.pk} "
                    "cancels them."
                )
        if orders:
            self.stdout.write(
                f"Submitted {orders} orders of {len(ORDERS)} shops; their limits by shop let few "
                "run at once, and few receipts out in a minute."
            )
        if schedule := jobs.plan_schedule():
            self.stdout.write(f"Planned a recurring job: {schedule.title}, {schedule.summary}.")
        if not planned and not rotations:
            at_hand = work.work_at_hand()
            self.stdout.write(
                f"The demo data is there; {work.left_of(at_hand)} hand-outs of {len(at_hand)} due "
                "tasks are left. Plan another round with: manage.py demo --fresh"
            )

    def _run_jobs(self, total: int, seconds: int) -> None:
        jobs.require_platform(self.stdout.write)
        began = clock.now()
        run = jobs.JobRun(total)
        took = (clock.now() - began).total_seconds()
        self.stdout.write(
            f"Submitted {total:,} jobs of 4 types in {took:.1f} s, in one transaction."
        )
        took = watch(run.look, seconds, self.stdout)
        self._print_table(jobs.HEADINGS, run.rows())
        self.stdout.write(
            f"{run.ended:,} jobs ended in {took:.0f} s, {run.ended / took:,.0f} a second."
        )
        self._report(run.proofs(), time_was_up=took >= seconds)

    def _run_workers(self, number: int, seconds: int, url: str) -> None:
        require_server(url)
        run = workers.WorkerRun(url, number, WORKER_JOBS)
        self.stdout.write(
            f"{number} workers run {run.total:,} jobs of 4 types, one of them a pool, over {url}."
        )
        with run.processes():
            took = watch(run.look, seconds, self.stdout)
        self._print_table(workers.HEADINGS, run.rows())
        self.stdout.write(
            f"{run.ended:,} jobs ended in {took:.0f} s, {run.ended / took:,.0f} a second."
        )
        self._report(run.proofs(), time_was_up=took >= seconds)

    def _run_years(self, number: float, seconds: int) -> None:
        years = load("tests.years")
        years.require_new()
        run = years.Years(round(number * years.YEAR.days))
        self.stdout.write(f"The company works from {run.first:%Y-%m-%d} to the present.")
        took = watch(run.look, seconds, self.stdout)
        self._print_table(years.HEADINGS, run.rows())
        self._report(run.proofs(), time_was_up=took >= seconds)

    def _plan_flow(self) -> None:
        run = FlowRun.objects.filter(flow=price_round.NAME).order_by("-pk").first()
        if run is None:
            # First of all, because then rows get the numbers of the days that it plays.
            run = load("tests.price_round").play()
            self.stdout.write("Played six weekly price rounds, and a seventh up to its half.")
        self.stdout.write(f"Run {run.pk}, {run.status}, is the newest:")
        self._print_table(price_round.HEADINGS, [*price_round.rows_of(run)])

    def _run_flow(self, seconds: int, options: dict[str, Any]) -> None:
        url, key = options["url"] or _own_url(), options["key"] or _own_key()
        _require_server(url, key, ANN)
        run = price_round.RoundRun(url, key, pace=seconds * PACE / 4)
        self.stdout.write(f"{EVERYBODY} people and a program carry out run {run.number}.")
        with run.at_work():
            took = watch(run.look, seconds, self.stdout)
        self._print_table(price_round.HEADINGS, run.rows())
        self._report(run.proofs(), time_was_up=took >= seconds)

    def _run_clients(self, number: int, seconds: int, options: dict[str, Any]) -> None:
        url, key = options["url"] or _own_url(), options["key"] or _own_key()
        # Spread over the groups.
        uids = [list(PEOPLE)[position * EVERYBODY // number] for position in range(number)]
        _require_server(url, key, uids[0])
        at_hand = _work_to_do(seconds, fresh=options["fresh"])
        self.stdout.write(
            f"{number} executors work on {len(at_hand)} due tasks for at most {seconds} s."
        )
        clients = Clients(url, key, uids, pace=seconds * PACE, mishaps=work.mishaps_of(at_hand))

        def look() -> tuple[str, bool]:
            work.refresh(at_hand)
            done = bar(sum(o.handed for o in at_hand), sum(o.quota for o in at_hand))
            now_open = sum(o.open for o in at_hand)
            counts = (f"{clients.counts[end]} {end}" for end in ("failed", "released", "repeated"))
            line = " · ".join([done, f"{now_open} open", *counts])
            return line, bool(clients.trouble) or all(o.is_complete for o in at_hand)

        since = clock.now()
        with clients:
            took = watch(look, seconds, self.stdout)
        if clients.trouble:
            raise CommandError(clients.trouble)
        work.refresh(at_hand)
        self._print_table(work.HEADINGS, [each.cells for each in at_hand])
        self.stdout.write(
            "Back: released or expired. What is given back or tried again uses up no quota.\n"
            f"{clients.counts['handed']} hand-outs in {took:.0f} s; {clients.counts['repeated']} "
            "answers to callbacks were lost on purpose and requested again."
        )
        listed = sum(d.dispatched_at >= since for each in at_hand for d in each.dispatches)
        if (others := clients.counts["handed"] - listed) > 0:
            self.stdout.write(
                f"Of them, {others} came from tasks that are not listed: somebody gave one back "
                "before and has to wait for its lease time."
            )
        proofs = proofs_of(at_hand, since=since, everybody_works=number == EVERYBODY)
        repeats = Proof("every repeated callback gets its first answer", clients.broken_repeats)
        self._report([*proofs, repeats], time_was_up=took >= seconds)

    def _print_table(self, headings: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
        self.stdout.write("\n".join(["", *table(headings, rows), "", ""]))

    def _report(self, proofs: Sequence[Proof], *, time_was_up: bool) -> None:
        """Print which promises were kept; CommandError when one was not."""
        for proof in proofs:
            kept = not proof.breaches
            style = self.style.SUCCESS if kept else self.style.ERROR
            self.stdout.write(style(f"{'✓' if kept else '✗'} {proof.promise}"))
            for breach in proof.breaches[:MAX_BREACHES]:
                self.stdout.write(f"    {breach}")
        broken = sum(1 for proof in proofs if proof.breaches)
        if broken:
            hint = "; the time was up, so give more of it with --seconds" if time_was_up else ""
            raise CommandError(f"{broken} of {len(proofs)} promises were broken{hint}.")


def _years(text: str) -> float:
    if not re.fullmatch(r"\d{1,2}(\.\d{1,2})?", text) or not MIN_YEARS <= float(text) <= MAX_YEARS:
        raise ArgumentTypeError(f"{text} is not a number from {MIN_YEARS} to {MAX_YEARS}")
    return float(text)


def _work_to_do(seconds: int, *, fresh: bool) -> list[work.Occurrence]:
    """The work that is left, with another round when it is less than one hand-out for each."""
    plan(fresh=fresh)
    # An occurrence that is over before the executors are done could not be met.
    lasting = seconds + LAST_PIECE_SECONDS
    at_hand = work.work_at_hand(seconds=lasting)
    if work.left_of(at_hand) < EVERYBODY:
        plan_round()
        at_hand = work.work_at_hand(seconds=lasting)
    return at_hand


def _own_url() -> str:
    """The address at which `make run` listens on this machine."""
    host = reachable_host()
    return f"http://{f'[{host}]' if ':' in host else host}:{settings.PORT}"


def _own_key() -> str:
    path = Path(settings.VAR_DIR) / "demo_key"
    try:
        return path.read_text()
    except FileNotFoundError as error:
        raise CommandError(
            f"There is no demo key in {path}. Name the VAR_DIR that the platform runs with, or "
            "start one here, which makes the key, with: DEMO=1 make run"
        ) from error


def require_server(url: str) -> None:
    """Return when a platform answers there; CommandError with what to do otherwise."""
    try:
        urllib.request.urlopen(f"{url}/health/live", timeout=5).close()  # noqa: S310
    except OSError as error:
        raise CommandError(
            f"No server answers at {url}. Start it in another terminal with: make run; if it runs "
            "on another port, give this command the same PORT."
        ) from error


def _require_server(url: str, key: str, uid: str) -> None:
    """Return when a server answers there and the key may pull.

    It extends a dispatch that cannot exist, so nothing is handed out.
    """
    try:
        with sdk.Client(url, key, give_up_after=0.0) as client:
            client.extend(uid, "1", 1)
    except sdk.ApiError as refusal:
        if refusal.code != "not_found":
            raise
    except sdk.Unavailable as error:
        raise CommandError(
            f"No server answers at {url}. Start it in another terminal with: make run; if it runs "
            "on another port, give this command the same PORT."
        ) from error
    except ValueError as error:
        raise CommandError(str(error)) from error
