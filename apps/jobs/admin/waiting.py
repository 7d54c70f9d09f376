"""What lists and pages say of jobs that wait: too long, and how long at worst."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from django.utils.formats import number_format
from django.utils.translation import gettext

from apps.common import clock
from apps.common.conf import conf
from apps.jobs.admin import labels
from apps.jobs.models import Worker
from apps.jobs.rules.policy import TypePolicy
from apps.jobs.services.starvation import starving


@dataclass(frozen=True)
class TooLong:
    """A type whose next job should have started long ago."""

    type: str
    wait: str


def too_long(policies: Iterable[TypePolicy] | None = None) -> list[TooLong]:
    """The starving ones of the types with these policies, or of all, with how long the next job has
    been ready."""
    now = clock.now()
    return [TooLong(each.type, labels.age(each.since, now)) for each in starving(now, policies)]


def capacity_sentence(workers: Sequence[Worker]) -> str:
    """How many jobs can run at once, and how late one starts at worst, by the live figures."""
    inside = [worker for worker in workers if worker.kind == Worker.Kind.CELERY]
    places = sum(worker.capacity for worker in inside)
    if not places:
        return gettext("No worker of ours is alive: no job starts until one is.")
    busy = sum(min(worker.running, worker.capacity) for worker in inside)
    period = conf.JOB_SCAN_SECONDS
    return gettext(
        "Places: %(places)d, free: %(free)d. The table is looked through every %(period)d s, which "
        "is %(looks)s looks a second for all workers together; so while a place is free, a job "
        "starts at the latest %(period)d s after it is due, and as a rule at once by a wake-up."
    ) % {
        "places": places,
        "free": places - busy,
        "period": period,
        "looks": number_format(1 / period, 2),
    }
