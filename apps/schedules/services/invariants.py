"""Audit of schedules: the runs as SQL over the rows."""

from __future__ import annotations

from django.db import connection
from django.utils.translation import gettext_lazy as _

from apps.common.audit import MAX_FOUND, Breach, Check, CheckResult, count_of, say
from apps.common.db import fetch, table
from apps.jobs.models import Job
from apps.schedules.models import Schedule, ScheduleRun


def _runs(_recent: int) -> CheckResult:
    """I64: each run has a job or a reason why not, and no two have the same job."""
    runs = table(ScheduleRun)
    odd = fetch(
        f"SELECT schedule_id, occurrence FROM {runs} WHERE (job IS NULL) = (why = '') "
        "OR (job IS NULL) <> (outcome IN ('skipped', 'refused')) "
        f"ORDER BY id LIMIT {MAX_FOUND + 1}"
    )
    shared = fetch(
        f"SELECT MIN(schedule_id), MIN(occurrence), job, COUNT(*) FROM {runs} "
        f"WHERE job IS NOT NULL GROUP BY job HAVING COUNT(*) > 1 LIMIT {MAX_FOUND + 1}"
    )
    words = _("%(count)d runs have its job %(job)d")
    breaches = [
        Breach("I64", f"schedule:{schedule}@{occurrence}", say(_NEITHER, {}))
        for schedule, occurrence in odd[:MAX_FOUND]
    ] + [
        Breach("I64", f"schedule:{schedule}@{occurrence}", say(words, {"count": count, "job": job}))
        for schedule, occurrence, job, count in shared[:MAX_FOUND]
    ]
    return CheckResult(count_of(ScheduleRun), breaches, max(len(odd), len(shared)) > MAX_FOUND)


_NEITHER = _("needs either a job or a reason why there is none")


def _jobs(recent: int) -> CheckResult:
    """I64: no occurrence of the newest runs has a second job."""
    key = connection.ops.quote_name("key")
    name = "'schedule:' || r.schedule_id || '@' || r.occurrence"
    if connection.vendor == "mysql":
        name = "CONCAT('schedule:', r.schedule_id, '@', r.occurrence)"
    newest = f"SELECT * FROM {table(ScheduleRun)} ORDER BY id DESC LIMIT {int(recent)}"
    found = fetch(
        f"SELECT r.schedule_id, r.occurrence, j.id FROM ({newest}) r "
        f"JOIN {table(Schedule)} s ON s.id = r.schedule_id "
        f"JOIN {table(Job)} j ON j.type = s.job_type AND j.{key} = {name} "
        f"WHERE r.job IS NULL OR j.id <> r.job ORDER BY r.id LIMIT {MAX_FOUND + 1}"
    )
    words = _("job %(job)d is not that of the run")
    breaches = [
        Breach("I64", f"schedule:{schedule}@{occurrence}", say(words, {"job": job}))
        for schedule, occurrence, job in found[:MAX_FOUND]
    ]
    [(rows,)] = fetch(f"SELECT COUNT(*) FROM ({newest}) r")
    return CheckResult(rows, breaches, len(found) > MAX_FOUND)


CHECKS = (
    Check(
        "schedule runs", ("I64",), _("Each run has one job, or a reason why there is none"), _runs
    ),
    Check(
        "jobs of schedules",
        ("I64",),
        _("No occurrence of the newest runs has a second job"),
        _jobs,
        recent=True,
    ),
)
