"""`/metrics`: the state of the platform for Prometheus, read from the database at each scrape.

So every process answers the same, but for the requests that were answered. The present comes from
services.fact_sheet; ends and times come from the rollups, a minute late. What can be counted or be
wrong is there from the start, as 0: of a series that begins with 1, Prometheus never sees an
increase.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any, TypeAlias
from zoneinfo import ZoneInfo

from django.conf import settings
from django.db import connection
from django.http import HttpResponse
from prometheus_client import generate_latest
from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    InfoMetricFamily,
    Metric,
)
from prometheus_client.registry import Collector
from rest_framework.request import Request

from apps.access.rules.clients import Binding
from apps.access.rules.local import is_of_this_machine
from apps.common import ids
from apps.common.api import http_metrics
from apps.common.api.views import ApiView
from apps.jobs.models import Worker
from apps.jobs.rules import breaker
from apps.jobs.services import living
from apps.journal.models import Sink
from apps.journal.services import carry
from apps.reports.rules.outcomes import DISPATCH, FLOW, JOB, OUTCOMES, SOURCES, STEP
from apps.reports.rules.sketch import distribution
from apps.reports.rules.tally import TYPE
from apps.reports.services.coverage import Stored
from apps.reports.services.fact_sheet import FactSheet, current_sheet
from apps.reports.services.summary import Figures, Percentiles, Period, summarise, total_of
from apps.reports.services.totals import AllTime, all_time
from apps.reports.watches import WATCHES
from apps.reports.watches.base import look

# The period of the latencies.
LATELY = timedelta(minutes=15)
MAX_COUNTED = 10_000
# The upper bounds (s) of the histograms, because jobs take milliseconds and dispatches days.
BOUNDS = (
    0.01,
    0.05,
    0.1,
    0.5,
    1.0,
    5.0,
    10.0,
    30.0,
    60.0,
    300.0,
    900.0,
    3600.0,
    21_600.0,
    86_400.0,
)
CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
# The state of workers that are active, and that an operator keeps quiet.
_QUIET = "quiet"
_BREAKER_STATES = (breaker.CLOSED, breaker.OPEN, breaker.HALF_OPEN)
_UP_TO = f"counted up to {MAX_COUNTED}, which means that many or more"


# Metrics of other apps, as of an instant.
Source: TypeAlias = Callable[[datetime], Iterator[Metric]]


class PlatformCollector(Collector):
    """The metrics and those of `others`."""

    def __init__(self, others: Sequence[Source] = ()) -> None:
        self._others = others

    def collect(self) -> Iterator[Metric]:
        status = current_sheet()
        yield InfoMetricFamily(
            "taskplatform",
            "The release that answers, and its kind of database",
            value={"version": settings.RELEASE, "database": connection.vendor},
        )
        yield from _types(status)
        yield from _dispatches(status)
        yield from _flows(status)
        yield from _workers(status)
        yield from _sweeps(status)
        yield from _sinks(status.now)
        yield _findings(status)
        for source in self._others:
            yield from source(status.now)
        found = all_time(status.stored)
        yield from _ends(found, status)
        yield from _times(found)
        yield from _latencies(status.stored, status.now)
        yield from http_metrics.collect()


def _types(status: FactSheet) -> Iterator[Metric]:
    now = status.now
    yield gauge(
        "jobs",
        f"Open jobs, each figure {_UP_TO}",
        {
            (name, state): getattr(found, state)
            for name, found in status.jobs_by_type(MAX_COUNTED).items()
            for state in ("ready", "blocked", "scheduled", "running")
        },
        "type",
        "status",
    )
    due = status.oldest_due_by_type
    yield gauge(
        "jobs_oldest_due_seconds",
        "How long the longest-waiting of the first 25 ready jobs in line has been due",
        {name: _age(due.get(name), now) for name in status.type_names},
        "type",
    )
    yield single(
        "jobs_promotion_lag_seconds",
        "How long a scheduled job has been due without being made ready",
        _age(status.next_scheduled, now),
    )
    rates = status.rates
    yield gauge(
        "jobs_submitted_per_minute",
        "Jobs that came in the last five minutes, per minute, without those that wait for a later "
        "time",
        {name: rates[name].came if name in rates else 0.0 for name in status.type_names},
        "type",
    )
    yield gauge(
        "job_type_paused",
        "1 while operators have paused the type",
        {each.name: float(each.is_paused(now)) for each in status.types},
        "type",
    )
    yield gauge(
        "job_type_breaker",
        "1 for the state that the breaker of the type is in; types with a breaker only",
        {
            (name, each): float(each == breaker_now.state)
            for name, breaker_now in status.breakers.items()
            for each in _BREAKER_STATES
        },
        "type",
        "state",
    )


def _dispatches(status: FactSheet) -> Iterator[Metric]:
    count, _late, deadline = status.open_dispatches(MAX_COUNTED)
    yield single("dispatches_open", f"Open dispatches, {_UP_TO}", count)
    yield single(
        "dispatches_overdue_seconds",
        "How long the earliest deadline of an open dispatch has passed",
        _age(deadline, status.now),
    )


def _flows(status: FactSheet) -> Iterator[Metric]:
    yield gauge(
        "flow_runs",
        f"Open runs of flows, and those that failed within a week, each figure {_UP_TO}",
        {each: status.flow_runs[each] for each in ("running", "cancelling", "failed")},
        "status",
    )
    longest = status.long_active_steps[:1]
    yield single(
        "flow_step_oldest_seconds",
        "How long the step has been active that has been for longest",
        _age(longest[0].since if longest else None, status.now),
    )


def _workers(status: FactSheet) -> Iterator[Metric]:
    alive = status.live_workers
    counted = Counter((each.kind, _state_of(each)) for each in alive)
    states = (Worker.State.ACTIVE.value, Worker.State.DRAINING.value, _QUIET)
    yield gauge(
        "workers",
        "Workers heard of lately; quiet ones take nothing new until an operator resumes them",
        {(kind, state): counted[kind, state] for kind in Worker.Kind.values for state in states},
        "kind",
        "state",
    )
    yield single(
        "worker_places",
        "Jobs that the live in-house workers can run at once (slots)",
        living.slots(each for each in alive if not each.is_quiet).total,
    )


def _state_of(worker: Worker) -> str:
    is_quiet = worker.is_quiet and worker.state == Worker.State.ACTIVE
    return _QUIET if is_quiet else worker.state


def _sweeps(status: FactSheet) -> Iterator[Metric]:
    yield gauge(
        "sweep_overdue_seconds",
        "By how much a sweep is late; a sweep that has never begun is absent",
        {each.name: _seconds(each.overdue) for each in status.sweeps if each.overdue is not None},
        "sweep",
    )
    yield gauge(
        "sweep_duration_seconds",
        "How long the last round of a sweep took",
        {
            each.name: each.duration_ms / 1000
            for each in status.sweeps
            if each.duration_ms is not None
        },
        "sweep",
    )


def _sinks(now: datetime) -> Iterator[Metric]:
    wanted = carry.sinks()
    known = {sink.name: sink for sink in Sink.objects.all()}
    # One that has not begun will begin with the present, so it lacks nothing.
    found = [
        known.get(name) or Sink(name=name, after=ids.lowest_id_at(now)) for name in sorted(wanted)
    ]
    yield gauge(
        "journal_sink_lag_seconds",
        "How long the oldest journal entry has been there that the sink lacks",
        {sink.name: _seconds(carry.lag(sink, now)) for sink in found},
        "sink",
    )
    yield gauge(
        "journal_sink_failures",
        "How often in a row the sink has not taken what it lacks",
        {sink.name: sink.failures for sink in found},
        "sink",
    )
    for name, text, column in (
        ("sent", "Journal entries that the sink has taken", "sent"),
        ("refused", "Journal entries that the sink has refused for good", "rejected"),
    ):
        counter = CounterMetricFamily(f"taskplatform_journal_sink_{name}", text, labels=["sink"])
        for sink in found:
            counter.add_metric([sink.name], getattr(sink, column))
        yield counter


def _findings(status: FactSheet) -> Metric:
    looked = [look(watch, status) for watch in WATCHES if watch.number]
    return gauge(
        "findings",
        "What the page of governance lists under a number; absent where it cannot look",
        {each.watch.number: len(each.findings) for each in looked if each.unknown is None},
        "detector",
    )


def _ends(found: AllTime, status: FactSheet) -> Iterator[Metric]:
    yield single(
        "rollup_lag_seconds",
        "How old the newest minute is that the reports have added up; 0 before the first one",
        _age(found.as_of, status.now),
    )
    yield CounterMetricFamily(
        "taskplatform_handed_out",
        "Dispatches that were handed out, as far as they are added up",
        value=found.handed_out,
    )
    ended = CounterMetricFamily(
        "taskplatform_ended",
        "Ended dispatches, attempts at jobs, runs of flows and their steps, as far as they are "
        "added up. Callbacks are the dispatches that succeeded or failed; retried dispatches were "
        "handed out again",
        labels=["source", "type", "outcome"],
    )
    # Types that are gone are left out: there could be any number.
    untyped = ((DISPATCH, ""), (FLOW, ""), (STEP, ""))
    for source, type_ in (*untyped, *((JOB, name) for name in status.type_names)):
        counts = found.ended.get((source, type_), {})
        for outcome in OUTCOMES[source]:
            ended.add_metric([source, type_, outcome], counts.get(outcome, 0))
    yield ended


def _times(found: AllTime) -> Iterator[Metric]:
    """Histograms of waiting and running since the beginning, by source; the sketches of all types
    would be too many to add up."""
    nothing: tuple[list[bytes], list[bytes]] = ([], [])
    for which, name, text in (
        (0, "waited", "from due to begun"),
        (1, "ran", "from begun to ended"),
    ):
        family = HistogramMetricFamily(
            f"taskplatform_{name}_seconds",
            f"The time {text}, of all that ended, as far as it is added up; 2 % off at most",
            labels=["source"],
        )
        for source in SOURCES:
            counts = distribution(found.times.get(source, nothing)[which])
            buckets = [
                (str(bound), sum(count for ms, count in counts.items() if ms <= bound * 1000))
                for bound in BOUNDS
            ]
            buckets.append(("+Inf", sum(counts.values())))
            total = sum(ms * count for ms, count in counts.items()) / 1000
            family.add_metric([source], buckets, total)
        yield family


def _latencies(stored: Stored, now: datetime) -> Iterator[Metric]:
    """Quantiles of wait and run times of the ends within LATELY: jobs by type, all dispatches."""
    period = Period(now - LATELY, now, ZoneInfo("UTC"))
    figures: list[tuple[str, str, Figures]] = [
        (JOB, each.group, each) for each in summarise(JOB, TYPE, period, stored=stored).rows
    ]
    figures.append((DISPATCH, "", total_of(DISPATCH, period, stored=stored)))
    for name, text in (("wait", "from due to begun"), ("run", "from begun to ended")):
        found: dict[tuple[str, ...], float] = {}
        for source, type_, each in figures:
            times: Percentiles = getattr(each, name)
            for quantile, ms in (("0.5", times.p50), ("0.95", times.p95), ("0.99", times.p99)):
                if ms is not None:
                    found[source, type_, quantile] = ms / 1000
        yield gauge(
            f"{name}_seconds",
            f"Quantiles of the time {text}, of what ended in the last 15 minutes, 2 % off at most",
            found,
            *("source", "type", "quantile"),
        )


def gauge(name: str, text: str, values: Mapping[Any, float], *labels: str) -> Metric:
    """The present values by the value of the label, or by a tuple of those of all labels."""
    family = GaugeMetricFamily(f"taskplatform_{name}", text, labels=labels)
    for of, value in values.items():
        family.add_metric([of] if isinstance(of, str) else list(of), value)
    return family


def single(name: str, text: str, value: float) -> Metric:
    """One present value."""
    return GaugeMetricFamily(f"taskplatform_{name}", text, value=value)


def _seconds(span: timedelta) -> float:
    return span.total_seconds()


def _age(since: datetime | None, now: datetime) -> float:
    return 0.0 if since is None else max(0.0, _seconds(now - since))


class MetricsView(ApiView):
    """The metrics in Prometheus' text format, for keys with the scope `metrics` and no binding.

    A platform that serves only its own machine needs no key for programs there; jobs and proxies
    ask for others.
    """

    scopes = {"GET": "metrics"}
    bindings = frozenset[Binding]()
    # Not JSON, so not part of OpenAPI.
    schema = None
    others: Sequence[Source] = ()

    def check_permissions(self, request: Request) -> None:
        is_own = settings.EMBEDDED and is_of_this_machine(request.META)
        if not (is_own and request.auth is None):
            super().check_permissions(request)

    def get(self, request: Request) -> HttpResponse:
        text = generate_latest(PlatformCollector(self.others))
        return HttpResponse(text, content_type=CONTENT_TYPE)
