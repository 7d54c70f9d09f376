"""Audit of limits by key: who has a place, who is blocked, and by what each counts."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from typing import Any

from django.utils.translation import gettext_lazy as _

from apps.common import clock, ids
from apps.common.audit import APART, MAX_FOUND, Breach, Check, CheckResult, say
from apps.common.db import fetch, table
from apps.common.errors import Invalid
from apps.jobs.models import Job, JobType, KeyState
from apps.jobs.rules import transitions as t
from apps.jobs.services.action_effects import limit_id_of

# The sweep comes round to each key within a minute.
ADMITTED_WITHIN = timedelta(minutes=2)

_PLACED = "status IN ({})".format(", ".join(f"'{status}'" for status in t.PLACED))
_BLOCKED_LONG = f"b.status = '{t.BLOCKED}' AND b.created_at < %s AND b.run_at < %s"


def _places(_recent: int) -> CheckResult:
    """I69: of no limited key more jobs have a place than the type allows, counted without those
    that are older than the latest change of the type; none is blocked for long although its key
    has a free place and its rate allows one, or its type has no limit by key any more."""
    types = [*JobType.objects.exclude(limit_by="")]
    breaches = [each for type_ in types for each in (*_crowding(type_), *_left(type_))]
    breaches += _unlimited()
    return CheckResult(len(types), breaches[:MAX_FOUND], len(breaches) > MAX_FOUND)


def _crowding(type_: JobType) -> Iterator[Breach]:
    limit, since = type_.limit_running, ids.lowest_id_at(type_.updated_at)
    if limit is None:
        return
    rows = fetch(
        f"SELECT MIN(id), COUNT(*) FROM {table(Job)} WHERE type = %s AND {_PLACED} "
        "AND limit_id IS NOT NULL AND id > %s "
        f"GROUP BY limit_id HAVING COUNT(*) > %s LIMIT {MAX_FOUND}",
        [type_.name, since, limit],
    )
    words = _("is one of %(count)d jobs of its key with a place; the limit is %(limit)d")
    for number, count in rows:
        yield Breach("I69", f"job {number}", say(words, {"count": count, "limit": limit}))


def _left(type_: JobType) -> Iterator[Breach]:
    """One job of each key that has a free place."""
    late = clock.now() - ADMITTED_WITHIN
    values: list[Any] = [type_.name, late, late, late]
    # Until then the rate of a key allows none.
    free = (
        f"NOT EXISTS (SELECT 1 FROM {table(KeyState)} k "
        "WHERE k.limit_id = b.limit_id AND k.look_at > %s)"
    )
    if type_.limit_running is not None:
        free += (
            f" AND (SELECT COUNT(*) FROM {table(Job)} p "
            f"WHERE p.limit_id = b.limit_id AND p.{_PLACED}) < %s"
        )
        values.append(type_.limit_running)
    rows = fetch(
        f"SELECT MIN(b.id) FROM {table(Job)} b WHERE b.type = %s AND {_BLOCKED_LONG} "
        f"GROUP BY b.limit_id HAVING {free} LIMIT {MAX_FOUND}",
        values,
    )
    for (number,) in rows:
        text = say(_("is blocked, and its key has a free place"), {})
        yield Breach("I69", f"job {number}", text)


def _unlimited() -> Iterator[Breach]:
    """One job of each type that has no limit by key."""
    late = clock.now() - ADMITTED_WITHIN
    rows = fetch(
        f"SELECT MIN(b.id) FROM {table(Job)} b JOIN {table(JobType)} y ON y.name = b.type "
        f"WHERE {_BLOCKED_LONG} AND y.limit_by = '' AND y.updated_at < %s "
        f"GROUP BY b.type LIMIT {MAX_FOUND}",
        [late, late, late],
    )
    for (number,) in rows:
        text = say(_("is blocked, and its type has no limit by key"), {})
        yield Breach("I69", f"job {number}", text)


def _keys(recent: int) -> CheckResult:
    """I69: the newest open jobs count for the keys that they name, those of types that have not
    been changed since."""
    since = dict(JobType.objects.exclude(limit_by="").values_list("name", "updated_at"))
    newest = f"SELECT id, limit_id, finished_at FROM {table(Job)} ORDER BY id DESC LIMIT %s"
    numbers = fetch(
        f"SELECT id FROM ({newest}) j WHERE limit_id IS NOT NULL AND finished_at IS NULL LIMIT %s",
        [recent, recent // 100],
    )
    jobs = Job.objects.filter(pk__in=[number for (number,) in numbers], type__in=since)
    own = [job for job in jobs if job.pk > ids.lowest_id_at(since[job.type] + APART)]
    breaches = [
        Breach("I69", f"job {job.pk}", say(_("counts for another key than it names"), {}))
        for job in own
        if _limit_id_of(job) != job.limit_id
    ]
    return CheckResult(len(own), breaches)


def _limit_id_of(job: Job) -> int | None:
    try:
        return limit_id_of(job)
    except Invalid:
        return None


CHECKS = (
    Check(
        "places of limited keys",
        ("I69",),
        _("Jobs of limited keys have the places that the limit allows, and no more"),
        _places,
    ),
    Check(
        "keys of limited jobs",
        ("I69",),
        _("The newest open jobs count for the keys that they name"),
        _keys,
        recent=True,
    ),
)
