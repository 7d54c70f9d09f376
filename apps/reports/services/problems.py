"""What people say about a problem: that they have seen it, or that it may wait for a time."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime, timedelta

from apps.common import clock, tidy
from apps.common.db import transactional
from apps.journal import services as journal
from apps.journal.models import Source
from apps.reports.models import Problem

KEPT = timedelta(days=90)
_AT_ONCE = 200


def of(names: Iterable[tuple[str, str]]) -> dict[tuple[str, str], Problem]:
    """What is known of these problems, each named by its kind and key."""
    wanted = sorted(set(names))[:_AT_ONCE]
    if not wanted:
        return {}
    rows = Problem.objects.filter(key__in=[key for _kind, key in wanted])
    return {(row.kind, row.key): row for row in rows}


def forget(now: datetime) -> int:
    """Remove the first of those of which nobody has said anything for long; returns how many."""
    return tidy.remove(Problem.objects.filter(last_seen__lt=now - KEPT).order_by("last_seen"))


def seen(kind: str, key: str, *, actor: str, note: str = "") -> Problem:
    """Somebody has seen it; it stays in sight."""
    return _say(kind, key, Problem.State.SEEN, actor=actor, note=note, until=None)


def snooze(kind: str, key: str, *, time: timedelta, actor: str, note: str = "") -> Problem:
    """Nobody needs to look at it for this time."""
    until = clock.now() + time
    return _say(kind, key, Problem.State.SNOOZED, actor=actor, note=note, until=until)


@transactional
def _say(
    kind: str, key: str, state: str, *, actor: str, note: str, until: datetime | None
) -> Problem:
    now = clock.now()
    said = {
        "state": state,
        "by": actor[:160],
        "note": note[: Problem.MAX_NOTE],
        "until": until,
        "changed_at": now,
        "last_seen": now,
    }
    row, _is_new = Problem.objects.update_or_create(
        kind=kind, key=key, defaults=said, create_defaults={**said, "first_seen": now}
    )
    data = {"kind": kind, "key": key, **({"until": until.isoformat()} if until else {})}
    journal.write(
        [
            journal.Entry(
                at=now,
                source=Source.PLAN,
                subject_id=0,
                event=f"problem_{state}",
                actor=actor,
                reason=note,
                data=data,
            )
        ]
    )
    return row
