"""Four types of jobs that show what jobs can do, made of ready-made handlers."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import timedelta
from itertools import cycle
from typing import Any

from django.conf import settings

from apps.common.db import transactional
from apps.jobs.conf import conf
from apps.jobs.models import Job
from apps.jobs.rules.addresses import host_is_listed
from apps.jobs.services import types
from apps.jobs.services.submit import Submission, Submitted, submit_many
from taskplatform.demo.company import ACTOR, PEOPLE

HTTP = "demo-http"
FAILING = "demo-failing"
SLOW = "demo-slow"
CHECKPOINTS = "demo-checkpoints"
# The failing jobs read a number from this text.
NO_NUMBER = "when the shop opens"
FIRST_JOBS = 40


@dataclass(frozen=True, kw_only=True)
class DemoType:
    """A type of the demo, and how many of 10,000 jobs are of it; None: all the others."""

    name: str
    share: int | None
    context: Mapping[str, Any]
    settings: Mapping[str, Any]


KINDS = (
    DemoType(
        name=HTTP,
        share=None,
        context={},
        settings={
            "title": "Asks the platform whether it lives",
            "handler": "http_request",
            "lane": "fast",
        },
    ),
    DemoType(
        name=FAILING,
        share=200,
        context={"seconds": NO_NUMBER},
        settings={
            "title": "Fails, is retried and discarded",
            "handler": "sleep",
            "lane": "fast",
            "max_attempts": 3,
            "retry_delay_seconds": 2.0,
            "retry_max_seconds": 10.0,
        },
    ),
    DemoType(
        name=SLOW,
        share=80,
        context={"seconds": 0.5},
        settings={"title": "Slow, and in nobody's way", "handler": "sleep", "lane": "slow"},
    ),
    DemoType(
        name=CHECKPOINTS,
        share=15,
        context={"seconds": 3},
        settings={
            "title": "Keeps checkpoints and reports its progress",
            "handler": "sleep",
            "lane": "slow",
        },
    ),
)
NAMES = tuple(kind.name for kind in KINDS)


def own_url() -> str:
    """The page that jobs of type demo-http request, as this machine reaches it."""
    return f"http://127.0.0.1:{settings.PORT}/health/live"


def http_is_allowed() -> bool:
    """Whether this process may call its own platform by http_request."""
    return host_is_listed("127.0.0.1", settings.PORT, 80, conf.JOB_HTTP_HOSTS) and bool(
        conf.JOB_HTTP_NETWORKS
    )


def ensure_job_types() -> list[str]:
    """Create the types that are missing; the others stay as operators have set them."""
    return types.ensure_types(NAMES, {kind.name: kind.settings for kind in KINDS}, actor=ACTOR)


def counts_of(total: int) -> dict[str, int]:
    """How many jobs of `total` are of which type; at least one of each."""
    counts = {kind.name: max(1, total * kind.share // 10_000) for kind in KINDS if kind.share}
    return {HTTP: total - sum(counts.values()), **counts}


@transactional
def submit_demo_jobs(counts: Mapping[str, int], *, trace_id: str) -> list[Submitted]:
    """Submit this number of jobs of each type, mixed, with the trace id."""
    ensure_job_types()
    return submit_many(list(_mixed(counts, trace_id)), by=ACTOR)


@transactional
def submit_first_jobs() -> int:
    """Submit some jobs, a few of them for later; 0 when the demo has submitted before.

    Jobs that call the platform are left out where that is not allowed.
    """
    made = ensure_job_types()
    if not made and Job.objects.filter(type__in=NAMES).exists():
        return 0
    counts = {FAILING: 6, SLOW: 6, CHECKPOINTS: 4}
    later = SLOW
    if http_is_allowed():
        counts[HTTP] = FIRST_JOBS - sum(counts.values()) - 4
        later = HTTP
    jobs = list(_mixed(counts, ""))
    context = next(kind for kind in KINDS if kind.name == later).context
    for quarter in range(1, 5):
        jobs.append(
            Submission(
                type=later,
                key=f"later-{quarter}",
                context={**context, **_url(later)},
                delay=timedelta(minutes=15 * quarter),
            )
        )
    return len(submit_many(jobs, by=ACTOR))


def _mixed(counts: Mapping[str, int], trace_id: str) -> Iterator[Submission]:
    """The types evenly mixed, each job for one of the people."""
    contexts = {kind.name: {**kind.context, **_url(kind.name)} for kind in KINDS}
    order = sorted(
        ((number + 0.5) / count, name, number)
        for name, count in counts.items()
        for number in range(count)
    )
    people = cycle(PEOPLE)
    for _position, name, number in order:
        yield Submission(
            type=name,
            key=f"{name.removeprefix('demo-')}-{number + 1}",
            context=dict(contexts[name]),
            user_id=next(people),
            trace_id=trace_id,
        )


def _url(name: str) -> dict[str, str]:
    return {"url": own_url()} if name == HTTP else {}
