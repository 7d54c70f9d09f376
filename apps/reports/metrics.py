"""`/metrics`: how the platform stands, for Prometheus, read from the database at each scrape.

So the figures are right whichever process answers. Every statement is bounded: what it reads
depends on the number of types, workers, sweeps and days, and never on how many jobs there are.
What has ended and how long it took comes from the totals of the reports, a minute late.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from datetime import datetime, timedelta
from zoneinfo import ZoneInfo

from django.conf import settings
from django.http import HttpResponse
from prometheus_client import generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector
from rest_framework.request import Request

from apps.access.bindings import executors_of, job_types_of
from apps.common import clock
from apps.common.errors import Forbidden
from apps.common.leases import turns
from apps.common.views import ApiView
from apps.dispatch.models import Dispatch
from apps.jobs.models import JobType, Worker
from apps.jobs.rules import breaker
from apps.jobs.services import counts, facts, register
from apps.reports.rules.outcomes import DISPATCH, JOB, TOTAL
from apps.reports.rules.tally import TYPE
from apps.reports.services.coverage import Stored
from apps.reports.services.summary import Figures, Percentiles, Period, summarise, total_of
from apps.reports.services.totals import all_time

# Of which latencies are told.
LATELY = timedelta(minutes=15)
MAX_COUNTED = 10_000
CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
_BREAKER_STATES = (breaker.CLOSED, breaker.OPEN, breaker.HALF_OPEN)
_UP_TO = f"counted up to {MAX_COUNTED}, which means at least so many"


class PlatformCollector(Collector):
    """The gauges; `periods` says how many seconds lie between two turns of each sweep."""

    def __init__(self, periods: Mapping[str, float]) -> None:
        self._periods = periods

    def collect(self) -> Iterator[Metric]:
        now = clock.now()
        yield from _types(now)
        yield from _dispatches(now)
        yield from _workers(now)
        yield from self._sweeps(now)
        stored = Stored.read()
        yield from _ends(stored, now)
        yield from _latencies(stored, now)

    def _sweeps(self, now: datetime) -> Iterator[Metric]:
        found = turns(self._periods, now)
        yield _gauge(
            "sweep_overdue_seconds",
            "By how much a sweep is late; a sweep that has never begun is absent",
            {turn.name: _seconds(turn.overdue) for turn in found if turn.overdue is not None},
            "sweep",
        )
        yield _gauge(
            "sweep_duration_seconds",
            "How long the last turn of a sweep took",
            {turn.name: turn.duration_ms / 1000 for turn in found if turn.duration_ms is not None},
            "sweep",
        )


def _types(now: datetime) -> Iterator[Metric]:
    policies = {row.name: row.snapshot for row in JobType.objects.order_by("name")}
    names = list(policies)
    jobs = GaugeMetricFamily(
        "taskplatform_jobs", f"Open jobs, each figure {_UP_TO}", labels=["type", "status"]
    )
    for name, found in counts.counts_of(names, MAX_COUNTED).items():
        jobs.add_metric([name, "ready"], found.ready)
        jobs.add_metric([name, "scheduled"], found.scheduled)
        jobs.add_metric([name, "running"], found.running)
    yield jobs
    due = counts.oldest_due(names)
    yield _gauge(
        "jobs_oldest_due_seconds",
        "How long the longest-waiting of the first 1000 ready jobs in line has been due",
        {name: _age(due.get(name), now) for name in names},
        "type",
    )
    yield _single(
        "jobs_promotion_lag_seconds",
        "How long a scheduled job has been due without being made ready",
        _age(counts.next_scheduled(), now),
    )
    yield _gauge(
        "job_type_paused",
        "1 while operators have paused the type",
        {name: float(policy.is_paused(now)) for name, policy in policies.items()},
        "type",
    )
    breakers = GaugeMetricFamily(
        "taskplatform_job_type_breaker",
        "1 for the state that the breaker of the type is in; types with a breaker only",
        labels=["type", "state"],
    )
    for name, found_breaker in facts.breakers(policies.values(), now).items():
        for each in _BREAKER_STATES:
            breakers.add_metric([name, each], float(each == found_breaker.state))
    yield breakers


def _dispatches(now: datetime) -> Iterator[Metric]:
    count, deadline = Dispatch.objects.in_flight(MAX_COUNTED)
    yield _single("dispatches_open", f"Dispatches in hand, {_UP_TO}", count)
    yield _single(
        "dispatches_overdue_seconds",
        "How long the earliest deadline of an open dispatch has passed",
        _age(deadline, now),
    )


def _workers(now: datetime) -> Iterator[Metric]:
    alive = register.alive(now)
    workers = GaugeMetricFamily(
        "taskplatform_workers", "Workers whose heartbeat is fresh", labels=["kind", "state"]
    )
    for kind in Worker.Kind.values:
        for state in (Worker.State.ACTIVE, Worker.State.DRAINING):
            fitting = [each for each in alive if (each.kind, each.state) == (kind, state)]
            workers.add_metric([kind, state.value], len(fitting))
    yield workers
    yield _single(
        "worker_places",
        "Drains that the live in-house workers can run at once",
        facts.slots(alive).total,
    )


def _ends(stored: Stored, now: datetime) -> Iterator[Metric]:
    found = all_time(stored)
    yield _single(
        "rollup_lag_seconds",
        "How old the newest minute is that the reports have added up; 0 before the first one",
        _age(found.as_of, now),
    )
    yield CounterMetricFamily(
        "taskplatform_handed_out",
        "Dispatches that were handed out, as far as they are added up",
        value=found.handed_out,
    )
    ended = CounterMetricFamily(
        "taskplatform_ended",
        "What has ended as far as it is added up: dispatches, and attempts at jobs. Callbacks are "
        "the dispatches that succeeded or failed; retried dispatches were handed out again",
        labels=["source", "outcome"],
    )
    for (source, outcome), count in sorted(found.ended.items()):
        if outcome != TOTAL:
            ended.add_metric([source, outcome], count)
    yield ended


def _latencies(stored: Stored, now: datetime) -> Iterator[Metric]:
    """Of what ended within LATELY: jobs by type, dispatches all together."""
    period = Period(now - LATELY, now, ZoneInfo("UTC"))
    figures: list[tuple[str, str, Figures]] = [
        (JOB, each.group, each) for each in summarise(JOB, TYPE, period, stored=stored).rows
    ]
    figures.append((DISPATCH, "", total_of(DISPATCH, period, stored=stored)))
    for name, text in (("wait", "from due to begun"), ("run", "from begun to ended")):
        family = GaugeMetricFamily(
            f"taskplatform_{name}_seconds",
            f"Quantiles of the time {text}, of what ended in the last 15 minutes, 2 % off at most",
            labels=["source", "type", "quantile"],
        )
        for source, type_, each in figures:
            told: Percentiles = getattr(each, name)
            for quantile, ms in (("0.5", told.p50), ("0.95", told.p95), ("0.99", told.p99)):
                if ms is not None:
                    family.add_metric([source, type_, quantile], ms / 1000)
        yield family


def _gauge(name: str, text: str, values: Mapping[str, float], label: str) -> Metric:
    family = GaugeMetricFamily(f"taskplatform_{name}", text, labels=[label])
    for value_of, value in values.items():
        family.add_metric([value_of], value)
    return family


def _single(name: str, text: str, value: float) -> Metric:
    return GaugeMetricFamily(f"taskplatform_{name}", text, value=value)


def _seconds(span: timedelta) -> float:
    return span.total_seconds()


def _age(since: datetime | None, now: datetime) -> float:
    return 0.0 if since is None else max(0.0, _seconds(now - since))


class MetricsView(ApiView):
    """The figures in Prometheus' text format, for keys with the scope `read` and no binding.

    A platform that serves its own machine only shows them to whoever reaches it.
    """

    scopes = {"GET": "read"}
    # It speaks no JSON, so it is no part of OpenAPI.
    schema = None
    periods: Callable[[], Mapping[str, float]] = dict

    def check_permissions(self, request: Request) -> None:
        if not (settings.EMBEDDED and request.auth is None):
            super().check_permissions(request)

    def get(self, request: Request) -> HttpResponse:
        bound = request.auth is not None and (executors_of(request), job_types_of(request))
        if bound and bound != (None, None):
            raise Forbidden(
                "The metrics tell of the whole platform; use a key that is bound to nothing."
            )
        text = generate_latest(PlatformCollector(self.periods()))
        return HttpResponse(text, content_type=CONTENT_TYPE)
