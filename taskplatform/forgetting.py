"""Removal from the tables of Django and django-axes: sessions that are over, and old sign-ins."""

from __future__ import annotations

from datetime import datetime, timedelta

from axes.models import AccessAttempt, AccessFailureLog, AccessLog
from django.contrib.admin.models import LogEntry
from django.contrib.sessions.models import Session

from apps.common import tidy
from apps.journal.services.retention import horizon

# Wrong passwords count for a quarter of an hour; people look at them for longer.
_ATTEMPTS_KEPT = timedelta(days=30)


def forget_sessions(now: datetime) -> int:
    return tidy.remove(Session.objects.filter(expire_date__lt=now).order_by("expire_date"))


def forget_attempts(now: datetime) -> int:
    """Remove old wrong passwords; each new one renews its row, so the table is read as a whole."""
    return tidy.remove(AccessAttempt.objects.filter(attempt_time__lt=now - _ATTEMPTS_KEPT))


def forget_refused(now: datetime) -> int:
    """Remove old failures, which are only kept with AXES_ENABLE_ACCESS_FAILURE_LOG."""
    failures = AccessFailureLog.objects.all()
    return tidy.remove_oldest(failures, "attempt_time", now - _ATTEMPTS_KEPT)


def forget_sign_ins(now: datetime) -> int:
    """Remove old sign-ins, which are kept as long as the journal, which has them too."""
    before = horizon(now)
    if before is None:
        return 0
    return tidy.remove_oldest(AccessLog.objects.all(), "attempt_time", before)


def forget_edits(now: datetime) -> int:
    """Remove old entries of Django's log of edits; the journal has the edits, too."""
    before = horizon(now)
    return (
        0 if before is None else tidy.remove_oldest(LogEntry.objects.all(), "action_time", before)
    )


def connect() -> None:
    """Have the tables tidied."""
    tidy.register("sessions", forget_sessions)
    tidy.register("wrong passwords", forget_attempts)
    tidy.register("refused sign-ins", forget_refused)
    tidy.register("sign-ins", forget_sign_ins)
    tidy.register("edits", forget_edits)
